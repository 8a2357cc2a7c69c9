"""One gRPC channel for all tasks of an event loop."""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import AsyncIterable
from typing import Any

from endcap.client.address import Address
from endcap.client.errors import RequestError
from endcap.client.options import ConnectionOptions
from endcap.client.wire.exchange import GrpcQuestion
from endcap.client.wire.forks import check_process
from endcap.client.wire.grpc_channel import ChannelSetup, rpc_error, stream_error
from endcap.client.wire.install import import_client
from endcap.client.wire.translate import closed, from_grpc


class AioGrpcChannel:
    """A channel to one server, which stays in the event loop and process of its first request."""

    def __init__(self, address: Address, options: ConnectionOptions) -> None:
        self._grpc = importlib.import_module("grpc")
        self._aio = importlib.import_module("grpc.aio")
        self._service: Any = import_client("grpc").service_pb2_grpc.GRPCInferenceServiceStub
        self._setup = ChannelSetup(address, options)
        self._channel: Any = None
        self._stub: Any = None
        self._process = 0  # which has opened it
        self._closed = False

    async def send(self, question: GrpcQuestion, timeout_s: float) -> Any:
        """Returns the response message; RequestError or TimeoutError where none comes.

        A task that is cancelled here cancels its request in the server.
        """
        method = getattr(self._opened(), question.method)
        try:
            call = method(question.message, timeout=timeout_s, **self._setup.per_call)
            await _until_done(call)
            # gRPC would raise CancelledError, as if this task had been cancelled.
            if call.cancelled():
                raise closed() if self._closed else from_grpc("CANCELLED", await call.details())
            return await call
        except self._grpc.RpcError as error:
            raise (closed() if self._closed else rpc_error(error)) from error
        except self._aio.UsageError as error:
            if self._closed:
                raise closed() from error
            raise

    def stream(self, requests: AsyncIterable[Any]) -> Any:
        """Returns the call of a stream: an asynchronous iterator of responses that has cancel()."""
        return self._opened().ModelStreamInfer(requests, **self._setup.per_call)

    def why_ended(self, error: BaseException) -> RequestError:
        """Returns what an error of a stream's call means."""
        return closed() if self._closed else stream_error(error)

    async def close(self) -> None:
        """Closes the channel; requests in flight end as cancelled."""
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


async def _until_done(call: Any) -> None:
    """Waits for a call, so that a CancelledError can but be that of the task that waits."""
    done = asyncio.Event()
    call.add_done_callback(lambda _: done.set())
    try:
        await done.wait()
    except asyncio.CancelledError:
        call.cancel()
        raise
