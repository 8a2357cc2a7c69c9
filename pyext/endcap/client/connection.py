"""Connections to a server: requests with deadlines and retries, by tritonclient.

tritonclient has four clients: each protocol for threads, and for asyncio. The transports hide what
differs between them.

Method of the waits: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import os
import random
import sys
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from endcap._pip_commands import import_extra
from endcap.client.concurrency import Runtime, Threads
from endcap.client.errors import (
    UNREADABLE,
    ClientError,
    RequestError,
    closed_error,
    convert_error,
    from_grpc,
    timeout_error,
    unreadable_error,
)
from endcap.client.options import Address, ConnectionOptions, Tls, make_ssl_context
from endcap.errors import InvalidArgumentError

T = TypeVar("T")
Arguments = dict[str, Any]  # of a method of tritonclient's client

FIRST_WAIT_S = 0.25
MAX_WAIT_S = 5.0
_MAX_BYTES = 2**31 - 1  # of a message, both ways: Triton's own limit
_thread = threading.local()


@functools.cache
def import_client(module: str) -> Any:
    """Return a module of tritonclient, such as "http.aio"; raise ClientError if it is missing."""
    return import_extra(f"tritonclient.{module}", "client", "a client", ClientError)


def choose_retry_wait(error: RequestError, attempt: int, left_s: float) -> float | None:
    """Return how many seconds to wait before a retry, None if there must not be one.

    Args:
        error: The error of the last attempt.
        attempt: The number of retries so far.
        left_s: The seconds until the deadline.
    """
    wait_s = random.uniform(0.0, min(FIRST_WAIT_S * 2**attempt, MAX_WAIT_S))
    wait_s += error.retry_after_s or 0.0
    return wait_s if error.transient and wait_s < left_s else None


class Connection:
    """A connection to a server: one channel over gRPC, over HTTP one per request in flight.

    Nothing is sent before the first request. A method that sends a request raises RequestError if
    the response is late or an error, and ClientError in a forked child, which would receive the
    parent's responses. With `Threads` it is thread-safe. With `Tasks` it is for one event loop, and
    cancelling a task cancels its request.

    Raises:
        ClientError: tritonclient is not installed.
        InvalidArgumentError: The options cannot be used.
    """

    def __init__(
        self, address: Address, options: ConnectionOptions, runtime: Runtime | None = None
    ) -> None:
        self.options = options
        self.address = replace(address, secure=address.secure or options.tls is not None)
        self.runtime: Runtime = runtime or Threads()
        kind = {"grpc": _GrpcTransport, "http": _HttpTransport}[address.protocol]
        if address.protocol == "http" and self.runtime.is_async:
            kind = _AsyncHttpTransport
        self.transport: _Transport = kind(self.address, options, is_async=self.runtime.is_async)
        self.module: Any = self.transport.module  # tritonclient.grpc or tritonclient.http
        self.is_closed = False
        self._is_lost = False  # whether the attempts of the last request were used up
        self._process = os.getpid()

    @property
    def is_own(self) -> bool:
        """Whether this process has made it, not one before a fork."""
        return self._process == os.getpid()

    async def __aenter__(self) -> Connection:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection. Requests in flight end as cancelled, and so do later ones."""
        if not self.is_closed and self.is_own:
            self.is_closed = True
            await self.transport.close()

    async def request(
        self, method: str, *, timeout_s: float | None = None, **arguments: Any
    ) -> Any:
        """Call any method of tritonclient's client but `infer`; return its JSON, True or False.

        Over gRPC objects have protobuf's names, and lack default values.
        """
        if self.address.protocol == "grpc" and method.startswith("get_"):
            arguments["as_json"] = True
        send = functools.partial(self._send, method, arguments)
        response = await self.repeat(send, timeout_s, is_repeatable=not method.startswith("is_"))
        if method == "get_model_config" and self.address.protocol == "grpc":
            return response.get("config", {})
        return response

    async def infer(self, arguments: Arguments, timeout_s: float) -> Any:
        """Return tritonclient's InferResult of the arguments of `infer`, by one attempt."""
        arguments = arguments | self.transport.infer_options
        # While sequences wait for one another, Triton refuses all frames of a sequence when the
        # first timeout ends.
        if self.options.send_timeout and "sequence_id" not in arguments:
            arguments["timeout"] = max(1, int(timeout_s * 1e6))
        return await self._send("infer", arguments, timeout_s)

    async def repeat(
        self,
        send: Callable[[float], Awaitable[T]],
        timeout_s: float | None = None,
        *,
        is_repeatable: bool = True,
    ) -> T:
        """Return the result of `send`, which is called for each attempt with the seconds left.

        timeout_s: The deadline of all attempts; None is `options.timeout_s`.
        """
        limit_s = self.options.timeout_s if timeout_s is None else timeout_s
        end = time.monotonic() + limit_s
        left_s, attempt = limit_s, 0
        # When all attempts of a request have failed, the others make one attempt each, until there
        # is a response: only the first images of a folder wait for a lost server.
        retries = 0 if self._is_lost or not is_repeatable else self.options.retries
        while True:
            try:
                result = await send(left_s)
                self._is_lost = False
                return result
            except TimeoutError as error:
                raise timeout_error(limit_s) from error
            except RequestError as error:
                left_s = end - time.monotonic()
                wait_s = choose_retry_wait(error, attempt, left_s)
                if wait_s is None or attempt >= retries:
                    if is_repeatable:
                        # A server that says when to come back has responded.
                        self._is_lost = error.transient and error.retry_after_s is None
                    raise
            await self.runtime.sleep(wait_s)
            attempt += 1
            left_s = max(end - time.monotonic(), 1e-3)

    async def _send(self, method: str, arguments: Arguments, timeout_s: float) -> Any:
        """Return the response to one attempt; raise RequestError or TimeoutError."""
        self.check_usable()
        try:
            return await self.transport.send(method, arguments, self.headers(), timeout_s)
        except Exception as error:
            if self.is_closed:
                raise closed_error() from error
            if (converted := convert_error(error)) is error:
                raise
            raise converted from error

    def check_usable(self) -> None:
        """Raise an error if the connection is closed, or another process's."""
        if self.is_closed:
            raise closed_error()
        if not self.is_own:
            raise ClientError(
                f"this connection was made by process {self._process}, before a fork, which it "
                "does not survive; make one in each process"
            )

    def headers(self) -> dict[str, str]:
        """Return the headers of a request, including those of the caller's OpenTelemetry span."""
        headers: dict[str, str] = {}
        if "opentelemetry.trace" in sys.modules:  # otherwise there is no span
            importlib.import_module("opentelemetry.propagate").inject(headers)
            names = {name.lower() for name in self.options.headers}
            headers = {n: value for n, value in headers.items() if n.lower() not in names}
        headers |= self.options.headers
        if self.address.protocol == "grpc":
            return {name.lower(): value for name, value in headers.items()}
        return headers


def read_items(response: Any, name: str) -> list[dict[str, Any]]:
    """Return the objects of a list in a response, or of a map with their keys as `name`.

    Raises:
        RequestError: The response is malformed.
    """
    try:
        items = response if isinstance(response, list) else response.get(name, [])
        if isinstance(items, dict):
            items = [{"name": key, **value} for key, value in items.items()]
        return [dict(item) for item in items]
    except UNREADABLE as error:
        raise unreadable_error(error) from error


class _Transport:
    """One of tritonclient's clients.

    Args:
        module: The module of the client, such as "grpc.aio".
        address: The server's address.
        arguments: Of the client.
        infer_options: Of `infer`, as they follow from the options of the connection.
    """

    def __init__(
        self, module: str, address: Address, arguments: Arguments, **infer_options: Any
    ) -> None:
        self.module = import_client(address.protocol)
        self.infer_options = infer_options
        make = import_client(module).InferenceServerClient
        self._open = functools.partial(make, address.authority, **arguments)
        self._in_flight: set[asyncio.Future[Any]] = set()

    @functools.cached_property
    def client(self) -> Any:
        """Tritonclient's client. One of asyncio needs the event loop of its first use."""
        return self._open()

    async def send(
        self, method: str, arguments: Arguments, headers: dict[str, str], timeout_s: float
    ) -> Any:
        """Return the response to a method of tritonclient's client; see `convert_error`."""
        raise NotImplementedError

    async def close(self) -> None:
        """Close the connection; requests in flight fail."""
        for task in self._in_flight:
            task.cancel()
        if "client" in vars(self):  # it was used
            closing = self.client.close()
            if closing is not None:
                await closing

    async def _wait_for(self, work: Awaitable[Any], timeout_s: float) -> Any:
        """Return the result of a request of asyncio; a cancelled caller cancels it."""
        task = asyncio.ensure_future(work)
        self._in_flight.add(task)
        try:
            await asyncio.wait([task], timeout=timeout_s)
            if not task.done():
                raise TimeoutError
        finally:
            self._in_flight.discard(task)
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
        if task.cancelled():  # by `close`, or by the server
            raise from_grpc("CANCELLED", "CANCELLED")
        return task.result()


class _GrpcTransport(_Transport):
    """One channel to a server, for threads or for the tasks of one event loop."""

    def __init__(self, address: Address, options: ConnectionOptions, *, is_async: bool) -> None:
        arguments: Arguments = {"channel_args": _make_channel_arguments(options)}
        if address.secure:
            arguments |= _make_tls_arguments(options.tls or Tls())
        module = "grpc.aio" if is_async else "grpc"
        super().__init__(module, address, arguments, compression_algorithm=options.compression)
        self._is_async = is_async

    async def send(
        self, method: str, arguments: Arguments, headers: dict[str, str], timeout_s: float
    ) -> Any:
        send = getattr(self.client, method)
        work = send(**arguments, headers=headers, client_timeout=timeout_s)
        return await self._wait_for(work, timeout_s) if self._is_async else work


class _AsyncHttpTransport(_Transport):
    """A connection for each request in flight, in one event loop, by aiohttp."""

    def __init__(self, address: Address, options: ConnectionOptions, *, is_async: bool) -> None:
        arguments: Arguments = {"conn_limit": 0, "conn_timeout": None}
        if address.secure:
            arguments |= {"ssl": True, "ssl_context": make_ssl_context(options.tls or Tls())}
        super().__init__("http.aio", address, arguments, **_http_compression(options))

    async def send(
        self, method: str, arguments: Arguments, headers: dict[str, str], timeout_s: float
    ) -> Any:
        headers = {"Accept-Encoding": "identity", **headers}  # aiohttp names others otherwise
        work = getattr(self.client, method)(**arguments, headers=headers)
        return await self._wait_for(work, timeout_s)


class _HttpTransport(_Transport):
    """A connection for each thread, by gevent, whose objects may not change their thread."""

    def __init__(self, address: Address, options: ConnectionOptions, *, is_async: bool) -> None:
        arguments: Arguments = {"connection_timeout": None, "network_timeout": None}
        if address.secure:
            context = make_ssl_context(options.tls or Tls(), importlib.import_module("gevent.ssl"))
            arguments |= {"ssl": True, "ssl_context_factory": lambda cafile: context}
            arguments["insecure"] = not context.check_hostname
        super().__init__("http", address, arguments, **_http_compression(options))
        self._exception = import_client("utils").InferenceServerException
        self._gevent = importlib.import_module("gevent")
        self._local = threading.local()  # the thread's client
        self._waiting: dict[object, tuple[Any, Any]] = {}  # hub and greenlet of each request

    async def send(
        self, method: str, arguments: Arguments, headers: dict[str, str], timeout_s: float
    ) -> Any:
        client, hub = getattr(self._local, "client", None), self._gevent.get_hub()
        if client is None:
            client = self._open_in_thread(hub)
        request = object()
        self._waiting[request] = hub, self._gevent.getcurrent()
        try:
            with self._gevent.Timeout(timeout_s, TimeoutError):
                return getattr(client, method)(**arguments, headers=headers)
        except self._exception:  # the server has responded
            raise
        except BaseException:
            self._close_in_thread()  # its connection may be in the middle of a response
            raise
        finally:
            del self._waiting[request]

    async def close(self) -> None:
        for request, (hub, greenlet) in [*self._waiting.items()]:
            hub.loop.run_callback_threadsafe(self._interrupt, request, greenlet)
        # Clients of other threads are closed with their threads: gevent cannot close them here.
        if getattr(self._local, "client", None) is not None:
            self._close_in_thread()
            self._gevent.sleep(0)  # its loop closes the socket

    def _interrupt(self, request: object, greenlet: Any) -> None:
        if request in self._waiting:
            greenlet.throw(InterruptedError)

    def _open_in_thread(self, hub: Any) -> Any:
        local = self._local
        client = local.client = self._open()
        if threading.current_thread() is not threading.main_thread():
            if not hasattr(_thread, "end"):
                _thread.end = _ThreadEnd(hub)
            local.end = _thread.end  # which must be freed after `client`
            local.end.clients.add(client)
        return client

    def _close_in_thread(self) -> None:
        client, self._local.client = self._local.client, None
        client.close()


class _ThreadEnd:
    """Closes a thread's clients and event loop, which gevent leaves open, with the thread."""

    def __init__(self, hub: Any) -> None:
        self._hub = hub
        # The default one resolves in another thread, whose loop would stay open.
        hub.resolver = importlib.import_module("gevent.resolver.blocking").Resolver(hub)
        self.clients: weakref.WeakSet[Any] = weakref.WeakSet()

    def __del__(self) -> None:
        importlib.import_module("gevent.hub").set_hub(self._hub)  # or gevent would make another
        for client in [*self.clients]:
            client.close()
        self._hub.loop.run(nowait=True)  # it closes the sockets
        self._hub.destroy(destroy_loop=True)


def _http_compression(options: ConnectionOptions) -> Arguments:
    names = ("request_compression_algorithm", "response_compression_algorithm")
    return dict.fromkeys(names, options.compression)


def _make_tls_arguments(tls: Tls) -> Mapping[str, Any]:
    """Return arguments of a client; raise InvalidArgumentError for an option that gRPC lacks."""
    if not tls.verify:
        raise InvalidArgumentError(
            "TLS's verify is False: gRPC always verifies the server's certificate; pass its "
            "authority as ca"
        )
    make_ssl_context(tls)  # gRPC would report a file that is not PEM only with the first request
    return {
        "ssl": True,
        "root_certificates": tls.ca,
        "private_key": tls.key,
        "certificate_chain": tls.certificate,
    }


def _make_channel_arguments(options: ConnectionOptions) -> list[tuple[str, int]]:
    arguments = [
        ("grpc.max_send_message_length", _MAX_BYTES),
        ("grpc.max_receive_message_length", _MAX_BYTES),
        # Reconnect soon after a restart; by default gRPC waits up to two minutes between attempts.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 2000),
    ]
    keepalive = options.keepalive
    if keepalive is not None:
        arguments += [
            ("grpc.keepalive_time_ms", round(keepalive.time_s * 1e3)),
            ("grpc.keepalive_timeout_ms", round(keepalive.timeout_s * 1e3)),
            # Recent releases wait this long for the response to any ping, by default a minute.
            ("grpc.http2.ping_timeout_ms", round(keepalive.timeout_s * 1e3)),
            ("grpc.keepalive_permit_without_calls", int(keepalive.without_calls)),
            ("grpc.http2.max_pings_without_data", keepalive.max_pings_without_data),
        ]
    return arguments
