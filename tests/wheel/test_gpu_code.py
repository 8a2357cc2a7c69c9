"""Architectures of GPU code are read from the library itself."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from elftools.common.exceptions import ELFError

import endcap

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import gpu_code  # noqa: E402
from gpu_code import GpuCode, machine_architectures, missing_machine_code  # noqa: E402

PTX, MACHINE_CODE = 1, 2
Entries = list[tuple[int, int]]  # kind, architecture


def container(entries: Entries, magic: int = 0xBA55ED50) -> bytes:
    """Returns a container as nvcc writes it, with code of 24 bytes."""
    body = b"".join(
        struct.pack("<HHIQ12xI32x", kind, 0x101, 64, 24, architecture) + bytes(24)
        for kind, architecture in entries
    )
    return struct.pack("<IHHQ", magic, 1, 16, len(body)) + body


def library_with(folder: Path, section: bytes) -> Path:
    """Links a shared object whose section .nv_fatbin holds these bytes."""
    (folder / "code.bin").write_bytes(section)
    source = folder / "code.s"
    source.write_text('.section .nv_fatbin,"a"\n.incbin "code.bin"\n')
    library = folder / "libendcap_cuda.so"
    command = ["gcc", "-shared", "-nostdlib", "-o", str(library), str(source)]
    subprocess.run(command, cwd=folder, check=True)
    return library


def test_code_counts_where_every_source_file_has_it(tmp_path: Path) -> None:
    both = container([(MACHINE_CODE, 80), (MACHINE_CODE, 90), (PTX, 90)])
    without_80 = container([(MACHINE_CODE, 90), (PTX, 90)])
    empty = container([])
    library = library_with(tmp_path, both + bytes(8) + empty + without_80)
    assert gpu_code.read_gpu_code(library) == GpuCode(frozenset({90}), frozenset({90}))
    assert list(missing_machine_code(library, [90])) == []
    (problem,) = missing_machine_code(library, [80, 90])
    assert "no machine code for compute capability 8.0" in problem
    assert "machine code for 9.0, PTX for 9.0" in problem
    assert "make gpu-kit GPU_ARCHITECTURES=80-real" in problem


def test_ptx_is_no_machine_code(tmp_path: Path) -> None:
    library = library_with(tmp_path, container([(PTX, 90)]))
    (problem,) = missing_machine_code(library, [90])
    assert "it has PTX for 9.0" in problem


@pytest.mark.parametrize(
    "section", [container([(PTX, 90)], magic=7), container([(PTX, 90)])[:40]], ids=["magic", "cut"]
)
def test_another_layout_is_refused(tmp_path: Path, section: bytes) -> None:
    with pytest.raises(ValueError, match="nv_fatbin"):
        gpu_code.read_gpu_code(library_with(tmp_path, section))


def test_a_library_without_gpu_code_has_none(tmp_path: Path) -> None:
    libraries = [path for root in endcap.__path__ for path in Path(root).glob("libendcap_c.so")]
    (problem,) = missing_machine_code(libraries[0], [90])
    assert "it has no GPU code" in problem
    text = tmp_path / "text.so"
    text.write_text("not ELF at all")
    with pytest.raises(ELFError):
        gpu_code.read_gpu_code(text)


BUILT = [
    path for root in endcap.__path__ for path in Path(root).glob("libendcap_cuda.so")
]  # of this environment, whatever it was built for


@pytest.mark.skipif(not BUILT, reason="this build of endcap has no GPU code")
def test_what_was_built_is_found() -> None:
    """The library tells in words what CMake was asked for."""
    program = "import endcap; print(endcap.cuda_state().architectures)"
    environment = {"ENDCAP_CUDA_LIBRARY": str(BUILT[0]), "PATH": ""}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    words = done.stdout.split()
    assert words
    code = gpu_code.read_gpu_code(BUILT[0])
    assert code.machine == {int(w.split("-")[0]) for w in words if not w.endswith("-virtual")}
    assert code.ptx == {int(w.split("-")[0]) for w in words if not w.endswith("-real")}
    assert list(missing_machine_code(BUILT[0], code.machine)) == []
    assert len(list(missing_machine_code(BUILT[0], [*code.machine, 61]))) == 1


@pytest.mark.skipif(not BUILT, reason="this build of endcap has no GPU code")
@pytest.mark.skipif(shutil.which("cuobjdump") is None, reason="cuobjdump is not on PATH")
def test_cuobjdump_lists_the_same() -> None:
    command = ["cuobjdump", "--list-elf", "--list-ptx", str(BUILT[0])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    code = gpu_code.read_gpu_code(BUILT[0])
    for number in code.machine:
        assert f".sm_{number}.cubin" in done.stdout
    for number in code.ptx:
        assert f".sm_{number}.ptx" in done.stdout


@pytest.mark.parametrize(
    ("architectures", "expected"),
    [("90-real", {90}), ("80-real;90", {80, 90}), ("75-real 90-virtual", {75}), ("90a-real", {90})],
)
def test_architectures_with_machine_code(architectures: str, expected: set[int]) -> None:
    assert machine_architectures(architectures) == expected


@pytest.mark.parametrize(
    ("architectures", "message"),
    [("90-virtual", "PTX alone"), ("native", "'native' is not of the form"), ("", "not of the")],
)
def test_architectures_without_machine_code_are_refused(architectures: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        machine_architectures(architectures)
