# Made by scripts/generate_sync_client.py: change ../_async/http_transport.py instead.

"""HTTP connections to one server."""

from __future__ import annotations

import contextlib
import os
import ssl
import time
from collections.abc import Iterable, Iterator
from typing import Any

import httpcore

from endcap.client import http
from endcap.client.address import Address
from endcap.client.errors import (
    RequestError,
    check_process,
    closed,
    connection_lost,
    from_os_error,
    not_triton,
    response_truncated,
)
from endcap.client.http import HttpRequest, HttpResponse
from endcap.client.options import ConnectionOptions, Tls, ssl_context
from endcap.client.synchronization import WRITE_BYTES, interrupt, shut_down
from endcap.client.trace_context import trace_headers

_DISCONNECTED = "Server disconnected"  # httpcore's message of an incomplete head, empty or not


class HttpTransport:
    """A connection to one server for each concurrent request.

    They belong to the process of the first request. In a forked child it raises ClientError: over
    the parent's connections it would receive the parent's responses.
    """

    def __init__(
        self, address: Address, options: ConnectionOptions, most_bytes: int | None = None
    ) -> None:
        host, _, port = address.authority.rpartition(":")
        self._origin = ("https" if address.secure else "http", host.strip("[]"), int(port))
        self._given = {name.lower() for name in options.headers}
        self._headers = {} if "host" in self._given else {"Host": address.authority}
        self._headers.update(options.headers)
        self._backend = _Backend()
        self._pool = httpcore.ConnectionPool(
            ssl_context=ssl_context(options.tls or Tls()) if address.secure else None,
            max_connections=None,
            network_backend=self._backend,
        )
        self._most_bytes = most_bytes or http.MOST_BYTES  # of a response
        self._process = 0  # of the first request
        self._closed = False

    def send(self, request: HttpRequest, timeout_s: float) -> HttpResponse:
        """Return the response, of any status; raise RequestError or TimeoutError without one.

        A task that is cancelled here drops its connection.
        """
        if self._closed:
            raise closed()
        self._process = self._process or os.getpid()
        check_process(self._process)
        progress = _Progress(timeout_s)
        try:
            return self._exchange(request, progress)
        except httpcore.TimeoutException as error:
            raise (closed() if self._closed else TimeoutError()) from error
        except (httpcore.NetworkError, httpcore.ProtocolError) as error:
            raise (closed() if self._closed else _why_failed(error, progress.head)) from error

    def close(self) -> None:
        """Close the connections; requests in flight end as cancelled."""
        self._closed = True
        if self._process == os.getpid():
            self._backend.interrupt()
            self._pool.close()

    def _exchange(self, request: HttpRequest, progress: _Progress) -> HttpResponse:
        scheme, host, port = self._origin
        # httpcore hands these on to the streams below as they are.
        timeouts = {"connect": progress, "read": progress, "write": progress}
        with self._pool.stream(
            request.method,
            httpcore.URL(scheme=scheme, host=host, port=port, target=request.path),
            headers=self._header_fields(request),
            content=None if request.method == "GET" else request.body,
            extensions={"timeout": timeouts},
        ) as response:
            fields = {
                name.decode("latin-1").lower(): value.decode("latin-1")
                for name, value in response.headers
            }
            try:
                return HttpResponse(response.status, fields, self._body(response, fields))
            except (httpcore.NetworkError, httpcore.ProtocolError) as error:
                raise (closed() if self._closed else response_truncated()) from error

    def _header_fields(self, request: HttpRequest) -> list[tuple[bytes, bytes]]:
        trace = trace_headers(self._given)
        fields: dict[str, str] = {**trace, **self._headers, **request.headers}
        return [(name.encode("ascii"), value.encode("ascii")) for name, value in fields.items()]

    def _body(self, response: httpcore.Response, fields: dict[str, str]) -> bytes:
        with contextlib.suppress(ValueError):
            http.check_size(int(fields.get("content-length", 0)), self._most_bytes)
        parts: list[bytes] = []
        byte_size = 0
        for part in response.iter_stream():
            parts.append(part)
            byte_size += len(part)
            http.check_size(byte_size, self._most_bytes)
        return b"".join(parts)


class _Progress:
    """The deadline of a request, and the first bytes of its response."""

    def __init__(self, timeout_s: float) -> None:
        self._end = time.monotonic() + timeout_s
        self.head = b""

    def left_s(self) -> float:
        left_s = self._end - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        return left_s


class _Backend(httpcore.NetworkBackend):
    """Connections, each operation of which has the remaining time of its request."""

    def __init__(self) -> None:
        self._backend = httpcore.SyncBackend()
        self._streams: set[_Stream] = set()
        self._handshakes: set[Any] = set()
        self.is_closed = False

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: Any = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        stream = self._backend.connect_tcp(
            host, port, timeout.left_s(), local_address, socket_options
        )
        return self.add(stream)

    def add(self, stream: httpcore.NetworkStream) -> httpcore.NetworkStream:
        """Return the stream as one that `interrupt` knows; close it where that came before."""
        added = _Stream(stream, self)
        self._streams.add(added)
        if self.is_closed:
            added.close()
            raise httpcore.ConnectError("the connection was closed")
        return added

    def remove(self, stream: _Stream) -> None:
        """Forget a stream."""
        self._streams.discard(stream)

    def interrupt(self) -> None:
        """Wake the threads that read from connections; refuse those that are being opened."""
        self.is_closed = True
        for handshake in list(self._handshakes):
            shut_down(handshake)
        for stream in list(self._streams):
            interrupt(stream.get_extra_info("socket"))

    @contextlib.contextmanager
    def handshake(self, connection: Any) -> Iterator[None]:
        """Let `interrupt` end the TLS handshake of the block.

        TLS takes the socket away from its stream; a duplicate shuts the connection down, too.
        """
        duplicate = connection.dup()
        self._handshakes.add(duplicate)
        try:
            if self.is_closed:
                raise httpcore.ConnectError("the connection was closed")
            yield
        finally:
            self._handshakes.discard(duplicate)
            duplicate.close()


class _Stream(httpcore.NetworkStream):
    def __init__(self, stream: httpcore.NetworkStream, backend: _Backend) -> None:
        self._stream = stream
        self._backend = backend

    def read(self, max_bytes: int, timeout: Any = None) -> bytes:
        left_s = timeout.left_s()
        try:
            data = self._stream.read(max_bytes, left_s)
        except ssl.SSLError as error:  # of TLS 1.3, which refuses a client after the handshake
            raise httpcore.ReadError(str(error)) from error
        timeout.head = timeout.head or data
        return data

    def write(self, buffer: bytes, timeout: Any = None) -> None:
        view = memoryview(buffer)
        for begin in range(0, len(view), WRITE_BYTES):
            if self._backend.is_closed:
                raise httpcore.WriteError("the connection was closed")
            part: Any = view[begin : begin + WRITE_BYTES]
            self._stream.write(part, timeout.left_s())

    def close(self) -> None:
        self._backend.remove(self)
        self._stream.close()

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: Any = None
    ) -> httpcore.NetworkStream:
        with self._backend.handshake(self._stream.get_extra_info("socket")):
            secure = self._stream.start_tls(ssl_context, server_hostname, timeout.left_s())
        self._backend.remove(self)
        return self._backend.add(secure)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _why_failed(error: Exception, head: bytes) -> RequestError:
    """Return the error of a request; head: the first bytes of its response."""
    if head.startswith(b"HTTP/") and not _is_malformed(error):
        return response_truncated()
    if isinstance(error, httpcore.NetworkError) and not head:
        return from_os_error(_os_error(error))
    if _is_disconnected(error) and not head:
        return connection_lost(str(error))
    return not_triton("http")


def _is_disconnected(error: Exception) -> bool:
    return isinstance(error, httpcore.ProtocolError) and str(error).startswith(_DISCONNECTED)


def _is_malformed(error: Exception) -> bool:
    return isinstance(error, httpcore.ProtocolError) and not _is_disconnected(error)


def _os_error(error: BaseException) -> OSError:
    """Return the error of the system that httpcore and its backends wrap."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno is not None:
            return cause
        several = getattr(cause, "exceptions", None)  # of the addresses of one host
        # httpcore's pool raises from None, which leaves the context alone.
        cause = several[0] if several else cause.__cause__ or cause.__context__
    return ConnectionError(str(error) or "the connection broke")
