"""tritonclient's clients for gRPC and HTTP: opening, sending, errors.

tritonclient has four clients: each protocol for threads, and for asyncio. Here is what differs.
"""

from __future__ import annotations

import asyncio
import functools
import http.client
import importlib
import re
import threading
import weakref
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from endcap._pip_commands import import_extra
from endcap.client.errors import (
    UNREADABLE,
    ClientError,
    RequestError,
    from_grpc,
    from_http,
    from_os_error,
    unreadable_error,
)
from endcap.client.options import Address, ConnectionOptions, Tls, make_ssl_context
from endcap.errors import InvalidArgumentError

_MAX_BYTES = 2**31 - 1  # of a message, both ways: Triton's own limit
# geventhttpclient's messages for the end of a connection, among those for other protocols.
_BROKEN = re.compile("closed|EOF|Incomplete")
_thread = threading.local()


@functools.cache
def import_client(module: str) -> Any:
    """Return a module of tritonclient, such as "http.aio"; raise ClientError if it is missing."""
    return import_extra(f"tritonclient.{module}", "client", "a client", ClientError)


def make_transport(address: Address, options: ConnectionOptions, *, is_async: bool) -> Transport:
    """Return the transport for an address."""
    if address.protocol == "grpc":
        return _GrpcTransport(address, options, is_async=is_async)
    return (_AsyncHttpTransport if is_async else _HttpTransport)(address, options)


class Transport:
    """A connection to one server."""

    _open: Callable[[], Any]  # makes tritonclient's client
    _client: Any = None

    def __init__(self, module: str, **infer_options: Any) -> None:
        self.module = import_client(module)
        self.infer_options = infer_options  # arguments of `infer` that follow from the options
        self._exception = import_client("utils").InferenceServerException
        self._in_flight: set[asyncio.Future[Any]] = set()

    def client(self) -> Any:
        """Return tritonclient's client. One of asyncio needs the event loop of the first call."""
        if self._client is None:
            self._client = self._open()
        return self._client

    async def send(
        self, method: str, arguments: dict[str, Any], headers: Mapping[str, str], timeout_s: float
    ) -> Any:
        """Return the response to a method of tritonclient's client; see `convert_error`."""
        raise NotImplementedError

    async def close(self) -> None:
        """Close the connection; requests in flight fail."""
        raise NotImplementedError

    def start_stream(self, arguments: dict[str, Any], headers: Mapping[str, str]) -> Any:
        """Return the call of a stream for one request: an iterator of responses with cancel()."""
        raise NotImplementedError

    def convert_error(self, error: Any) -> Exception:
        """Return the error to raise for one of `send`: a RequestError or a TimeoutError."""
        if isinstance(error, self._exception) and error.status() is None:
            return InvalidArgumentError(str(error))
        return unreadable_error(error) if isinstance(error, UNREADABLE) else error

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


class _GrpcTransport(Transport):
    """One channel to a server, for threads or for the tasks of one event loop."""

    def __init__(self, address: Address, options: ConnectionOptions, *, is_async: bool) -> None:
        super().__init__("grpc", compression_algorithm=options.compression)
        self._is_async = is_async
        make = import_client("grpc.aio" if is_async else "grpc").InferenceServerClient
        arguments: dict[str, Any] = {"channel_args": _make_channel_arguments(options)}
        if address.secure:
            arguments |= _make_tls_arguments(options.tls or Tls())
        self._open = functools.partial(make, address.authority, **arguments)
        if not is_async:
            self.client()

    async def send(
        self, method: str, arguments: dict[str, Any], headers: Mapping[str, str], timeout_s: float
    ) -> Any:
        metadata = {name.lower(): value for name, value in headers.items()}
        if method.startswith("get_"):
            arguments = arguments | {"as_json": True}
        work = getattr(self.client(), method)(
            **arguments, headers=metadata, client_timeout=timeout_s
        )
        return await self._wait_for(work, timeout_s) if self._is_async else work

    async def close(self) -> None:
        if self._client is not None:
            work = self._client.close()
            if self._is_async:
                await work

    def convert_error(self, error: Any) -> Exception:
        if not isinstance(error, self._exception) or error.status() is None:
            return super().convert_error(error)
        status = str(error.status()).removeprefix("StatusCode.")
        if status == "DEADLINE_EXCEEDED":
            return TimeoutError()
        return from_grpc(status, str(error.message() or status))

    def start_stream(self, arguments: dict[str, Any], headers: Mapping[str, str]) -> Any:
        # tritonclient's own streams do not report their end.
        utilities = import_client("grpc._utils")
        defaults = {"model_version": "", "priority": 0, "parameters": None, "timeout": None}
        defaults |= {"sequence_id": 0, "sequence_start": False, "sequence_end": False}
        request = utilities._get_inference_request(**defaults | arguments)
        request.parameters["triton_enable_empty_final_response"].bool_param = True
        compression = self.infer_options["compression_algorithm"]
        return self.client()._client_stub.ModelStreamInfer(
            iter([request]),
            metadata=tuple((name.lower(), value) for name, value in headers.items()),
            compression=utilities._grpc_compression_type(compression),
        )


class _AnyHttpTransport(Transport):
    """The common part of both transports for HTTP."""

    def __init__(self, options: ConnectionOptions) -> None:
        super().__init__(
            "http",
            request_compression_algorithm=options.compression,
            response_compression_algorithm=options.compression,
        )

    def convert_error(self, error: Any) -> Exception:
        if isinstance(error, self._exception) and error.status() is not None:
            return from_http(error)
        if isinstance(error, OSError):
            return from_os_error(error)
        return super().convert_error(error)


class _AsyncHttpTransport(_AnyHttpTransport):
    """A connection for each request in flight, in one event loop, by aiohttp."""

    def __init__(self, address: Address, options: ConnectionOptions) -> None:
        super().__init__(options)
        make = import_client("http.aio").InferenceServerClient
        self._aiohttp = importlib.import_module("aiohttp")
        arguments: dict[str, Any] = {"conn_limit": 0, "conn_timeout": None}
        if address.secure:
            arguments |= {"ssl": True, "ssl_context": make_ssl_context(options.tls or Tls())}
        self._open = functools.partial(make, address.authority, **arguments)

    async def send(
        self, method: str, arguments: dict[str, Any], headers: Mapping[str, str], timeout_s: float
    ) -> Any:
        headers = {"Accept-Encoding": "identity", **headers}  # aiohttp names others otherwise
        work = getattr(self.client(), method)(**arguments, headers=headers)
        return await self._wait_for(work, timeout_s)

    async def close(self) -> None:
        for task in self._in_flight:
            task.cancel()
        if self._client is not None:
            await self._client.close()

    def convert_error(self, error: Any) -> Exception:
        aiohttp = self._aiohttp
        broken = (
            aiohttp.ServerDisconnectedError,
            aiohttp.ClientPayloadError,
            aiohttp.ClientOSError,
        )
        if isinstance(error, aiohttp.ClientConnectorError):
            return from_os_error(error.os_error)
        if isinstance(error, broken):
            return _broken_connection_error()
        if isinstance(error, aiohttp.ClientError):
            return _not_triton_error()
        return super().convert_error(error)


class _HttpTransport(_AnyHttpTransport):
    """A connection for each thread, by gevent, whose objects may not change their thread."""

    def __init__(self, address: Address, options: ConnectionOptions) -> None:
        super().__init__(options)
        self._gevent = importlib.import_module("gevent")
        arguments: dict[str, Any] = {"connection_timeout": None, "network_timeout": None}
        if address.secure:
            context = make_ssl_context(options.tls or Tls(), importlib.import_module("gevent.ssl"))
            arguments |= {"ssl": True, "ssl_context_factory": lambda cafile: context}
            arguments["insecure"] = not context.check_hostname
        make = self.module.InferenceServerClient
        self._open = functools.partial(make, address.authority, **arguments)
        self._local = threading.local()  # the thread's client
        self._waiting: dict[object, tuple[Any, Any]] = {}  # hub and greenlet of each request

    async def send(
        self, method: str, arguments: dict[str, Any], headers: Mapping[str, str], timeout_s: float
    ) -> Any:
        client, hub = getattr(self._local, "client", None), self._gevent.get_hub()
        if client is None:
            client = self._local.client = self._open()
            self._local.end = _close_with_thread(client, hub)
        request = object()
        self._waiting[request] = hub, self._gevent.getcurrent()
        try:
            with self._gevent.Timeout(timeout_s, TimeoutError):
                return getattr(client, method)(**arguments, headers=dict(headers))
        except self._exception:  # the server has responded
            raise
        except BaseException:
            self._local.client = None  # its connection may be in the middle of a response
            client.close()
            raise
        finally:
            del self._waiting[request]

    async def close(self) -> None:
        for request, (hub, greenlet) in [*self._waiting.items()]:
            hub.loop.run_callback_threadsafe(self._interrupt, request, greenlet)
        # Clients of other threads are closed with their threads: gevent cannot close them here.
        client = getattr(self._local, "client", None)
        if client is not None:
            self._local.client = None
            client.close()
            self._gevent.sleep(0)  # its loop closes the socket

    def _interrupt(self, request: object, greenlet: Any) -> None:
        if request in self._waiting:
            greenlet.throw(InterruptedError)

    def convert_error(self, error: Any) -> Exception:
        if isinstance(error, http.client.HTTPException):  # geventhttpclient's
            is_broken = _BROKEN.search(str(error))
            return _broken_connection_error() if is_broken else _not_triton_error()
        return super().convert_error(error)


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


def _close_with_thread(client: Any, hub: Any) -> _ThreadEnd | None:
    """Have a client closed when its thread ends; return what must not be freed before it."""
    if threading.current_thread() is threading.main_thread():
        return None
    if not hasattr(_thread, "end"):
        _thread.end = _ThreadEnd(hub)
    end: _ThreadEnd = _thread.end
    end.clients.add(client)
    return end


def _broken_connection_error() -> RequestError:
    return RequestError("unavailable", "the connection broke before the response", transient=True)


def _not_triton_error() -> RequestError:
    return RequestError(
        "unavailable",
        "the server is not a Triton server's http service; the usual ports are 8000 for HTTP "
        "and 8001 for gRPC",
    )


def _make_tls_arguments(tls: Tls) -> dict[str, Any]:
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
