"""Architectures of the GPU code inside a shared object. Needs pyelftools, and no CUDA toolkit.

nvcc puts the code of each source file into the section `.nv_fatbin` as a container: a header of 16
bytes and one entry per architecture, PTX or machine code. Entries may be compressed, their headers
are not. `cuobjdump --list-elf --list-ptx` lists the same entries.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.elffile import ELFFile

_MAGIC = 0xBA55ED50
_CONTAINER = struct.Struct("<IHHQ")  # magic, version, bytes of this header, bytes of the entries
_ENTRY = struct.Struct("<HHIQ")  # kind, version, bytes of this header, bytes of the code
_ARCHITECTURE = struct.Struct("<I")  # at byte 28 of an entry: 90 for compute capability 9.0
_ARCHITECTURE_OFFSET = 28
_PTX, _MACHINE_CODE = 1, 2


@dataclass(frozen=True)
class GpuCode:
    """Architectures that the whole library has code for.

    Attributes:
        machine: Compute capabilities (90 for 9.0) with machine code from every source file.
        ptx: The same of PTX, which the driver compiles for later architectures.
    """

    machine: frozenset[int] = frozenset()
    ptx: frozenset[int] = frozenset()

    def __str__(self) -> str:
        """List both: `machine code for 9.0, PTX for 10.0`."""
        kinds = (("machine code", self.machine), ("PTX", self.ptx))
        parts = [f"{kind} for {_names(architectures)}" for kind, architectures in kinds]
        present = [part for part, (_, found) in zip(parts, kinds, strict=True) if found]
        return ", ".join(present) or "no GPU code"


def read_gpu_code(library: Path) -> GpuCode:
    """Read which architectures a shared object has code for.

    Raises:
        ELFError: `library` is not an ELF file.
        ValueError: The section with GPU code has an unknown layout.
    """
    with library.open("rb") as stream:
        section = ELFFile(stream).get_section_by_name(".nv_fatbin")
        data = b"" if section is None else section.data()
    try:
        containers = list(_containers(data))
    except struct.error:
        raise ValueError(f"{library}: .nv_fatbin ends in the middle of a header") from None
    if not containers:
        return GpuCode()
    in_all = frozenset.intersection(*containers)
    return GpuCode(
        frozenset(architecture for kind, architecture in in_all if kind == _MACHINE_CODE),
        frozenset(architecture for kind, architecture in in_all if kind == _PTX),
    )


def machine_architectures(architectures: str) -> frozenset[int]:
    """Return the compute capabilities that CMake's list asks machine code for.

    Args:
        architectures: Value of CMAKE_CUDA_ARCHITECTURES, such as "80-real;90".

    Raises:
        ValueError: An entry is not a number with an optional suffix, or no entry asks for machine
            code.
    """
    found = set()
    for entry in architectures.replace(" ", ";").split(";"):
        parsed = re.fullmatch(r"(\d+)[af]?(-real|-virtual)?", entry)
        if parsed is None:
            raise ValueError(
                f"architectures {architectures!r}: {entry!r} is not of the form 90-real, "
                "90-virtual or 90"
            )
        if parsed[2] != "-virtual":
            found.add(int(parsed[1]))
    if not found:
        raise ValueError(f"architectures {architectures!r} are PTX alone; name one such as 90-real")
    return frozenset(found)


def missing_machine_code(library: Path, wanted: Iterable[int]) -> Iterator[str]:
    """Yield a problem for each compute capability that `library` has no machine code for."""
    code = read_gpu_code(library)
    for architecture in sorted(frozenset(wanted) - code.machine):
        yield (
            f"has no machine code for compute capability {_names([architecture])} (it has {code}); "
            f"build it with `make gpu-kit GPU_ARCHITECTURES={architecture}-real`"
        )


def _containers(data: bytes) -> Iterator[frozenset[tuple[int, int]]]:
    """Yield kind and architecture of the entries of each container that is not empty."""
    at = 0
    while at < len(data):
        magic, _, header_bytes, size = _CONTAINER.unpack_from(data, at)
        if magic != _MAGIC:
            if any(data[at : at + 8]):  # between containers stand zeros at most
                raise ValueError(f".nv_fatbin has an unknown layout at byte {at}")
            at += 8
            continue
        at += header_bytes
        end = at + size
        entries = set()
        while at < end:
            kind, _, entry_bytes, code_bytes = _ENTRY.unpack_from(data, at)
            (architecture,) = _ARCHITECTURE.unpack_from(data, at + _ARCHITECTURE_OFFSET)
            entries.add((kind, architecture))
            at += entry_bytes + code_bytes
        if entries:
            yield frozenset(entries)


def _names(architectures: Iterable[int]) -> str:
    return " ".join(f"{number // 10}.{number % 10}" for number in sorted(architectures))
