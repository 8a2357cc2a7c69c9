"""python -m benchmarks.clients.load: the load generator, a process of its own.

It reads a job as JSON from standard input and writes what it found as JSON to standard output.
Bytes are counted first, through a proxy; the times are those of connections without one.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.clients.asking import open_way, open_way_later
from benchmarks.clients.counting_proxy import Bytes, CountingProxy
from benchmarks.clients.drivers import AskLater, Window, with_tasks, with_threads
from benchmarks.clients.ways import Way, find
from benchmarks.closed_loop import Point
from benchmarks.pipelines import answers
from benchmarks.pipelines.answers import Answer
from benchmarks.pipelines.services import Running

_COUNTED = 4


@dataclass(frozen=True)
class Job:
    """One way, the server, and how to load it. first: the answer that this way's must equal."""

    service: Running
    comparison: str
    name: str
    image: str
    first: Answer | None
    concurrencies: tuple[int, ...]
    warm_up_s: float
    seconds: float


@dataclass(frozen=True)
class Found:
    """The way's answer, how it was verified, bytes of a request and its answer, and its points.

    Or the problem that ended it.
    """

    answer: Answer | None
    verified: str
    wire: Bytes | None
    points: list[Point]
    problem: str = ""


def run(job: Job) -> Found:
    """Ask once and verifies, counts bytes, then load at each concurrency in turn."""
    found = Found(None, "", None, [])
    way = find(job.comparison, job.name)
    address = _address(way, job.service)
    image = Path(job.image).read_bytes()
    try:
        answer, wire = asyncio.run(_first(way, address, image))
        verified = answers.compare(answer, job.first or answer, exact=True)
        verified = verified if job.first else "the others are held to it"
        found = replace(found, answer=answer, verified=verified, wire=wire)
        for concurrency in job.concurrencies:
            window = Window(job.service.pid, len(answer), concurrency, job.warm_up_s, job.seconds)
            found = replace(found, points=[*found.points, _point(way, address, image, window)])
        return found
    except Exception as error:  # whatever a client may raise is the way's problem, in its row
        return replace(found, problem=f"{type(error).__name__}: {error}")


def _address(way: Way, service: Running) -> str:
    address = service.grpc if way.protocol == "grpc" else service.http
    return address.removeprefix("http://")


async def _first(way: Way, address: str, image: bytes) -> tuple[Answer, Bytes]:
    """An answer, and the bytes of a request and its answer on a connection that is open already."""
    with CountingProxy(address) as proxy:
        async with _either(way, proxy.address, image) as ask:
            answer = await ask()
            proxy.take()
            for _ in range(_COUNTED):
                await ask()
            up, down = proxy.take()
    return answer, Bytes(up // _COUNTED, down // _COUNTED)


@asynccontextmanager
async def _either(way: Way, address: str, image: bytes) -> AsyncIterator[AskLater]:
    if way.asyncio:
        async with open_way_later(way, address, image, 1) as ask_later:
            yield ask_later
        return
    with open_way(way, address, image, 1) as ask:

        async def asked() -> Answer:
            return ask()

        yield asked


def _point(way: Way, address: str, image: bytes, window: Window) -> Point:
    if way.asyncio:
        later = open_way_later(way, address, image, window.concurrency)
        return asyncio.run(with_tasks(later, window))
    return with_threads(open_way(way, address, image, window.concurrency), window)


def read_job(text: str) -> Job:
    """The job that `asdict` and JSON made."""
    fields: dict[str, Any] = json.loads(text)
    first = fields["first"]
    fields["first"] = Answer(**first) if first else None
    return Job(**{**fields, "service": Running(**fields["service"])})


def main() -> None:
    """Run the job."""
    found = run(read_job(sys.stdin.read()))
    json.dump({**asdict(found), "wire": found.wire._asdict() if found.wire else None}, sys.stdout)


if __name__ == "__main__":
    main()
