"""Connections to a server: requests with deadlines and retries over gRPC or HTTP."""

from __future__ import annotations

import asyncio
import functools
import importlib
import inspect
import os
import sys
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from endcap.client.calls import (
    UNREADABLE,
    Call,
    ModelMetadata,
    RegionKind,
    Response,
    read_metadata,
    unreadable,
)
from endcap.client.concurrency import Runtime, Tasks, Threads, event_loop, run
from endcap.client.errors import RequestError, check_process, closed, timed_out
from endcap.client.grpc_transport import GrpcTransport
from endcap.client.http_transport import HttpTransport
from endcap.client.options import Address, ConnectionOptions, check_timeout
from endcap.client.retry import Attempts, RetryPolicy

P = ParamSpec("P")
T = TypeVar("T")

_TRACING = "opentelemetry.trace"


class AsyncConnection:
    """A connection to a server: one channel over gRPC, one connection a request over HTTP.

    Nothing is sent before the first request. Every method that sends a request raises RequestError
    where there is no response within `options.timeout_s`, or the server responds with an error.
    A request is sent again where the server is unavailable, `options.retries` times at the most;
    is_live, is_ready, ready_models and steps of sequences are not. One with tensors in shared
    memory is sent again only where the server refused it: after a broken connection it may still
    be running, and write there later.

    `Connection` is thread-safe. `AsyncConnection` is for the tasks of one event loop, in which its
    first request runs and where it is closed; a task that is cancelled while it waits cancels its
    request: in the server, too, over gRPC; over HTTP its connection is closed. In a forked child
    either raises ClientError: it would receive the parent's responses.

    Raises ClientError where tritonclient is not installed, and InvalidArgumentError for options
    that cannot be used.
    """

    def __init__(
        self,
        address: Address,
        options: ConnectionOptions | None = None,
        *,
        runtime: Runtime | None = None,
    ) -> None:
        self.options = options or ConnectionOptions()
        self.address = replace(address, secure=address.secure or self.options.tls is not None)
        self.retry_policy = RetryPolicy(self.options.retries)
        self.runtime: Runtime = runtime or Tasks()
        is_async = isinstance(self.runtime, Tasks)
        self.transport = (
            GrpcTransport(self.address, self.options, is_async=is_async)
            if address.protocol == "grpc"
            else HttpTransport(self.address, self.options)
        )
        self._client: Any = None
        self._in_flight: set[asyncio.Future[Any]] = set()
        self._process = os.getpid()
        self.is_closed = False
        if not is_async:  # here: threads would open several
            transport = self.transport
            if isinstance(transport, GrpcTransport):
                self._client = transport.open()
            else:
                self._client = run(self.runtime.finish(self._open_in_loop()))
                weakref.finalize(self, _close, transport, self._client, self._process)

    def to(self, address: Address, options: ConnectionOptions) -> AsyncConnection:
        """Return a connection to another server, of the same kind."""
        return AsyncConnection(address, options, runtime=self.runtime)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} to {self.address}>"

    async def __aenter__(self) -> AsyncConnection:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection. Requests in flight end as cancelled, and so do later ones."""
        self.is_closed = True
        if self._client is not None and self._process == os.getpid():
            await self.runtime.finish(self.transport.close(self._client, self._in_flight))

    async def infer(self, call: Call, *, timeout_s: float | None = None) -> Response:
        """Send a request and return its response. timeout_s: None is `options.timeout_s`."""
        transport = self.transport

        async def send(left_s: float) -> Response:
            arguments = transport.infer_arguments(self._with_timeout(call, left_s))
            try:
                result = await self._send_once("infer", arguments, left_s)
                return transport.read_inference(result, call)
            except UNREADABLE as error:
                raise unreadable(error, call) from error

        try:
            return await self._repeat(
                send,
                timeout_s,
                is_repeatable=call.sequence is None,
                shares_memory=call.shares_memory,
            )
        except RequestError as error:
            error.request_id = error.request_id or call.request_id
            raise

    async def is_live(self) -> bool:
        """Whether a Triton server responds."""
        return await self._send("is_server_live", bool, is_repeatable=False)

    async def is_ready(self, model: str) -> bool:
        """Whether the server serves a model now."""
        return await self._send("is_model_ready", bool, is_repeatable=False, model_name=model)

    async def ready_models(self) -> list[str]:
        """Return the names of all models that are ready."""

        def read(statistics: dict[str, Any]) -> list[str]:
            return sorted({str(each["name"]) for each in statistics.get("model_stats", [])})

        # Of the statistics: `endcap serve` closes the repository's index.
        return await self._send("get_inference_statistics", read, is_repeatable=False)

    async def metadata(self, model: str) -> ModelMetadata:
        """Return the tensors of a model."""
        read = functools.partial(read_metadata, model)
        return await self._send("get_model_metadata", read, model_name=model)

    async def config(self, model: str) -> dict[str, Any]:
        """Return a model's configuration as JSON objects."""
        return await self._send("get_model_config", self.transport.read_config, model_name=model)

    async def statistics(self) -> list[dict[str, Any]]:
        """Return the statistics of each model, as Triton's statistics extension defines them.

        Over gRPC numbers are texts, and omitted where they are 0, as protobuf has them in JSON.
        """
        return await self._send(
            "get_inference_statistics", lambda each: each.get("model_stats", [])
        )

    async def register_shared(
        self,
        kind: RegionKind,
        registration: dict[str, Any],
        *,
        timeout_s: float | None = None,
    ) -> None:
        """Register a shared-memory region with the server.

        Args:
            kind: "system" or "cuda".
            registration: The arguments of tritonclient's method: name and byte_size, with key or
                with raw_handle and device_id.
            timeout_s: Here and below, None is `options.timeout_s`.
        """
        await self._send(f"register_{kind}_shared_memory", bool, timeout_s, **registration)

    async def unregister_shared(
        self, kind: RegionKind, name: str, *, timeout_s: float | None = None
    ) -> None:
        """Unregister a region; names that are not registered are ignored."""
        await self._send(f"unregister_{kind}_shared_memory", bool, timeout_s, name=name)

    async def registered(
        self, kind: RegionKind, *, timeout_s: float | None = None
    ) -> dict[str, str]:
        """Return the registered regions: name -> key, which is "" for those of CUDA."""
        read = self.transport.read_regions
        return await self._send(f"get_{kind}_shared_memory_status", read, timeout_s)

    def open(self) -> Any:
        """Return tritonclient's client; ClientError or RequestError where it cannot be used."""
        if self.is_closed:
            raise closed()
        check_process(self._process)
        if self._client is None:
            self._client = self.transport.open()
        return self._client

    async def _open_in_loop(self) -> Any:
        return self.transport.open()

    def headers(self) -> dict[str, str]:
        """Return the headers of a request, with those of the caller's OpenTelemetry span."""
        given = self.options.headers
        if _TRACING not in sys.modules:  # nor is there a span, then
            return dict(given)
        headers: dict[str, str] = {}
        importlib.import_module("opentelemetry.propagate").inject(headers)
        names = {name.lower() for name in given}
        return {**{n: value for n, value in headers.items() if n.lower() not in names}, **given}

    def _with_timeout(self, call: Call, left_s: float) -> Call:
        # Where sequences wait for one another, Triton refuses all frames of one by the first
        # timeout that ends.
        if not self.options.send_timeout or call.sequence is not None:
            return call
        return replace(call, timeout_us=call.timeout_us or max(1, int(left_s * 1e6)))

    async def _send(
        self,
        method: str,
        read: Callable[[Any], T],
        timeout_s: float | None = None,
        *,
        is_repeatable: bool = True,
        **arguments: Any,
    ) -> T:
        """Return what `read` makes of the response to a method of tritonclient, JSON objects."""

        async def send(left_s: float) -> Any:
            try:
                return await self._send_once(method, arguments, left_s)
            except UNREADABLE as error:
                raise self.transport.error(error) from error

        response = await self._repeat(send, timeout_s, is_repeatable=is_repeatable)
        try:
            return read(response)
        except UNREADABLE as error:
            text = f"the server's response to {method} cannot be read: {str(error)[:200]}"
            raise RequestError("internal", text) from error

    async def _send_once(self, method: str, arguments: dict[str, Any], left_s: float) -> Any:
        """Return the response to one attempt; raise RequestError or TimeoutError."""
        client = self.open()
        arguments = arguments | self.transport.arguments(method, self.headers(), left_s)
        try:
            work = getattr(client, method)(**arguments)
            return await self.runtime.finish(work, left_s, self._in_flight)
        except TimeoutError:
            raise
        except InterruptedError as error:
            raise (closed() if self.is_closed else self.transport.interrupted()) from error
        except Exception as error:
            if self.is_closed:
                raise closed() from error
            if not isinstance(error, self.transport.errors):
                raise
            raise self.transport.error(error) from error

    async def _repeat(
        self,
        send: Callable[[float], Awaitable[T]],
        timeout_s: float | None,
        *,
        is_repeatable: bool,
        shares_memory: bool = False,
    ) -> T:
        """Return the result of `send`, which is called for each attempt with the seconds left."""
        limit_s = self.options.timeout_s if timeout_s is None else timeout_s
        check_timeout(limit_s)
        retries = self.retry_policy.retries() if is_repeatable else 0
        attempts = Attempts(retries, limit_s, shares_memory=shares_memory)
        while True:
            try:
                response = await send(attempts.remaining_s())
                self.retry_policy.end(None)
                return response
            except TimeoutError as error:
                raise timed_out(limit_s) from error
            except RequestError as error:
                wait_s = self.retry_policy.wait_after(error, attempts, repeatable=is_repeatable)
            await self.runtime.sleep(wait_s)


def _close(transport: HttpTransport, client: Any, process: int) -> None:
    """Close what a connection that is garbage, or the end of the program, has left open."""
    if process == os.getpid():  # and do not wait: this may be the thread of the event loop
        asyncio.run_coroutine_threadsafe(transport.close(client, set()), event_loop())


def _blocking(
    method: Callable[Concatenate[AsyncConnection, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Connection, P], T]:
    """Return the method of `Connection` for one of `AsyncConnection`."""

    def call(connection: Connection, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run(method(connection.coroutines, *args, **kwargs))

    functools.update_wrapper(call, method)
    del call.__wrapped__  # type: ignore[attr-defined]  # it is not a coroutine function
    call.__signature__ = inspect.signature(method)  # type: ignore[attr-defined]
    return call


class Connection:
    """`AsyncConnection` for threads, with the same methods. It is thread-safe."""

    def __init__(self, address: Address, options: ConnectionOptions | None = None) -> None:
        self.coroutines = AsyncConnection(address, options, runtime=Threads())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} to {self.address}>"

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def address(self) -> Address:
        """The server's address."""
        return self.coroutines.address

    @property
    def options(self) -> ConnectionOptions:
        """The options."""
        return self.coroutines.options

    close = _blocking(AsyncConnection.close)
    infer = _blocking(AsyncConnection.infer)
    is_live = _blocking(AsyncConnection.is_live)
    is_ready = _blocking(AsyncConnection.is_ready)
    ready_models = _blocking(AsyncConnection.ready_models)
    metadata = _blocking(AsyncConnection.metadata)
    config = _blocking(AsyncConnection.config)
    statistics = _blocking(AsyncConnection.statistics)
    register_shared = _blocking(AsyncConnection.register_shared)
    unregister_shared = _blocking(AsyncConnection.unregister_shared)
    registered = _blocking(AsyncConnection.registered)
