"""gRPC channels: one for all threads, one for all tasks of an event loop."""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import AsyncIterable, Callable, Iterable
from pathlib import Path
from typing import Any

from endcap.client.address import Address
from endcap.client.errors import RequestError
from endcap.client.options import ConnectionOptions, Tls, check_metadata
from endcap.client.wire.errors import closed, from_grpc, stream_closed
from endcap.client.wire.exchange import GrpcRequest, check_process, import_client
from endcap.client.wire.tls import ssl_context
from endcap.errors import InvalidArgumentError

_MOST_BYTES = 2**31 - 1  # of a message, both ways: Triton's own limit
# A server that comes back is met soon; by default gRPC waits up to two minutes between attempts.
_RECONNECT_MS = {"initial": 100, "max": 2000}


class GrpcTransport:
    """A channel to one server. Thread-safe. In a forked child it raises ClientError."""

    def __init__(self, address: Address, options: ConnectionOptions) -> None:
        self._grpc = importlib.import_module("grpc")
        setup = _ChannelSetup(address, options)
        self._channel: Any = setup.open(self._grpc)
        self._stub: Any = import_client("grpc").service_pb2_grpc.GRPCInferenceServiceStub(
            self._channel
        )
        self._per_call = setup.per_call
        self._process = os.getpid()
        self._closed = False

    def send(self, request: GrpcRequest, timeout_s: float) -> Any:
        """Return the response message; RequestError or TimeoutError where none comes."""
        check_process(self._process)
        method = getattr(self._stub, request.method)
        try:
            return method(request.message, timeout=timeout_s, **self._per_call)
        except self._grpc.RpcError as error:
            raise (closed() if self._closed else _rpc_error(error)) from error
        except ValueError as error:
            if self._closed:
                raise closed() from error
            raise

    def stream(self, messages: Iterable[Any]) -> Any:
        """Return the call of a stream: an iterator of responses that has cancel()."""
        check_process(self._process)
        if self._closed:
            raise closed()
        return self._stub.ModelStreamInfer(messages, **self._per_call)

    def why_ended(self, error: BaseException) -> RequestError:
        """Return what an error of a stream's call means."""
        return closed() if self._closed else _stream_error(error)

    def close(self) -> None:
        """Close the channel; requests in flight end as cancelled."""
        self._closed = True
        if self._process == os.getpid():
            self._channel.close()


class AsyncGrpcTransport:
    """GrpcTransport for asyncio; it stays in the event loop and process of its first request."""

    def __init__(self, address: Address, options: ConnectionOptions) -> None:
        self._grpc = importlib.import_module("grpc")
        self._aio = importlib.import_module("grpc.aio")
        self._service: Any = import_client("grpc").service_pb2_grpc.GRPCInferenceServiceStub
        self._setup = _ChannelSetup(address, options)
        self._channel: Any = None
        self._stub: Any = None
        self._process = 0  # which has opened it
        self._closed = False

    async def send(self, request: GrpcRequest, timeout_s: float) -> Any:
        """Return the response message; RequestError or TimeoutError where none comes.

        A task that is cancelled here cancels its request in the server.
        """
        method = getattr(self._opened(), request.method)
        try:
            call = method(request.message, timeout=timeout_s, **self._setup.per_call)
            await _until_done(call)
            # gRPC would raise CancelledError, as if this task had been cancelled.
            if call.cancelled():
                raise closed() if self._closed else from_grpc("CANCELLED", await call.details())
            return await call
        except self._grpc.RpcError as error:
            raise (closed() if self._closed else _rpc_error(error)) from error
        except self._aio.UsageError as error:
            if self._closed:
                raise closed() from error
            raise

    def stream(self, messages: AsyncIterable[Any]) -> Any:
        """Return the call of a stream: an asynchronous iterator of responses that has cancel()."""
        return self._opened().ModelStreamInfer(messages, **self._setup.per_call)

    def why_ended(self, error: BaseException) -> RequestError:
        """Return what an error of a stream's call means."""
        return closed() if self._closed else _stream_error(error)

    async def close(self) -> None:
        """Close the channel; requests in flight end as cancelled."""
        self._closed = True
        if self._channel is not None and self._process == os.getpid():
            await self._channel.close()

    def _opened(self) -> Any:
        if self._closed:
            raise closed()
        if self._stub is None:
            self._process = os.getpid()
            self._channel = self._setup.open(self._aio)
            self._stub = self._service(self._channel)
        check_process(self._process)
        return self._stub


class _ChannelSetup:
    """What a channel is opened with, and what goes with each call; for grpc and grpc.aio."""

    def __init__(self, address: Address, options: ConnectionOptions) -> None:
        grpc = importlib.import_module("grpc")
        check_metadata(options.headers)
        self._authority = address.authority
        self._credentials = _credentials(options.tls or Tls()) if address.secure else None
        self._arguments = _channel_arguments(options)
        compression = {None: "NoCompression", "gzip": "Gzip", "deflate": "Deflate"}
        self.per_call: dict[str, Any] = {
            "metadata": tuple((name.lower(), value) for name, value in options.headers.items()),
            "compression": getattr(grpc.Compression, compression[options.compression]),
        }

    def open(self, module: Any) -> Any:
        """Return a channel of `module`: grpc or grpc.aio."""
        insecure: Callable[..., Any] = module.insecure_channel
        if self._credentials is None:
            return insecure(self._authority, options=self._arguments)
        return module.secure_channel(self._authority, self._credentials, options=self._arguments)


def _credentials(tls: Tls) -> Any:
    """Return gRPC's channel credentials; InvalidArgumentError where gRPC has no such option."""
    if not tls.verify:
        raise InvalidArgumentError(
            "TLS's verify is False: gRPC always looks at the server's certificate; give its "
            "authority as ca"
        )
    ssl_context(tls)  # gRPC would only tell with its first request that a file is no PEM
    files = [None if path is None else Path(path) for path in (tls.ca, tls.key, tls.certificate)]
    return importlib.import_module("grpc").ssl_channel_credentials(
        *(None if file is None else file.read_bytes() for file in files)
    )


def _channel_arguments(options: ConnectionOptions) -> list[tuple[str, int]]:
    arguments = [
        ("grpc.max_send_message_length", _MOST_BYTES),
        ("grpc.max_receive_message_length", _MOST_BYTES),
        ("grpc.initial_reconnect_backoff_ms", _RECONNECT_MS["initial"]),
        ("grpc.max_reconnect_backoff_ms", _RECONNECT_MS["max"]),
    ]
    keepalive = options.keepalive
    if keepalive is not None:
        arguments += [
            ("grpc.keepalive_time_ms", round(keepalive.time_s * 1e3)),
            ("grpc.keepalive_timeout_ms", round(keepalive.timeout_s * 1e3)),
            # Recent releases wait this long for the answer to any ping, by default a minute.
            ("grpc.http2.ping_timeout_ms", round(keepalive.timeout_s * 1e3)),
            ("grpc.keepalive_permit_without_calls", int(keepalive.without_calls)),
            ("grpc.http2.max_pings_without_data", keepalive.max_pings_without_data),
        ]
    return arguments


def _rpc_error(error: Any) -> RequestError | TimeoutError:
    status = error.code().name
    if status == "DEADLINE_EXCEEDED":
        return TimeoutError()
    return from_grpc(status, error.details() or status)


def _stream_error(error: BaseException) -> RequestError:
    if isinstance(error, importlib.import_module("grpc").RpcError):
        status = error.code().name
        if status == "CANCELLED":
            return stream_closed()
        return from_grpc(status, error.details() or status)
    if isinstance(error, asyncio.CancelledError):
        return stream_closed()
    return RequestError("internal", f"the stream has ended by {type(error).__name__}: {error}")


async def _until_done(call: Any) -> None:
    """Wait for a call, so that a CancelledError can but be that of the task that waits."""
    done = asyncio.Event()
    call.add_done_callback(lambda _: done.set())
    try:
        await done.wait()
    except asyncio.CancelledError:
        call.cancel()
        raise
