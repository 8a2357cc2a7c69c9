"""Clients, connections and pools of four layouts, for threads and asyncio over gRPC and HTTP.

Tests call each layout alike: those of asyncio are called from threads, and run in an event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from numpy.typing import NDArray

from endcap.client import (
    AsyncDetectionClient,
    AsyncSharedMemoryPool,
    ConnectionOptions,
    DetectionClient,
    SharedMemoryPool,
)
from endcap.client.concurrency import Tasks, Threads, run
from endcap.client.connection import Connection
from endcap.client.options import parse_address
from tests.triton.calls import make_inputs

_END: Any = object()
_starting = threading.Lock()


@functools.cache
def _start_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    loop.set_default_executor(ThreadPoolExecutor(16))  # several clients block in it at once
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop


def run_in_loop(work: Any) -> Any:
    """Runs a coroutine of asyncio; its result."""
    with _starting:
        loop = _start_loop()
    return asyncio.run_coroutine_threadsafe(work, loop).result()


class Blocking:
    """Calls the coroutines of an object as functions, its generators and blocks likewise.

    Iterators that are passed become asynchronous ones, which may block.
    """

    def __init__(self, inner: Any, run: Any) -> None:
        self.inner, self._run = inner, run

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.inner, name)
        return functools.partial(self._call, value) if inspect.isroutine(value) else value

    def _call(self, method: Any, *arguments: Any, **options: Any) -> Any:
        given = [_pull(each) if isinstance(each, Iterator) else each for each in arguments]
        result = method(*given, **options)
        if isinstance(result, AsyncGenerator):
            return self._iterate(result)
        if isinstance(result, contextlib.AbstractAsyncContextManager):
            return self._enclose(result)
        return self._run(result) if inspect.iscoroutine(result) else result

    def _iterate(self, items: AsyncGenerator[Any, None]) -> Generator[Any, None, None]:
        async def step() -> Any:
            return await anext(items, _END)

        try:
            while (item := self._run(step())) is not _END:
                yield item
        finally:
            self._run(items.aclose())

    @contextlib.contextmanager
    def _enclose(self, block: Any) -> Iterator[Any]:
        value = self._run(block.__aenter__())
        try:
            yield value
        finally:
            self._run(block.__aexit__(*sys.exc_info()))

    def __enter__(self) -> Blocking:
        self._run(self.inner.__aenter__())
        return self

    def __exit__(self, *error: object) -> None:
        self._run(self.inner.__aexit__(*error))


async def _pull(items: Iterator[Any]) -> AsyncIterator[Any]:
    while (item := await asyncio.to_thread(next, items, _END)) is not _END:
        yield item


class _Connection(Connection):
    async def send(
        self,
        model: str,
        inputs: Mapping[str, NDArray[Any]],
        outputs: Sequence[str] = (),
        *,
        timeout_s: float | None = None,
        **more: Any,
    ) -> Any:
        """The InferResult of a request, which is sent again as those of clients are."""
        requested = [self.module.InferRequestedOutput(name) for name in outputs] or None
        given = {"inputs": make_inputs(self.module, inputs), "outputs": requested}
        arguments = {"model_name": model, **given, **more}
        return await self.repeat(
            lambda left_s: self.infer(dict(arguments), left_s),
            timeout_s,
            is_repeatable="sequence_id" not in more,
        )


@dataclass(frozen=True)
class Layout:
    """Threads or asyncio, and a protocol; `server` has an address for it, or one for each."""

    kind: str
    protocol: str

    def __str__(self) -> str:
        return f"{self.kind}-{self.protocol}"

    @property
    def is_async(self) -> bool:
        return self.kind == "async"

    def authority(self, server: Any) -> str:
        """HOST:PORT of a RunningServer, TcpProxy or RawServer."""
        return str(getattr(server, self.protocol, None) or server.address)

    def url(self, server: Any, scheme: str | None = None) -> str:
        return f"{scheme or self.protocol}://{self.authority(server)}"

    def client(self, server: Any, *, scheme: str | None = None, **options: Any) -> Any:
        """A client, which is connected when its `with` block begins, if not before."""
        url = self.url(server, scheme)
        if self.is_async:
            return Blocking(AsyncDetectionClient(url, **options), run_in_loop)
        return DetectionClient(url, **options)

    def pool(self, server: Any, **options: Any) -> Any:
        """A pool, which is opened when its `with` block begins, if not before."""
        if self.is_async:
            return Blocking(AsyncSharedMemoryPool(self.url(server), **options), run_in_loop)
        return SharedMemoryPool(self.url(server), **options)

    def connect(self, server: Any, **options: Any) -> Any:
        """A Connection with `send`; options: of ConnectionOptions."""
        runtime = Tasks() if self.is_async else Threads()
        address = parse_address(self.url(server))
        connection = _Connection(address, ConnectionOptions(**options), runtime)
        return Blocking(connection, run_in_loop if self.is_async else run)

    def send(self, server: Any, model: str, *arguments: Any, **options: Any) -> Any:
        """The InferResult of one request; options: of the connection, `more`: of the request."""
        more = options.pop("more", {})
        with self.connect(server, **options) as connection:
            return connection.send(model, *arguments, **more)


LAYOUTS = [Layout(kind, protocol) for protocol in ("grpc", "http") for kind in ("sync", "async")]
OVER_GRPC, OVER_HTTP = LAYOUTS[:2], LAYOUTS[2:]
GRPC, HTTP = OVER_GRPC[0], OVER_HTTP[0]  # where threads are enough


def each(layouts: Sequence[Layout]) -> Any:
    """Parametrises a test with `layout`."""
    return pytest.mark.parametrize("layout", layouts, ids=str)
