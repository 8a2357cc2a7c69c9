"""A closed loop: so many requests are always on their way. From their times to figures."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.pipelines import processes

Span = tuple[float, float]  # when a request was sent and when its answer was read, seconds
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
    """An answer under load was another one, or the window was too short; the message says which."""


def clocks(pid: int) -> Clocks:
    """The clocks now; `pid` is the service, 0 for none."""
    service = processes.cpu_seconds(pid) if pid else 0.0
    return time.perf_counter(), service, time.process_time()


def has_begun(requests: Sequence[Span], start: float) -> bool:
    """Whether a request was sent after `start` and is answered."""
    return any(begin >= start for begin, _ in requests)


def figures(concurrency: int, requests: Sequence[Span], before: Clocks, after: Clocks) -> Point:
    """The figures of the window between two looks at the clocks. Raises LoadError."""
    wall, service, client = (now - then for now, then in zip(after, before, strict=True))
    took = [end - begin for begin, end in requests if before[0] <= begin < after[0]]
    if not took:
        raise LoadError(f"no request began within {wall:.1f} s at concurrency {concurrency}")
    p50, p99 = 1e3 * np.percentile(took, (50, 99))
    count = answered_within(requests, before[0], after[0])
    cpu = [1e3 * seconds / count for seconds in (service, client)]
    return Point(concurrency, count / wall, float(p50), float(p99), *cpu)


def answered_within(requests: Sequence[Span], start: float, stop: float) -> float:
    """How many requests a window of time has answered, each by the share of it that lies inside.

    Whole ones would not do: a batcher answers many at the same moment, and a window that holds one
    such moment more or less would seem to be faster or slower.
    """
    shares = ((min(end, stop) - max(begin, start)) / (end - begin) for begin, end in requests)
    return sum(share for share in shares if share > 0)
