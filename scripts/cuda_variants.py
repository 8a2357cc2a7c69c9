"""Build libendcap_cuda.so with other tuning constants, to compare them on a GPU.

    python scripts/cuda_variants.py OUTPUT [NAME:CONSTANT=VALUE,...]...

Examples:
    python scripts/cuda_variants.py build/variants
        the default variants, each with one constant changed
    python scripts/cuda_variants.py build/variants rows-16:PREPROCESS_MAX_BLOCK_ROWS=16
        the compiled defaults and one more
    python scripts/cuda_variants.py --list
        the constants, from csrc/common/cuda_tuning.h

Each variant becomes OUTPUT/NAME/libendcap_cuda.so, stripped; `default` has the defaults.
OUTPUT/variants.json holds what the compiler made of the kernels that depend on constants:
registers, shared memory and spills by ptxas, local memory and 16-byte accesses in machine code
where cuobjdump and nvdisasm are found. Only the sources of a stage whose constants are changed are
compiled again. ENDCAP_CUDA_LIBRARY names the library that a process uses;
tests/gpu/gpu_benchmark/variants.py measures all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

import kernel_report  # beside this file, as the next two
from gpu_code import machine_architectures
from steps import BuildError, Steps, prepare_folder

ROOT = Path(__file__).resolve().parent.parent
HEADER = "csrc/common/cuda_tuning.h"
LIBRARY = "libendcap_cuda.so"
RECORD = "variants.json"
DEFAULT_VARIANTS = (
    "block-rows-1:PREPROCESS_MAX_BLOCK_ROWS=1",
    "block-rows-2:PREPROCESS_MAX_BLOCK_ROWS=2",
    "block-rows-8:PREPROCESS_MAX_BLOCK_ROWS=8",
    "staged-rows-1:PREPROCESS_MAX_STAGED_ROWS=1",
    "threads-96:PREPROCESS_MAX_THREADS=96",
    "copied-resident-768:PREPROCESS_COPIED_RESIDENT=768",
    "copied-resident-1280:PREPROCESS_COPIED_RESIDENT=1280",
    "batch-rows-2:BOX_DECODE_BATCH_ROWS=2",
    "batch-rows-10:BOX_DECODE_BATCH_ROWS=10",
    "tile-blocks-3:BOX_DECODE_TILE_BLOCKS=3",
    "tile-blocks-5:BOX_DECODE_TILE_BLOCKS=5",
    # As many registers a thread as the default has.
    "tile-warps-16:BOX_DECODE_TILE_WARPS=16,BOX_DECODE_TILE_BLOCKS=2",
)
_DEFINE = re.compile(r"^#define ENDCAP_TUNE_(\w+) (\d+)$", re.MULTILINE)
_FUNCTION = re.compile(r"Compiling entry function '(\w+)' for 'sm_(\d+)\w?'")
_USED = re.compile(r"Used (\d+) registers(?:.*?, (\d+) bytes smem)?")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")


@dataclass(frozen=True)
class Variant:
    """A name, and constants (without ENDCAP_TUNE_) that differ from the defaults."""

    name: str
    constants: dict[str, int] = field(default_factory=dict)

    @property
    def stages(self) -> set[str]:
        """Folders below csrc whose kernels use the constants."""
        folders = ("box_decode", "preprocess")
        return {f for f in folders for name in self.constants if name.lower().startswith(f)}


def find_stage(source: Path) -> str:
    """Return the folder below csrc that a source file belongs to, such as `preprocess`."""
    parts = source.parts
    return parts[len(parts) - parts[::-1].index("csrc")]


def read_constants(header: Path) -> dict[str, int]:
    """Return the constants that a build can choose, with their defaults."""
    return {name: int(value) for name, value in _DEFINE.findall(header.read_text())}


def parse_variant(text: str, known: dict[str, int]) -> Variant:
    """Read "NAME:CONSTANT=VALUE,..."; ENDCAP_TUNE_ may stand before a constant.

    Raises:
        ValueError: The text is not of that form, or a constant is not in `known`.
    """
    match = re.fullmatch(r"([A-Za-z0-9][\w.-]*):((?:\w+=\d+,?)+)", text)
    if match is None or match[1] == "default":
        raise ValueError(
            f"variant {text!r} is not NAME:CONSTANT=VALUE,..., with a name other than default"
        )
    constants = {}
    for pair in match[2].rstrip(",").split(","):
        name, value = pair.split("=")
        name = name.removeprefix("ENDCAP_TUNE_")
        if name not in known:
            raise ValueError(f"variant {text!r}: {name} is none of {', '.join(known)}")
        constants[name] = int(value)
    return Variant(match[1], constants)


def parse_ptxas(output: str, architecture: int) -> dict[str, dict[str, int]]:
    """Return the figures of each kernel, by its mangled name, from ptxas' messages."""
    figures: dict[str, dict[str, int]] = {}
    current: dict[str, int] = {}
    for line in output.splitlines():
        if found := _FUNCTION.search(line):
            current = {}
            if int(found[2]) == architecture:
                figures[found[1]] = current
        elif found := _SPILLS.search(line):
            names = ("stack", "spill_stores", "spill_loads")
            current.update(zip(names, map(int, found.groups()), strict=True))
        elif found := _USED.search(line):
            current.update(registers=int(found[1]), shared=int(found[2] or 0))
    return figures


class VariantBuilder:
    """Compiles variants from a build tree in which the library is up to date."""

    def __init__(self, tree: Path, steps: Steps) -> None:
        """Read how the tree builds the library.

        Raises:
            BuildError: The tree has no such library, or its sources have no constants.
        """
        self._tree = tree
        self._steps = steps
        folders = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        self._ninja = shutil.which("ninja", path=folders) or "ninja"
        if not (tree / LIBRARY).is_file():
            raise BuildError(f"{tree} holds no {LIBRARY}; build the target endcap_cuda there")
        cache = (tree / "CMakeCache.txt").read_text()
        match = re.search(r"^ENDCAP_CUDA_ARCHITECTURES:\w+=(.*)$", cache, re.MULTILINE)
        self.architectures = match[1] if match else ""
        self.architecture = max(machine_architectures(self.architectures))
        *_, self._link = steps.run(self._ninja, "-C", tree, "-t", "commands", LIBRARY).splitlines()
        self._compile = self._find_sources()

    def _find_sources(self) -> dict[str, tuple[Path, str]]:
        """Return source and compile command, by object, of what depends on the constants."""
        found = {}
        for entry in json.loads((self._tree / "compile_commands.json").read_text()):
            produced = os.path.relpath(entry["output"], self._tree)
            if f" {produced} " in self._link:
                deps = self._steps.run(self._ninja, "-C", self._tree, "-t", "deps", produced)
                if HEADER in deps:
                    found[produced] = (Path(entry["file"]), entry["command"])
        if not found:
            raise BuildError(f"no source of {LIBRARY} in {self._tree} depends on {HEADER}")
        return found

    def build(self, variant: Variant, output: Path) -> dict[str, dict[str, object]]:
        """Compile and links one variant; one without constants is compiled for its figures.

        Args:
            variant: What to build.
            output: Folder of the stripped library.

        Returns:
            Figures of the kernels that were compiled, by name.

        Raises:
            BuildError: The compiler refuses a constant.
        """
        work = self._tree / "variants" / variant.name
        work.mkdir(parents=True, exist_ok=True)
        output.mkdir(parents=True)
        flags = "".join(f" -DENDCAP_TUNE_{name}={n}" for name, n in variant.constants.items())
        figures: dict[str, dict[str, object]] = {}
        link = self._link.replace(f" -o {LIBRARY} ", f" -o {shlex.quote(str(output / LIBRARY))} ")
        for produced, (source, command) in self._compile.items():
            if variant.constants and find_stage(source) not in {*variant.stages, "cuda_library"}:
                continue
            made = work / f"{find_stage(source)}-{source.name}.o"
            quoted = shlex.quote(str(made))
            verbose = " -Xptxas=-v" if source.suffix == ".cu" else ""
            compiling = command.replace(f" -o {produced}", f" -o {quoted}") + verbose + flags
            messages = self._steps.run("sh", "-c", compiling, folder=self._tree)
            link = link.replace(f" {produced} ", f" {quoted} ")
            if verbose:
                figures.update(self._figures(messages, made))
        self._steps.run("sh", "-c", link, folder=self._tree)
        self._steps.run("strip", output / LIBRARY)
        return figures

    def _figures(self, messages: str, made: Path) -> dict[str, dict[str, object]]:
        """Return the figures of an object's kernels, by name."""
        mangled = parse_ptxas(messages, self.architecture)
        named = dict(zip(kernel_report.readable(mangled), mangled.values(), strict=True))
        sass = {}
        if kernel_report.find_tool("cuobjdump") and kernel_report.find_tool("nvdisasm"):
            sass = kernel_report.read(made, f"sm_{self.architecture}")
        return {
            name: {**ptxas, "sass": _sass_figures(sass[name]) if name in sass else None}
            for name, ptxas in named.items()
        }


def _sass_figures(kernel: kernel_report.Kernel) -> dict[str, int]:
    return {
        "registers": kernel.registers,
        "local": kernel.stack + kernel.local,
        "wide_loads": kernel.wide_loads,
        "wide_stores": kernel.wide_stores,
    }


def configure_tree(steps: Steps, architectures: str) -> Path:
    """Build the library in a build tree of this script's own."""
    tree = ROOT / "build" / "cuda-variants"
    folders = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    cmake = shutil.which("cmake", path=folders) or "cmake"
    options = ("ENDCAP_BUILD_PYTHON=OFF", "ENDCAP_BUILD_BACKENDS=OFF", "ENDCAP_CUDA=ON")
    chosen = (f"-DENDCAP_CUDA_ARCHITECTURES={architectures}", *(f"-D{each}" for each in options))
    environment = {**os.environ, "PATH": folders}
    steps.run(cmake, "-S", ROOT, "-B", tree, "-G", "Ninja", *chosen, environment=environment)
    steps.run(cmake, "--build", tree, "--target", "endcap_cuda", environment=environment)
    return tree


def build_variants(
    output: Path, variants: list[Variant], builder: VariantBuilder, steps: Steps
) -> None:
    """Build the defaults and `variants` into `output`, with their figures.

    Raises:
        BuildError: `output` holds other files, or a variant cannot be built.
    """
    prepare_folder(output, mark=RECORD)
    architecture = f"sm_{builder.architecture}"
    record: dict[str, object] = {"architectures": builder.architectures, "sm": architecture}
    described: dict[str, object] = {}
    default: dict[str, dict[str, object]] = {}
    everything = [Variant("default"), *variants]
    for number, variant in enumerate(everything, 1):
        with steps.step(f"{number} of {len(everything)}: {variant.name}"):
            try:
                figures = builder.build(variant, output / variant.name)
            except BuildError as error:
                raise BuildError(f"variant {variant.name}: {error}") from None
        default = default or figures
        described[variant.name] = {
            "constants": variant.constants,
            "bytes": (output / variant.name / LIBRARY).stat().st_size,
            "kernels": {**default, **figures},
        }
        record["variants"] = described
        (output / RECORD).write_text(json.dumps(record, indent=1) + "\n")
        spilled = [name for name, each in figures.items() if each.get("spill_stores")]
        if spilled:
            steps.say(f"  registers are spilled: {', '.join(spilled)}")


def main() -> int:
    """Build the variants that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", type=Path, nargs="?", help="folder of the variants")
    parser.add_argument("variants", nargs="*", help="NAME:CONSTANT=VALUE,...")
    parser.add_argument("--list", action="store_true", help="print the constants and end")
    parser.add_argument(
        "--tree", type=Path, help="build tree with an up-to-date library, instead of a new one"
    )
    parser.add_argument(
        "--architectures", default="90-real", help="of a new tree (default: %(default)s)"
    )
    options = parser.parse_args()
    known = read_constants(ROOT / HEADER)
    if options.list:
        print("\n".join(f"{name}={value}" for name, value in known.items()))
        return 0
    if options.output is None:
        parser.error("OUTPUT is missing")
    try:
        variants = [parse_variant(each, known) for each in options.variants or DEFAULT_VARIANTS]
        machine_architectures(options.architectures)
    except ValueError as error:
        parser.error(str(error))
    if len({variant.name for variant in variants}) < len(variants):
        parser.error("two variants have the same name")
    steps = Steps()
    try:
        tree = options.tree
        if tree is None:
            with steps.step("library with the defaults"):
                tree = configure_tree(steps, options.architectures)
        builder = VariantBuilder(tree.resolve(), steps)
        build_variants(options.output.resolve(), variants, builder, steps)
    except (BuildError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    steps.say(f"{options.output}: {len(variants) + 1} variants, figures in {RECORD}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
