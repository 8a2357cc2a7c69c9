"""python -m benchmarks.pipelines.load: the load generator, a process of its own.

It reads a job as JSON from standard input and writes what it found as JSON to standard output. A
closed loop: so many requests are always on their way, each new one as soon as one has its response.
Programs for that there are, but none sends requests to both Triton and another HTTP service and
does a client's own work in between, and here the client's part must be the same on all pipelines.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks import closed_loop
from benchmarks.closed_loop import MOST_WINDOWS, LoadError, Point, Span, clocks, figures, has_begun
from benchmarks.pipelines import responses
from benchmarks.pipelines.calls import CALLS, Call
from benchmarks.pipelines.responses import Response
from benchmarks.pipelines.services import Running


@dataclass(frozen=True)
class Job:
    """One pipeline, its service, and how to load it. first: the response to compare with."""

    service: Running
    call: str
    model: str
    image: str
    exact: bool
    first: Response | None
    concurrencies: tuple[int, ...]
    warm_up_s: float
    seconds: float


@dataclass(frozen=True)
class Found:
    """The pipeline's response, its verification and its points; or the problem that ended it."""

    response: Response | None
    verified: str
    points: list[Point]
    footprint: closed_loop.Footprint | None
    problem: str = ""


async def run(job: Job) -> Found:
    """Verify one request, then load at each concurrency in turn."""
    found = Found(None, "", [], None)
    try:
        image = Path(job.image).read_bytes()
        async with CALLS[job.call](job.service, job.model, image) as call:
            response = await call()
            found = replace(found, response=response)
            verified = responses.compare(response, job.first or response, exact=job.exact)
            found = replace(found, verified=verified if job.first else "the others are held to it")
            for concurrency in job.concurrencies:
                point = await _point(call, concurrency, len(response), job)
                found = replace(found, points=[*found.points, point])
        return replace(found, footprint=closed_loop.footprint(job.service.pid or os.getpid()))
    except Exception as error:  # whatever a client may raise is the pipeline's problem, in its row
        return replace(found, problem=f"{type(error).__name__}: {error}")


async def _point(call: Call, concurrency: int, detections: int, job: Job) -> Point:
    requests: list[Span] = []
    stop = asyncio.Event()

    async def worker() -> None:
        while not stop.is_set():
            begin = time.perf_counter()
            response = await call()
            end = time.perf_counter()
            if len(response) != detections:
                raise LoadError(f"{len(response)} detections under load, not {detections}")
            requests.append((begin, end))

    workers = [asyncio.create_task(worker()) for _ in range(concurrency)]
    try:
        await _pass(job.warm_up_s, workers)
        before = clocks(job.service.pid)
        for _ in range(MOST_WINDOWS):
            await _pass(job.seconds, workers)
            if has_begun(requests, before[0]):
                break
        after = clocks(job.service.pid)
    finally:
        stop.set()
        ended = await asyncio.gather(*workers, return_exceptions=True)
    for failure in filter(None, ended):
        raise failure
    return figures(concurrency, requests, before, after)


async def _pass(seconds: float, workers: list[asyncio.Task[None]]) -> None:
    """Wait, but not on when a worker has failed."""
    await asyncio.wait(workers, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)


def read_job(text: str) -> Job:
    """Return the job that `asdict` and JSON made."""
    fields: dict[str, Any] = json.loads(text)
    first = fields["first"]
    fields["first"] = Response(**first) if first else None
    return Job(**{**fields, "service": Running(**fields["service"])})


def main() -> None:
    """Run the job."""
    found = asyncio.run(run(read_job(sys.stdin.read())))
    json.dump(asdict(found), sys.stdout)


if __name__ == "__main__":
    main()
