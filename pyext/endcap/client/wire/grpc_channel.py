"""One gRPC channel for all threads, and how channels are set up."""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Callable, Iterable
from typing import Any

from endcap.client.address import Address
from endcap.client.errors import RequestError
from endcap.client.options import ConnectionOptions, Tls, check_metadata
from endcap.client.wire.exchange import GrpcQuestion
from endcap.client.wire.forks import check_process
from endcap.client.wire.install import import_client
from endcap.client.wire.tls import channel_credentials
from endcap.client.wire.translate import closed, from_grpc, stream_closed

_MOST_BYTES = 2**31 - 1  # of a message, both ways: Triton's own limit
# A server that comes back is met soon; by default gRPC waits up to two minutes between attempts.
_RECONNECT_MS = {"initial": 100, "max": 2000}


class GrpcChannel:
    """A channel to one server. Thread-safe. In a forked child it raises ClientError."""

    def __init__(self, address: Address, options: ConnectionOptions) -> None:
        self._grpc = importlib.import_module("grpc")
        setup = ChannelSetup(address, options)
        self._channel: Any = setup.open(self._grpc)
        self._stub: Any = import_client("grpc").service_pb2_grpc.GRPCInferenceServiceStub(
            self._channel
        )
        self._per_call = setup.per_call
        self._process = os.getpid()
        self._closed = False

    def send(self, question: GrpcQuestion, timeout_s: float) -> Any:
        """Returns the response message; RequestError or TimeoutError where none comes."""
        check_process(self._process)
        method = getattr(self._stub, question.method)
        try:
            return method(question.message, timeout=timeout_s, **self._per_call)
        except self._grpc.RpcError as error:
            raise (closed() if self._closed else rpc_error(error)) from error
        except ValueError as error:
            if self._closed:
                raise closed() from error
            raise

    def stream(self, requests: Iterable[Any]) -> Any:
        """Returns the call of a stream: an iterator of responses that has cancel()."""
        check_process(self._process)
        if self._closed:
            raise closed()
        return self._stub.ModelStreamInfer(requests, **self._per_call)

    def why_ended(self, error: BaseException) -> RequestError:
        """Returns what an error of a stream's call means."""
        return closed() if self._closed else stream_error(error)

    def close(self) -> None:
        """Closes the channel; requests in flight end as cancelled."""
        self._closed = True
        if self._process == os.getpid():
            self._channel.close()


class ChannelSetup:
    """What a channel is opened with, and what goes with each call; for grpc and grpc.aio."""

    def __init__(self, address: Address, options: ConnectionOptions) -> None:
        grpc = importlib.import_module("grpc")
        check_metadata(options.headers)
        self._authority = address.authority
        self._credentials = channel_credentials(options.tls or Tls()) if address.secure else None
        self._arguments = _channel_arguments(options)
        compression = {None: "NoCompression", "gzip": "Gzip", "deflate": "Deflate"}
        self.per_call: dict[str, Any] = {
            "metadata": tuple((name.lower(), value) for name, value in options.headers.items()),
            "compression": getattr(grpc.Compression, compression[options.compression]),
        }

    def open(self, module: Any) -> Any:
        """Returns a channel of `module`: grpc or grpc.aio."""
        insecure: Callable[..., Any] = module.insecure_channel
        if self._credentials is None:
            return insecure(self._authority, options=self._arguments)
        return module.secure_channel(self._authority, self._credentials, options=self._arguments)


def rpc_error(error: Any) -> RequestError | TimeoutError:
    """Returns the error that gRPC's stands for."""
    status = error.code().name
    if status == "DEADLINE_EXCEEDED":
        return TimeoutError()
    return from_grpc(status, error.details() or status)


def stream_error(error: BaseException) -> RequestError:
    """Returns why a stream has ended, by the exception that its call has raised."""
    if isinstance(error, importlib.import_module("grpc").RpcError):
        status = error.code().name
        if status == "CANCELLED":
            return stream_closed()
        return from_grpc(status, error.details() or status)
    if isinstance(error, asyncio.CancelledError):
        return stream_closed()
    return RequestError("internal", f"the stream has ended by {type(error).__name__}: {error}")


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
