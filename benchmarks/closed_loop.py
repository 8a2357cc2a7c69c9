"""Load at a fixed concurrency: figures of a window of requests, and the resources of processes.

CPU time, memory and shared memory of a service and its child processes are read from /proc.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

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
    """Return the memory and regions that a process and its descendants use now."""
    family = list(_family(pid))
    memory = sum(map(_proportional_bytes, family))
    regions = [file.stat().st_size for file in _regions(pid)]
    stubs = [each for each in family if _STUB in _command(each)]
    return Footprint(memory, len(family), len(stubs), sum(regions), max(regions, default=0))


def _family(pid: int) -> Iterator[int]:
    """Yield the process and its descendants."""
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
    """Return the fields of /proc/PID/stat behind the name, which may be any text."""
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
    """Return the server's regions: their names begin as its command line says."""
    for word in _command(pid).replace(",", " ").split():
        if word.startswith(_REGION_OPTION):
            return list(_SHARED_MEMORY.glob(f"{word.removeprefix(_REGION_OPTION)}*"))
    return []


Span = tuple[float, float]  # when a request was sent and when its response was read, seconds
Clocks = tuple[float, float, float]  # wall, CPU of the service, CPU of this process; seconds

MOST_WINDOWS = 10  # more than one where a single request takes longer than a window


@dataclass(frozen=True)
class Point:
    """One concurrency. Times are milliseconds, CPU times those of one inference."""

    concurrency: int
    inferences_per_second: float
    p50_ms: float
    p99_ms: float
    service_cpu_ms: float
    client_cpu_ms: float


class LoadError(Exception):
    """A response under load was another one, or the window was too short."""


def clocks(pid: int) -> Clocks:
    """Return the clocks now; `pid` is the service, 0 for none."""
    service = cpu_seconds(pid) if pid else 0.0
    return time.perf_counter(), service, time.process_time()


def has_begun(requests: Sequence[Span], start: float) -> bool:
    """Whether a request was sent after `start` and has its response."""
    return any(begin >= start for begin, _ in requests)


def figures(concurrency: int, requests: Sequence[Span], before: Clocks, after: Clocks) -> Point:
    """Return the figures of the window between two looks at the clocks. Raises LoadError."""
    wall, service, client = (now - then for now, then in zip(after, before, strict=True))
    took = [end - begin for begin, end in requests if before[0] <= begin < after[0]]
    if not took:
        raise LoadError(f"no request began within {wall:.1f} s at concurrency {concurrency}")
    p50, p99 = 1e3 * np.percentile(took, (50, 99))
    count = completed_within(requests, before[0], after[0])
    cpu = [1e3 * seconds / count for seconds in (service, client)]
    return Point(concurrency, count / wall, float(p50), float(p99), *cpu)


def completed_within(requests: Sequence[Span], start: float, stop: float) -> float:
    """Count the requests completed in a window, each by the share of it that lies inside.

    Whole ones would not do: a batcher completes many at the same moment; a window that holds one
    such moment more or less would seem to be faster or slower.
    """
    shares = ((min(end, stop) - max(begin, start)) / (end - begin) for begin, end in requests)
    return sum(share for share in shares if share > 0)
