"""Checks that a wheel of endcap runs wherever its name promises, and holds what it should.

python scripts/check_wheel.py dist/endcap-0.1.0-cp311-cp311-manylinux_2_35_x86_64.whl

Prints each problem and exits with 1, or prints the size and exits with 0. The list of files is
compared with the source tree that this script lies in. Needs pyelftools and cyclonedx-python-lib.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import sbom  # beside this file, as the next three
from elf_facts import ElfFacts, Hardening, read_elf
from sbom import IMAGE_LIBRARIES

ROOT = Path(__file__).resolve().parent.parent
NEWEST_GLIBC = (2, 35)  # Ubuntu 22.04, the oldest of NVIDIA's images that the backends are for
BACKENDS = (
    "endcap_preprocess",
    "endcap_postprocess",
    "endcap_onnx",
    "endcap_bls",
    "endcap_track",
)
# Folders of what decodes images, and the libraries that it needs beside it.
DECODERS = ("endcap", "endcap/backends/endcap_preprocess")
METADATA = (
    "METADATA",
    "RECORD",
    "WHEEL",
    "entry_points.txt",
    "licenses/LICENSE",
    "licenses/THIRD_PARTY_LICENSES.txt",
    sbom.SBOM_NAME,
)
# What the notices must speak of, since it is inside the libraries.
NOTICES = (
    "libjpeg-turbo",
    "Independent JPEG Group",
    "libpng",
    "libwebp",
    "giflib",
    "pybind11",
    "nlohmann/json",
    "Highway",
    "GCC RUNTIME LIBRARY EXCEPTION",
    "NVIDIA CUDA Runtime",
    "CUB",
)
PYTHON_STUB = "endcap/backends/python_stub/triton_python_backend_stub"
CUDA_LIBRARY = "endcap/libendcap_cuda.so"
C_LIBRARY = "endcap/libendcap_c.so"
# Files that are not marked as fit for a shadow stack: Debian compiles its image
# libraries without -fcf-protection, and NVIDIA libcudart_static.a.
WITHOUT_SHADOW_STACK = (
    *(f"libendcap_{name}.so" for name in IMAGE_LIBRARIES),
    Path(CUDA_LIBRARY).name,
)
WITHOUT_BIND_NOW = ("libendcap_webp.so",)  # as Debian links libwebp
C_HEADER = "endcap/include/endcap/c_api.h"
SYSTEM_LIBRARY = re.compile(
    r"(libc|libm|libdl|libpthread|librt|libz|ld-linux-x86-64|ld-linux-aarch64)\.so\.\d"
)


def machine_of(wheel: Path) -> str:
    """Return the machine that a wheel's name says, "x86_64" or "aarch64"."""
    return "aarch64" if wheel.stem.endswith("_aarch64") else "x86_64"


def check_tag(wheel: Path) -> Iterator[str]:
    """Check that the name promises glibc 2.35 or older on one machine, for one CPython."""
    tags = re.fullmatch(r"endcap-[\d.\w]+-(cp3\d+)-\1t?-(.+)\.whl", wheel.name)
    if tags is None:
        yield f"{wheel.name} is not named endcap-VERSION-cp3X-cp3X[t]-PLATFORM.whl"
        return
    machine = machine_of(wheel)
    old = [f"manylinux{year}_{machine}" for year in ("2014", "2010", "1")]
    for platform in tags[2].split("."):
        glibc = re.fullmatch(rf"manylinux_(\d+)_(\d+)_{machine}", platform)
        if platform in old:
            continue
        if glibc is None or (int(glibc[1]), int(glibc[2])) > NEWEST_GLIBC:
            yield (
                f"the platform {platform} is not manylinux_{NEWEST_GLIBC[0]}_{NEWEST_GLIBC[1]} or "
                "older; build on Debian 12 or Ubuntu 22.04"
            )


def expected_files(wheel: Path, *, cuda: bool = True) -> set[str]:
    """Every path that the wheel is to hold; `cuda`: with GPU code."""
    distribution, version, _, abi = wheel.name.split("-")[:4]
    suffix = f"{abi.replace('cp', 'cpython-')}-{machine_of(wheel)}-linux-gnu"
    extension = f"endcap/_core.{suffix}.so"
    return {
        *_files_below(ROOT / "pyext" / "endcap", "endcap"),
        *_files_below(ROOT / "model_repository", "endcap/model_repository"),
        *_files_below(ROOT / "deploy", "endcap/deploy"),
        *_files_below(ROOT / "backends" / "dali", "endcap/dali/sources", "*.cc"),
        *_files_below(ROOT / "backends" / "dali", "endcap/dali/sources", "*.h"),
        *(f"{distribution}-{version}.dist-info/{name}" for name in METADATA),
        *(f"endcap/backends/{name}/libtriton_{name}.so" for name in BACKENDS),
        *(f"{folder}/libendcap_{name}.so" for folder in DECODERS for name in IMAGE_LIBRARIES),
        PYTHON_STUB,
        extension,
        C_LIBRARY,
        C_HEADER,
        *([CUDA_LIBRARY] if cuda else []),
    }


def _files_below(folder: Path, place: str, pattern: str = "*") -> Iterator[str]:
    for path in folder.rglob(pattern):
        if path.is_file() and "__pycache__" not in path.parts:
            yield f"{place}/{path.relative_to(folder).as_posix()}"


def check_files(wheel: Path, names: set[str], *, cuda: bool = True) -> Iterator[str]:
    """Nothing is missing, and nothing got in."""
    expected = expected_files(wheel, cuda=cuda)
    for name in sorted(expected - names):
        yield f"{name} is missing"
    for name in sorted(names - expected):
        yield f"{name} is in the wheel, but neither in the source tree nor expected"


def check_notices(unpacked: Path) -> Iterator[str]:
    """Check that the licences of bundled libraries are there."""
    for path in unpacked.glob("*.dist-info/licenses/THIRD_PARTY_LICENSES.txt"):
        text = path.read_text(encoding="utf-8")
        for name in NOTICES:
            if name not in text:
                yield f"THIRD_PARTY_LICENSES.txt says nothing of {name}"


def check_library(path: Path, facts: ElfFacts) -> Iterator[str]:
    """Needs the system and its neighbours only, is found beside itself, shows what it should."""
    for name in facts.needed:
        neighbour = name.startswith("libendcap_") and (path.parent / name).is_file()
        if not neighbour and not SYSTEM_LIBRARY.fullmatch(name):
            yield f"needs {name}, which is neither the system's nor beside it"
    needs_neighbour = any(name.startswith("libendcap_") for name in facts.needed)
    if facts.search_path != ["$ORIGIN"] and (facts.search_path or needs_neighbour):
        yield f"looks for libraries in {facts.search_path}, and not in $ORIGIN alone"
    if facts.newest_glibc > NEWEST_GLIBC:
        yield f"needs glibc {facts.newest_glibc}, newer than {NEWEST_GLIBC}"
    if facts.has_symbol_table:
        yield "is not stripped"
    if path.name.startswith("libtriton_"):
        foreign = [name for name in facts.exported if not name.startswith("TRITONBACKEND_")]
        if foreign or not facts.exported:
            yield f"exports {foreign or 'nothing'}, and not just TRITONBACKEND_*"
    if path.name == Path(C_LIBRARY).name:
        foreign = [name for name in facts.exported if not name.startswith("endcap_")]
        if foreign or not facts.exported:
            yield f"exports {foreign or 'nothing'}, and not just endcap_*"
    if path.name == Path(CUDA_LIBRARY).name and facts.exported != ["EndcapCudaApi"]:
        yield f"exports {facts.exported or 'nothing'}, and not just EndcapCudaApi"


def check_hardening(path: Path, hardening: Hardening, machine: str = "x86_64") -> Iterator[str]:
    """Has the protection that cmake/EndcapTarget.cmake asks compiler and linker for."""
    binds_now = hardening.bind_now or path.name in WITHOUT_BIND_NOW
    if not hardening.relro or not binds_now:
        yield "has no full RELRO; link it with -z relro -z now"
    if hardening.executable_stack:
        yield "asks for an executable stack; link it with -z noexecstack"
    if hardening.text_relocations:
        yield "relocates code; compile all of it with -fPIC"
    if not hardening.position_independent:
        yield "is not position-independent; link it with -pie"
    if not hardening.stack_protector:
        yield "has no stack protector; compile it with -fstack-protector-strong"
    shadow_stack = machine == "x86_64" and path.name not in WITHOUT_SHADOW_STACK
    if shadow_stack and "SHSTK" not in hardening.features:
        yield "is not marked as fit for a shadow stack; use -fcf-protection and -z shstk"


def check_paths(path: Path, folder: Path) -> Iterator[str]:
    """No file tells where it was built."""
    where = re.compile(rb"(?<![\w.-])" + re.escape(str(folder).encode()) + rb"(?![\w.-])")
    if where.search(path.read_bytes()):
        yield f"holds the path {folder} of the machine that built it"


def check(wheel: Path, *, cuda: bool = True) -> Iterator[str]:
    """Yield every problem of a wheel.

    Args:
        wheel: The file.
        cuda: Whether the wheel is to hold GPU code.
    """
    with tempfile.TemporaryDirectory(prefix="endcap-wheel-") as folder:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
            names = {name for name in archive.namelist() if not name.endswith("/")}
        yield from check_tag(wheel)
        yield from check_files(wheel, names, cuda=cuda)
        yield from check_notices(Path(folder))
        yield from sbom.check_sbom(Path(folder), names)
        yield from sbom.check_record(Path(folder), names)
        for name in sorted(names):
            path = Path(folder, name)
            problems = [*check_paths(path, ROOT)]
            if ".so" in path.suffixes or name == PYTHON_STUB:
                facts = read_elf(path)
                problems += check_library(path, facts)
                problems += check_hardening(path, facts.hardening, machine_of(wheel))
            yield from (f"{name} {problem}" for problem in problems)


def main() -> int:
    """Check the wheel that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--without-cuda", action="store_true", help="the wheel has no GPU code")
    options = parser.parse_args()
    wheel: Path = options.wheel
    problems = list(check(wheel, cuda=not options.without_cuda))
    for problem in problems:
        print(f"{wheel.name}: {problem}", file=sys.stderr)
    if not problems:
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB, every check passed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
