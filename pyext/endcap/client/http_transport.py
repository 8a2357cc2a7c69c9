"""Requests over HTTP: the clients of `tritonclient.http` and `tritonclient.http.aio`."""

from __future__ import annotations

import asyncio
import importlib
import os
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from endcap.client.address import Address
from endcap.client.calls import (
    UNREADABLE,
    Call,
    Response,
    import_client,
    infer_arguments,
    read_response,
    unreadable,
)
from endcap.client.concurrency import Runtime, Tasks, finish
from endcap.client.errors import (
    RequestError,
    check_process,
    closed,
    connection_lost,
    from_http,
    from_os_error,
    not_triton,
    response_truncated,
)
from endcap.client.grpc_transport import plain_fields
from endcap.client.options import ConnectionOptions, Tls, ssl_context
from endcap.client.trace_context import trace_headers

_STOP_TIMEOUT_S = 1.0
_NO_TIMEOUT_S = 1e6  # of a socket: the deadline of each request is watched here
# The messages of protobuf that Triton's JSON stands for.
_MESSAGES = {
    "get_model_metadata": ("grpc.service_pb2", "ModelMetadataResponse"),
    "get_model_config": ("grpc.model_config_pb2", "ModelConfig"),
    "get_inference_statistics": ("grpc.service_pb2", "ModelStatisticsResponse"),
}


class HttpTransport:
    """A connection to one server for each concurrent request.

    It is thread-safe with `Threads`, and belongs to one event loop with `Tasks`. In a forked child
    it raises ClientError: over the parent's connections it would receive the parent's responses.
    """

    def __init__(self, address: Address, options: ConnectionOptions, runtime: Runtime) -> None:
        self._tritonclient = import_client("http")
        self._error = import_client("utils").InferenceServerException
        self._headers = {"Accept-Encoding": "identity", **options.headers}
        self._compression = options.compression
        tls = (options.tls or Tls()) if address.secure else None
        if tls is not None:
            ssl_context(tls)  # an error here, not with the first request
        client = _AsyncClient if isinstance(runtime, Tasks) else _ThreadsClient
        self._client: Any = client(address.authority, tls)
        self._process = 0  # of the first request
        self._is_closed = False

    async def infer(self, call: Call, timeout_s: float) -> Response:
        """Send an inference request; see `send`."""
        arguments = infer_arguments(self._tritonclient, call)
        arguments["request_compression_algorithm"] = self._compression
        arguments["response_compression_algorithm"] = self._compression
        try:
            result = await self._send("infer", timeout_s, arguments)
            header = result.get_response()
            outputs = [(o["name"], o["shape"], o["datatype"]) for o in header.get("outputs", [])]
            request_id = header.get("id", call.request_id)
            if request_id != call.request_id:
                raise ValueError(f"it is for the request {request_id!r}")
        except UNREADABLE as error:
            raise unreadable(error, call) from error
        return read_response(call, outputs, result.as_numpy, request_id)

    async def send(self, method: str, timeout_s: float, **arguments: Any) -> Any:
        """Return the response to another method of tritonclient, as JSON objects.

        Raises:
            RequestError: The server does not respond, or responds with an error.
            TimeoutError: There is none within `timeout_s`.
        """
        try:
            response = await self._send(method, timeout_s, arguments)
            if method.endswith("shared_memory_status"):
                return {"regions": {str(region["name"]): region for region in response}}
        except UNREADABLE as error:
            raise not_triton("http") from error
        return _parsed(response, method) if method in _MESSAGES else response

    async def close(self) -> None:
        """Close the connections; requests in flight end as cancelled."""
        self._is_closed = True
        if self._process == os.getpid():
            await finish(self._client.close())

    async def _send(self, method: str, timeout_s: float, arguments: dict[str, Any]) -> Any:
        if self._is_closed:
            raise closed()
        self._process = self._process or os.getpid()
        check_process(self._process)
        given = {name.lower() for name in self._headers}
        arguments["headers"] = {**trace_headers(given), **self._headers}
        try:
            return await finish(self._client.send(method, arguments, timeout_s), timeout_s)
        except TimeoutError:
            raise
        except (self._error, OSError, RuntimeError, *self._client.errors) as error:
            raise (closed() if self._is_closed else self._request_error(error)) from error

    def _request_error(self, error: Any) -> RequestError:
        if isinstance(error, self._error):
            return from_http(error)
        return self._client.request_error(error)  # type: ignore[no-any-return]


def _parsed(document: Any, method: str) -> dict[str, Any]:
    """Return JSON of Triton's HTTP service in the form of `plain_fields`.

    Fields that tritonclient does not know are omitted, as over gRPC.
    """
    module, name = _MESSAGES[method]
    message = getattr(import_client(module), name)()
    json_format = importlib.import_module("google.protobuf.json_format")
    try:
        json_format.ParseDict(dict(document), message, ignore_unknown_fields=True)
    except (json_format.ParseError, *UNREADABLE) as error:
        raise RequestError(
            "internal", f"the server's response to {method} cannot be read: {str(error)[:200]}"
        ) from error
    return plain_fields(message)


# --- threads --------------------------------------------------------------------------------------


class _ThreadsClient:
    """Clients of tritonclient, each in a thread: gevent's sockets belong to one."""

    def __init__(self, authority: str, tls: Tls | None) -> None:
        self._authority = authority
        self._tls = tls
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._busy: set[_Worker] = set()
        self._is_closed = False
        parser = importlib.import_module("geventhttpclient.response")
        self._disconnected = parser.HTTPConnectionClosed
        self.errors = (parser.HTTPParseError,)

    def send(self, method: str, arguments: dict[str, Any], timeout_s: float) -> Any:
        """Return the response to a method of tritonclient."""
        with self._lock:
            if self._is_closed:
                raise closed()
            worker = self._idle.pop() if self._idle else _Worker(self._open)
            self._busy.add(worker)
        is_reusable = False
        try:
            response = worker.send(method, arguments, time.monotonic() + timeout_s)
            is_reusable = True
            return response
        except Exception:
            is_reusable = True
            raise
        finally:
            with self._lock:
                self._busy.discard(worker)
                if is_reusable and not self._is_closed:
                    self._idle.append(worker)
                else:
                    worker.stop()

    def close(self) -> None:
        """End the threads and their requests."""
        with self._lock:
            self._is_closed = True
            workers = [*self._idle, *self._busy]
            self._idle.clear()
        for worker in workers:
            worker.stop()
        for worker in workers:  # gevent must not run while the interpreter ends
            worker.thread.join(_STOP_TIMEOUT_S)

    def request_error(self, error: Exception) -> RequestError:
        """Return the RequestError for an error of a connection."""
        if isinstance(error, self._disconnected):
            return connection_lost(str(error))
        # Of a reset before the response geventhttpclient makes the former.
        if isinstance(error, ConnectionResetError) or "EOF" in str(error):
            return response_truncated()
        return from_os_error(error) if isinstance(error, OSError) else not_triton("http")

    def _open(self) -> Any:
        options: dict[str, Any] = {}
        tls = self._tls
        if tls is not None:
            # gevent's own: that of its create_default_context would block the deadline.
            context_type = importlib.import_module("gevent.ssl").SSLContext
            options["ssl"] = True
            options["insecure"] = not tls.verify
            options["ssl_context_factory"] = lambda **_: ssl_context(tls, context_type)
        return import_client("http").InferenceServerClient(
            self._authority,
            connection_timeout=_NO_TIMEOUT_S,
            network_timeout=_NO_TIMEOUT_S,
            **options,
        )


class _Worker:
    """A daemon thread with a client, which sends one request at a time."""

    def __init__(self, open_client: Callable[[], Any]) -> None:
        self._open = open_client
        self._jobs: queue.SimpleQueue[tuple[Any, ...] | None] = queue.SimpleQueue()
        self._is_stopped = False
        self._hub: Any = None
        self.thread = threading.Thread(target=self._run, name="endcap http", daemon=True)
        self.thread.start()

    def send(self, method: str, arguments: dict[str, Any], deadline: float) -> Any:
        """Return the response; raise TimeoutError at the deadline."""
        done: Future[Any] = Future()
        self._jobs.put((done, method, arguments, deadline))
        return done.result()

    def stop(self) -> None:
        """End the thread, and the request that it waits for."""
        self._is_stopped = True
        self._jobs.put(None)
        if self._hub is not None:
            self._hub.loop.run_callback_threadsafe(self._interrupt)

    def _interrupt(self) -> None:
        if self._hub is not None:
            self._main.throw(ConnectionAbortedError("the connection was closed"))

    def _run(self) -> None:
        gevent = importlib.import_module("gevent")
        self._main = gevent.getcurrent()
        client: Any = None
        while (job := self._jobs.get()) is not None:
            done, method, arguments, deadline = job
            try:
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    raise TimeoutError
                self._hub = gevent.get_hub()
                if self._is_stopped:
                    raise ConnectionAbortedError("the connection was closed")
                with gevent.Timeout(left_s, TimeoutError()):
                    client = client or self._open()
                    result = getattr(client, method)(**arguments)
                self._hub = None
                done.set_result(result)
                del result
            except BaseException as error:
                self._hub = None
                done.set_exception(error)
            del job, done, arguments
        if client is not None:
            client.close()
        gevent.get_hub().destroy(destroy_loop=True)


# --- tasks of an event loop -----------------------------------------------------------------------


class _AsyncClient:
    """The client of tritonclient for asyncio, opened in the event loop of the first request."""

    def __init__(self, authority: str, tls: Tls | None) -> None:
        self._authority = authority
        self._tls = tls
        self._client: Any = None
        self._in_flight: set[asyncio.Task[Any]] = set()
        self._aiohttp = importlib.import_module("aiohttp")
        self.errors = (self._aiohttp.ClientError, InterruptedError)

    async def send(self, method: str, arguments: dict[str, Any], timeout_s: float) -> Any:
        """Return the response to a method of tritonclient."""
        if self._client is None:
            options: dict[str, Any] = {"conn_limit": 0, "conn_timeout": None}
            if self._tls is not None:
                options |= {"ssl": True, "ssl_context": ssl_context(self._tls)}
            self._client = import_client("http.aio").InferenceServerClient(
                self._authority, **options
            )
        task = asyncio.current_task()
        assert task is not None
        self._in_flight.add(task)
        try:
            return await getattr(self._client, method)(**arguments)
        finally:
            self._in_flight.discard(task)

    async def close(self) -> None:
        """End the requests and close the connections."""
        for task in self._in_flight:
            task.cancel()
        if self._client is not None:
            await self._client.close()

    def request_error(self, error: Exception) -> RequestError:
        """Return the RequestError for an error of a connection."""
        aiohttp = self._aiohttp
        if isinstance(error, aiohttp.ServerDisconnectedError):
            if not isinstance(error.message, str):  # but a part of a head
                return response_truncated()
            return connection_lost("the server has closed the connection")
        if isinstance(error, aiohttp.ClientConnectorError):
            return from_os_error(error.os_error)
        if isinstance(error, aiohttp.ClientPayloadError):
            return response_truncated()
        if isinstance(error, aiohttp.ClientOSError) and error.errno is None:
            return connection_lost("the connection broke before the response")
        return from_os_error(error) if isinstance(error, OSError) else not_triton("http")
