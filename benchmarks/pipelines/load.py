"""python -m benchmarks.pipelines.load: the load generator, a process of its own.

It reads a job as JSON from standard input and writes what it found as JSON to standard output. A
closed loop: so many requests are always on their way, each new one as soon as one is answered.
Programs for that there are, but none asks both Triton and another HTTP service and does a client's
own work in between, and here the client's part must be the same on all roads.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.pipelines import answers, processes
from benchmarks.pipelines.answers import Answer
from benchmarks.pipelines.calls import CALLS, Call
from benchmarks.pipelines.services import Running

Span = tuple[float, float]  # when a request was sent and when its answer was read, seconds
Clocks = tuple[float, float, float]  # wall, CPU of the service, CPU of this process; seconds

_MOST_WINDOWS = 10


@dataclass(frozen=True)
class Job:
    """One road, its service, and how to load it. first: the answer that this road's must equal."""

    service: Running
    call: str
    model: str
    image: str
    exact: bool
    first: Answer | None
    concurrencies: tuple[int, ...]
    warm_up_s: float
    seconds: float


@dataclass(frozen=True)
class Point:
    """One concurrency. Times are milliseconds, CPU times those of one inference."""

    concurrency: int
    inferences_per_second: float
    p50_ms: float
    p99_ms: float
    service_cpu_ms: float
    client_cpu_ms: float


@dataclass(frozen=True)
class Found:
    """The road's answer, how it was verified, and its points; or the problem that ended it."""

    answer: Answer | None
    verified: str
    points: list[Point]
    footprint: processes.Footprint | None
    problem: str = ""


class LoadError(Exception):
    """An answer under load was another one, or the window was too short; the message says which."""


async def run(job: Job) -> Found:
    """Asks once and verifies, then loads at each concurrency in turn."""
    found = Found(None, "", [], None)
    try:
        image = Path(job.image).read_bytes()
        async with CALLS[job.call](job.service, job.model, image) as call:
            answer = await call()
            found = replace(found, answer=answer)
            verified = answers.compare(answer, job.first or answer, exact=job.exact)
            found = replace(found, verified=verified if job.first else "the others are held to it")
            for concurrency in job.concurrencies:
                point = await _point(call, concurrency, len(answer), job)
                found = replace(found, points=[*found.points, point])
        return replace(found, footprint=processes.footprint(job.service.pid))
    except Exception as error:  # whatever a client may raise is the road's problem, in its row
        return replace(found, problem=f"{type(error).__name__}: {error}")


async def _point(call: Call, concurrency: int, detections: int, job: Job) -> Point:
    requests: list[Span] = []
    stop = asyncio.Event()

    async def worker() -> None:
        while not stop.is_set():
            begin = time.perf_counter()
            answer = await call()
            end = time.perf_counter()
            if len(answer) != detections:
                raise LoadError(f"{len(answer)} detections under load, not {detections}")
            requests.append((begin, end))

    workers = [asyncio.create_task(worker()) for _ in range(concurrency)]
    try:
        await _pass(job.warm_up_s, workers)
        before = _clocks(job.service.pid)
        for _ in range(_MOST_WINDOWS):  # more than one where a single request takes longer
            await _pass(job.seconds, workers)
            if any(begin >= before[0] for begin, _ in requests):
                break
        after = _clocks(job.service.pid)
    finally:
        stop.set()
        answered = await asyncio.gather(*workers, return_exceptions=True)
    for failure in filter(None, answered):
        raise failure
    return _figures(concurrency, requests, before, after)


def _figures(concurrency: int, requests: Sequence[Span], before: Clocks, after: Clocks) -> Point:
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


async def _pass(seconds: float, workers: list[asyncio.Task[None]]) -> None:
    """Waits, but not on when a worker has failed."""
    await asyncio.wait(workers, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)


def _clocks(pid: int) -> Clocks:
    return time.perf_counter(), processes.cpu_seconds(pid), time.process_time()


def read_job(text: str) -> Job:
    """The job that `asdict` and JSON made."""
    fields: dict[str, Any] = json.loads(text)
    first = fields["first"]
    fields["first"] = Answer(**first) if first else None
    return Job(**{**fields, "service": Running(**fields["service"])})


def main() -> None:
    """Runs the job."""
    found = asyncio.run(run(read_job(sys.stdin.read())))
    json.dump(asdict(found), sys.stdout)


if __name__ == "__main__":
    main()
