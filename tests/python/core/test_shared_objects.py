"""What the package's shared objects show to others and need from them."""

from __future__ import annotations

import platform
import re
import subprocess
from pathlib import Path

import pytest

import endcap

NEWEST_GLIBC = (2, 35)  # Ubuntu 22.04
NEWEST_BUILDER = (2, 36)  # Debian 12: what is built on it still runs with 2.35
# An editable install has two package folders: the sources, and what was built.
FOLDERS = [Path(folder) for folder in endcap.__path__]
LIBRARIES = [
    path
    for folder in FOLDERS
    for pattern in ("backends/*/*.so", "backends/python_stub/triton_*", "*.so")
    for path in folder.glob(pattern)
]
BACKENDS = [path for path in LIBRARIES if path.name.startswith("libtriton_")]
C_LIBRARIES = [path for path in LIBRARIES if path.name == "libendcap_c.so"]
EDITABLE = len(FOLDERS) > 1
SYSTEM_GLIBC = tuple(int(part) for part in platform.libc_ver()[1].split("."))
MODULES = [path for path in LIBRARIES if path.name.startswith("_core")]


def run_and_read(*command: str | Path) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=True)
    return done.stdout


def dynamic_entries(path: Path, kind: str) -> list[str]:
    """The values of one kind of entry in the dynamic section: NEEDED, RUNPATH and so on."""
    return re.findall(
        rf"\({kind}\).*\[(.*)\]", run_and_read("readelf", "--dynamic", "--wide", path)
    )


def short_name(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def test_all_of_them_are_looked_at() -> None:
    names = {path.name for path in LIBRARIES}
    assert {
        "libtriton_endcap_preprocess.so",
        "libtriton_endcap_postprocess.so",
        "libtriton_endcap_onnx.so",
        "libtriton_endcap_bls.so",
        "libtriton_endcap_track.so",
        "triton_python_backend_stub",
        "libendcap_c.so",
        "libendcap_jpeg.so",
        "libendcap_png.so",
        "libendcap_webp.so",
        "libendcap_gif.so",
    } <= names
    assert len(MODULES) == 1


@pytest.mark.parametrize("path", BACKENDS, ids=short_name)
def test_backends_export_their_entry_points_only(path: Path) -> None:
    lines = run_and_read("nm", "--dynamic", "--defined-only", path).splitlines()
    names = [line.split()[-1] for line in lines]
    assert "TRITONBACKEND_ModelInstanceExecute" in names
    assert [name for name in names if not name.startswith("TRITONBACKEND_")] == []


def test_the_module_exports_neither_its_own_code_nor_the_jpeg_library() -> None:
    lines = run_and_read("nm", "--dynamic", "--defined-only", MODULES[0]).splitlines()
    names = [line.split()[-1] for line in lines]
    assert "PyInit__core" in names
    assert [name for name in names if re.match("jpeg_|_ZNK?6endcap", name)] == []


def test_the_c_library_comes_with_its_header_and_exports_what_that_declares() -> None:
    (library,) = C_LIBRARIES
    header = (library.parent / "include/endcap/c_api.h").read_text()
    declared = re.findall(r"ENDCAP_C [^;(]*?(endcap_\w+)\(", header)
    lines = run_and_read("nm", "--dynamic", "--defined-only", library).splitlines()
    assert declared
    assert sorted(line.split()[-1] for line in lines) == sorted(declared)


@pytest.mark.parametrize("path", LIBRARIES, ids=short_name)
def test_needed_are_the_system_s_libraries_and_neighbours_of_our_own(path: Path) -> None:
    needed = dynamic_entries(path, "NEEDED")
    assert any(name.startswith("libc.so.") for name in needed)
    for name in needed:
        if name.startswith("libendcap_"):
            assert (path.parent / name).is_file(), name
        else:
            # No libtritonserver, no libstdc++ and nobody else's libjpeg; zlib is the system's.
            assert re.match(r"(libc|libm|libdl|libpthread|librt|libz|ld-linux.*)\.so\.\d$", name), (
                name
            )


@pytest.mark.parametrize("path", [*BACKENDS, *MODULES, *C_LIBRARIES], ids=short_name)
def test_libraries_are_looked_for_beside_the_file(path: Path) -> None:
    assert dynamic_entries(path, "RUNPATH") == ["$ORIGIN"]
    assert dynamic_entries(path, "RPATH") == []


@pytest.mark.parametrize("path", LIBRARIES, ids=short_name)
def test_libraries_are_protected_against_exploitation(path: Path) -> None:
    segments = run_and_read("readelf", "--segments", "--wide", path)
    dynamic = run_and_read("readelf", "--dynamic", "--wide", path)
    assert "GNU_RELRO" in segments
    assert re.search(r"GNU_STACK\s.*\sRW\s", segments), "the stack is executable"
    assert "TEXTREL" not in dynamic
    if path.name != "libendcap_webp.so":  # as Debian links libwebp
        assert re.search(r"FLAGS.*\bNOW\b", dynamic)


@pytest.mark.skipif(
    EDITABLE and SYSTEM_GLIBC > NEWEST_BUILDER,
    reason="built here, for here; `make wheel` checks what is for other systems",
)
@pytest.mark.parametrize("path", LIBRARIES, ids=short_name)
def test_the_oldest_supported_glibc_is_new_enough(path: Path) -> None:
    versions = re.findall(r"\bGLIBC_(\d+)\.(\d+)", run_and_read("readelf", "--version-info", path))
    assert versions
    assert max((int(major), int(minor)) for major, minor in versions) <= NEWEST_GLIBC
