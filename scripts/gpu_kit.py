"""Assemble what tests/gpu/run.sh needs on a machine with a GPU and without network.

    python scripts/gpu_kit.py OUTPUT --wheels FOLDER --python PYTHON --architectures LIST
                              [--variants FOLDER]

OUTPUT gets
    wheels/               endcap from FOLDER, the tests' packages, tritonclient, nvJPEG
    tritonserver.tar.xz   NVIDIA's server and its libraries, without the Python backend
    variants.tar.xz       builds of the GPU code with other tuning constants
    kit.json, commit      what the kit was made from

PYTHON is an interpreter of the version that the GPU machine has. `make gpu-kit` builds wheel and
variants and calls this script in an environment with pip, the server's wheel and the tests'
packages; the kit gets their versions, which are known to work together.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import lzma
import shutil
import sys
import tarfile
import zipfile
from pathlib import Path

import check_wheel  # beside this file, as the next two
from gpu_code import machine_architectures, missing_machine_code
from steps import BuildError, Steps, prepare_folder

ROOT = Path(__file__).resolve().parent.parent
TESTS = (
    "hypothesis",
    "iniconfig",
    "packaging",
    "pluggy",
    "pygments",
    "pytest",
    "pytest-timeout",
    "sortedcontainers",
)
# gRPC and protobuf too: what a machine has of them seldom fits the client.
CLIENT = (
    "brotli",
    "certifi",
    "gevent",
    "geventhttpclient",
    "greenlet",
    "grpcio",
    "ml-dtypes",
    "protobuf",
    "python-rapidjson",
    "tritonclient",
    "typing-extensions",
    "urllib3",
    "zope-event",
    "zope-interface",
)
# Of the oldest driver that the code may meet, as nvcc is: see cuda-build in pyproject.toml.
NVJPEG = "nvidia-nvjpeg==13.0.*"
PLATFORMS = ("manylinux_2_28", "manylinux_2_17", "manylinux2014", "manylinux_2_5", "manylinux1")
MAX_BYTES = 60_000_000
CUDA_LIBRARY = "libendcap_cuda.so"
RECORD = "variants.json"
# A tenth smaller than a preset for programs, in a minute and a half.
SMALLEST = [
    {"id": lzma.FILTER_X86},
    {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME},
]


def find_wheel(folder: Path, python_tag: str, architectures: str) -> Path:
    """Return endcap's wheel for a Python, once every check of it has passed.

    Args:
        folder: Holds the wheel.
        python_tag: Such as "cp312".
        architectures: What the wheel must have machine code for, as CMAKE_CUDA_ARCHITECTURES.

    Raises:
        BuildError: There is no such wheel, or it fails a check.
    """
    wheels = sorted(folder.glob("endcap-*.whl"))
    fitting = [wheel for wheel in wheels if wheel.name.split("-")[2] == python_tag]
    if len(fitting) != 1:
        found = ", ".join(wheel.name for wheel in wheels) or "no wheel"
        raise BuildError(
            f"{folder} holds {found}, expected one wheel of endcap for {python_tag}; "
            "`make gpu-kit GPU_PYTHON=...` builds it"
        )
    wanted = machine_architectures(architectures)
    problems = list(check_wheel.check(fitting[0], machine_code=wanted))
    if problems:
        raise BuildError("\n".join(f"{fitting[0].name}: {problem}" for problem in problems))
    return fitting[0]


def fetch(steps: Steps, target: Path, python_tag: str) -> None:
    """Download the packages of the tests for a Python other than this one."""
    chosen = ("--no-deps", "--only-binary=:all:", "--implementation=cp")
    version = ("--python-version", python_tag.removeprefix("cp"))
    platforms = [f"--platform={name}_x86_64" for name in PLATFORMS]
    pip = (sys.executable, "-m", "pip", "download", "--dest", target)
    packages = [pinned(package) for package in (*TESTS, *CLIENT)]
    steps.run(*pip, *chosen, *version, *platforms, *packages, NVJPEG)


def pinned(package: str) -> str:
    """Return a requirement for the version of this environment."""
    try:
        return f"{package}=={importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        raise BuildError(f"{package} is not installed here; `make gpu-kit` installs it") from None


def repack(wheel: Path) -> None:
    """Compress a wheel by LZMA, which takes a quarter less; unpack_kit.py reads it."""
    smaller = wheel.with_suffix(".smaller")
    with (
        zipfile.ZipFile(wheel) as archive,
        zipfile.ZipFile(smaller, "w", zipfile.ZIP_LZMA) as written,
    ):
        for entry in archive.infolist():
            written.writestr(entry.filename, archive.read(entry))
    smaller.replace(wheel)


def pack_server(target: Path) -> None:
    """Pack bin/tritonserver and lib/ of the server's wheel, without Python and stubs."""
    package = importlib.util.find_spec("pytriton")
    if package is None or not package.submodule_search_locations:
        raise BuildError("nvidia-pytriton is not installed here; `make gpu-kit` installs it")
    folder = Path(package.submodule_search_locations[0])
    libraries = folder.parent / "nvidia_pytriton.libs"
    files = {"bin/tritonserver": folder / "tritonserver" / "bin" / "tritonserver"}
    for library in sorted(libraries.iterdir()):
        if not library.name.startswith("libpython"):
            files[f"lib/{library.name}"] = library
    pack(target, files)


def pack_variants(source: Path, target: Path, architectures: str) -> list[str]:
    """Pack the variants that scripts/cuda_variants.py built; returns their names.

    In one archive, as most of their code is the same: 13 of them take 2 MB there, and 23 MB as
    files.

    Raises:
        BuildError: There is none, or one has no machine code for `architectures`.
    """
    libraries = sorted(source.glob(f"*/{CUDA_LIBRARY}"))
    if not libraries:
        raise BuildError(f"{source} holds no NAME/{CUDA_LIBRARY}; build it, or give VARIANTS=none")
    for library in libraries:
        for problem in missing_machine_code(library, machine_architectures(architectures)):
            raise BuildError(f"{library} {problem}")
    pack(target, {str(path.relative_to(source)): path for path in [source / RECORD, *libraries]})
    return [library.parent.name for library in libraries]


def pack(target: Path, files: dict[str, Path]) -> None:
    """Write an archive with files under the names given."""
    with (
        lzma.open(target, "wb", filters=SMALLEST) as packed,
        tarfile.open(fileobj=packed, mode="w|") as archive,
    ):
        for name, path in files.items():
            archive.add(path, name)


def size_table(output: Path) -> tuple[str, int]:
    """Return a table of the sizes of a kit's files, and their sum in bytes."""
    sizes = {path: path.stat().st_size for path in output.rglob("*") if path.is_file()}
    rows = [
        ("-".join(str(path.relative_to(output)).split("-")[:2]), size)  # of a wheel, without tags
        for path, size in sorted(sizes.items(), key=lambda entry: -entry[1])
    ]
    shown = [row for row in rows if row[1] >= 1e5]
    shown.append((f"{len(rows) - len(shown)} smaller files", sum(s for _, s in rows[len(shown) :])))
    total = sum(sizes.values())
    shown.append(("all", total))
    width = max(len(name) for name, _ in shown)
    return "\n".join(f"{name:{width}}  {size / 1e6:6.2f} MB" for name, size in shown), total


def make_kit(options: argparse.Namespace) -> int:
    """Assemble the kit that the command line describes; return its size in bytes.

    Raises:
        BuildError: A part is missing or fails a check, or the kit is too large.
    """
    output: Path = options.output
    steps = Steps()
    version = steps.run(options.python, "-c", "import sys; print('cp%d%d' % sys.version_info[:2])")
    python_tag = version.strip()
    git = ("git", "-C", ROOT)
    facts = {
        "complete": False,
        "commit": steps.run(*git, "rev-parse", "HEAD").strip(),
        "dirty": bool(steps.run(*git, "status", "--porcelain", "--untracked-files=no").strip()),
        "python": python_tag,
        "architectures": options.architectures,
    }
    with steps.step(f"checks of the wheel for {python_tag}"):
        wheel = find_wheel(options.wheels, python_tag, options.architectures)
    prepare_folder(output, mark="kit.json")
    record = output / "kit.json"
    record.write_text(json.dumps(facts, indent=1) + "\n")
    (output / "commit").write_text(steps.run(*git, "describe", "--always", "--dirty"))
    (output / "wheels").mkdir()
    with steps.step("packages of the tests"):
        shutil.copy2(wheel, output / "wheels")
        fetch(steps, output / "wheels", python_tag)
    with steps.step("wheels compressed again"):
        for each in (output / "wheels").iterdir():
            repack(each)
    if options.variants is not None:
        with steps.step("variants of the GPU code"):
            facts["variants"] = pack_variants(
                options.variants, output / "variants.tar.xz", options.architectures
            )
    with steps.step("server, compressed by LZMA"):
        pack_server(output / "tritonserver.tar.xz")
    table, total = size_table(output)
    print(table)
    for name, seconds in steps.seconds.items():
        print(f"{name}: {seconds:.0f} s")
    if total > MAX_BYTES:
        raise BuildError(
            f"{output} takes {total / 1e6:.1f} MB, more than {MAX_BYTES / 1e6:.0f}; the table "
            "shows what takes how much; VARIANTS=none leaves the variants out"
        )
    record.write_text(json.dumps({**facts, "complete": True}, indent=1) + "\n")
    return total


def main() -> int:
    """Assemble the kit."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", type=Path)
    parser.add_argument("--wheels", type=Path, required=True, help="folder with endcap's wheel")
    parser.add_argument("--python", type=Path, required=True, help="of the GPU machine's version")
    parser.add_argument("--architectures", required=True, help="of the GPU code: 90-real")
    parser.add_argument("--variants", type=Path, help="folder that cuda_variants.py wrote")
    options = parser.parse_args()
    try:
        total = make_kit(options)
    except (BuildError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    print(
        f"{options.output}: {total / 1e6:.1f} MB; on a machine with a GPU: "
        f"tests/gpu/run.sh {options.output}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
