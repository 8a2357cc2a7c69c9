"""python -m benchmarks.clients.load: the load generator, a process of its own.

It reads a job as JSON from standard input and writes its result as JSON to standard output.
Bytes are counted first, through a proxy; the times are those of connections without one.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.clients.calls import AsyncSend, Send, open_async, open_transport
from benchmarks.clients.counting_proxy import Bytes, CountingProxy
from benchmarks.clients.transports import Transport, find
from benchmarks.closed_loop import MOST_WINDOWS, LoadError, Point, Span, clocks, figures, has_begun
from benchmarks.pipelines import responses
from benchmarks.pipelines.responses import Response
from benchmarks.pipelines.services import Running


@dataclass
class Window:
    """A window of measurement: its length, its server, and the requests and failures in it.

    Attributes:
        pid: The server's.
        detections: How many each response has.
    """

    pid: int
    detections: int
    concurrency: int
    warm_up_s: float
    seconds: float
    requests: list[Span] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)

    def took(self, begin: float, response: Response) -> None:
        """Note a request. Raises LoadError for another response."""
        if len(response) != self.detections:
            raise LoadError(f"{len(response)} detections under load, not {self.detections}")
        self.requests.append((begin, time.perf_counter()))


def with_threads(opened: AbstractContextManager[Send], window: Window) -> Point:
    """Send requests from threads. Raises what a request raised, and LoadError."""
    stop = threading.Event()

    def work(send: Send) -> None:
        try:
            while not stop.is_set():
                begin = time.perf_counter()
                window.took(begin, send())
        except BaseException as error:
            window.failures.append(error)
            stop.set()

    with opened as send:
        threads = [threading.Thread(target=work, args=(send,)) for _ in range(window.concurrency)]
        for thread in threads:
            thread.start()
        stop.wait(window.warm_up_s)
        before = clocks(window.pid)
        for _ in range(MOST_WINDOWS):
            if stop.wait(window.seconds) or has_begun(window.requests, before[0]):
                break
        after = clocks(window.pid)
        stop.set()
        for thread in threads:
            thread.join()
    for failure in window.failures:
        raise failure
    return figures(window.concurrency, window.requests, before, after)


async def with_tasks(opened: AbstractAsyncContextManager[AsyncSend], window: Window) -> Point:
    """Send requests from tasks. Raises as with_threads."""
    stop = asyncio.Event()

    async def work(send: AsyncSend) -> None:
        try:
            while not stop.is_set():
                begin = time.perf_counter()
                window.took(begin, await send())
        except BaseException as error:
            window.failures.append(error)
            stop.set()

    async with opened as send:
        tasks = [asyncio.create_task(work(send)) for _ in range(window.concurrency)]
        await _wait(stop, window.warm_up_s)
        before = clocks(window.pid)
        for _ in range(MOST_WINDOWS):
            if await _wait(stop, window.seconds) or has_begun(window.requests, before[0]):
                break
        after = clocks(window.pid)
        stop.set()
        await asyncio.gather(*tasks)
    for failure in window.failures:
        raise failure
    return figures(window.concurrency, window.requests, before, after)


async def _wait(stop: asyncio.Event, seconds: float) -> bool:
    """As threading.Event.wait."""
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except asyncio.TimeoutError:
        return False
    return True


_COUNTED = 4


@dataclass(frozen=True)
class Job:
    """One transport, its server and load. first: the response that its own must equal."""

    service: Running
    comparison: str
    name: str
    image: str
    first: Response | None
    concurrencies: tuple[int, ...]
    warm_up_s: float
    seconds: float


@dataclass(frozen=True)
class Found:
    """The transport's response, its verification, bytes of a request, and its points.

    Or the problem that ended it.
    """

    response: Response | None
    verified: str
    wire: Bytes | None
    points: list[Point]
    problem: str = ""


def run(job: Job) -> Found:
    """Verify one request, count bytes, then load at each concurrency in turn."""
    found = Found(None, "", None, [])
    transport = find(job.comparison, job.name)
    address = _address(transport, job.service)
    image = Path(job.image).read_bytes()
    try:
        response, wire = asyncio.run(_first(transport, address, image))
        verified = responses.compare(response, job.first or response, exact=True)
        verified = verified if job.first else "the others are held to it"
        found = replace(found, response=response, verified=verified, wire=wire)
        for concurrency in job.concurrencies:
            window = Window(job.service.pid, len(response), concurrency, job.warm_up_s, job.seconds)
            found = replace(
                found, points=[*found.points, _point(transport, address, image, window)]
            )
        return found
    except Exception as error:  # whatever a client may raise is the transport's problem, in its row
        return replace(found, problem=f"{type(error).__name__}: {error}")


def _address(transport: Transport, service: Running) -> str:
    address = service.grpc if transport.protocol == "grpc" else service.http
    return address.removeprefix("http://")


async def _first(transport: Transport, address: str, image: bytes) -> tuple[Response, Bytes]:
    """Return a response, and the bytes of a request and a response on a connection that is open."""
    with CountingProxy(address) as proxy:
        async with _either(transport, proxy.address, image) as send:
            response = await send()
            proxy.take()
            for _ in range(_COUNTED):
                await send()
            up, down = proxy.take()
    return response, Bytes(up // _COUNTED, down // _COUNTED)


@asynccontextmanager
async def _either(transport: Transport, address: str, image: bytes) -> AsyncIterator[AsyncSend]:
    if transport.asyncio:
        async with open_async(transport, address, image, 1) as send_async:
            yield send_async
        return
    with open_transport(transport, address, image, 1) as send:

        async def send_blocking() -> Response:
            return send()

        yield send_blocking


def _point(transport: Transport, address: str, image: bytes, window: Window) -> Point:
    if transport.asyncio:
        later = open_async(transport, address, image, window.concurrency)
        return asyncio.run(with_tasks(later, window))
    return with_threads(open_transport(transport, address, image, window.concurrency), window)


def read_job(text: str) -> Job:
    """Return the job that `asdict` and JSON made."""
    fields: dict[str, Any] = json.loads(text)
    first = fields["first"]
    fields["first"] = Response(**first) if first else None
    return Job(**{**fields, "service": Running(**fields["service"])})


def main() -> None:
    """Run the job."""
    found = run(read_job(sys.stdin.read()))
    json.dump({**asdict(found), "wire": found.wire._asdict() if found.wire else None}, sys.stdout)


if __name__ == "__main__":
    main()
