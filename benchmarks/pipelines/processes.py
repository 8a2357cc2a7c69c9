"""What a service and its child processes use: CPU time, memory, shared memory; from /proc."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_SHARED_MEMORY = Path("/dev/shm")
_TICKS = os.sysconf("SC_CLK_TCK")
_STUB = "triton_python_backend_stub"
_REGION_OPTION = "shm-region-prefix-name="


@dataclass(frozen=True)
class Footprint:
    """Memory of a service with all its processes.

    Attributes:
        memory_bytes: Proportional set size, so that what processes share counts once.
        python_instances: Processes of the Python backend.
        shared_memory_bytes: Their regions in /dev/shm; a part of memory_bytes where it was touched.
        largest_region_bytes: Of one instance.
    """

    memory_bytes: int
    processes: int
    python_instances: int
    shared_memory_bytes: int
    largest_region_bytes: int


def cpu_seconds(pid: int) -> float:
    """CPU time, user and system, of a process and all that it started and that still run."""
    ticks = 0
    for each in _family(pid):
        with suppress(OSError):  # it has ended meanwhile
            numbers = _stat(each)
            ticks += int(numbers[11]) + int(numbers[12])
    return ticks / _TICKS


def footprint(pid: int) -> Footprint:
    """What the processes use now."""
    family = list(_family(pid))
    memory = sum(map(_proportional_bytes, family))
    regions = [file.stat().st_size for file in _regions(pid)]
    stubs = [each for each in family if _STUB in _command(each)]
    return Footprint(memory, len(family), len(stubs), sum(regions), max(regions, default=0))


def _family(pid: int) -> Iterator[int]:
    """The process and its descendants."""
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                children.setdefault(int(_stat(int(entry.name))[1]), []).append(int(entry.name))
    waiting = [pid]
    while waiting:
        yield (each := waiting.pop())
        waiting += children.get(each, [])


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat behind the name, which may hold anything: state, parent, ..."""
    return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()


def _proportional_bytes(pid: int) -> int:
    with suppress(OSError):
        for line in (_PROC / str(pid) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def _command(pid: int) -> str:
    with suppress(OSError):
        return (_PROC / str(pid) / "cmdline").read_text().replace("\0", " ")
    return ""


def _regions(pid: int) -> list[Path]:
    """The server's regions: their names begin as its command line says."""
    for word in _command(pid).replace(",", " ").split():
        if word.startswith(_REGION_OPTION):
            return list(_SHARED_MEMORY.glob(f"{word.removeprefix(_REGION_OPTION)}*"))
    return []
