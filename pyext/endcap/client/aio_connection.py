"""A server as asyncio programs see it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import TracebackType
from typing import Any

from endcap.client.address import Address
from endcap.client.aio_stream import AsyncStream
from endcap.client.calls import Call, Response, TensorSpec
from endcap.client.errors import RequestError
from endcap.client.model_metadata import ModelMetadata
from endcap.client.options import ConnectionOptions, check_timeout
from endcap.client.retry import Attempts, RetryPolicy
from endcap.client.wire.aio_grpc_channel import AioGrpcChannel
from endcap.client.wire.aio_http_session import AioHttpSession
from endcap.client.wire.exchange import Exchange, T
from endcap.client.wire.protocol import (
    RegionKind,
    make_protocol,
    named,
    register_region,
    streams_need_grpc,
)
from endcap.client.wire.translate import no_answer


class AsyncConnection:
    """As `endcap.client.connection.Connection`, for the tasks of one event loop.

    It belongs to the event loop in which its first request runs, and is to be closed there. A task
    that is cancelled while it waits for an answer cancels its request: in the server, too, over
    gRPC; over HTTP its connection is closed.
    """

    def __init__(self, address: Address, options: ConnectionOptions | None = None) -> None:
        self.options = options or ConnectionOptions()
        self.address = replace(address, secure=address.secure or self.options.tls is not None)
        self.retry_policy = RetryPolicy(self.options.retries)
        self._protocol = make_protocol(self.address, self.options)
        self._transport: AioGrpcChannel | AioHttpSession = (
            AioGrpcChannel(self.address, self.options)
            if address.protocol == "grpc"
            else AioHttpSession(self.address, self.options)
        )

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
        """Closes the connection. Requests in flight end as cancelled, and so do later ones."""
        await self._transport.close()

    async def infer(self, call: Call, *, timeout_s: float | None = None) -> Response:
        """Sends a request and returns its answer. timeout_s: None is `options.timeout_s`."""
        exchange = self._protocol.infer(call)
        with named(call.request_id):
            return await self._ask(
                exchange,
                timeout_s=timeout_s,
                repeatable=call.sequence is None,
                shares_memory=call.shares_memory,
            )

    def stream(self) -> AsyncStream:
        """Returns a stream, to be closed after use: `async with connection.stream() as stream`.

        Raises UnsupportedError over HTTP.
        """
        if not isinstance(self._transport, AioGrpcChannel):
            raise streams_need_grpc(self.address)
        return AsyncStream(self._transport, self.options.timeout_s)

    async def is_live(self) -> bool:
        """Whether a Triton server answers."""
        return await self._ask(self._protocol.live(), repeatable=False)

    async def is_ready(self, model: str) -> bool:
        """Whether the server serves a model now."""
        return await self._ask(self._protocol.ready(model), repeatable=False)

    async def ready_models(self) -> list[str]:
        """Returns the names of all models that are ready."""
        return await self._ask(self._protocol.ready_models(), repeatable=False)

    async def metadata(self, model: str) -> ModelMetadata:
        """Returns the tensors of a model."""
        return await self._ask(self._protocol.metadata(model))

    async def inputs(self, model: str) -> dict[str, TensorSpec]:
        """Returns the inputs of a model by name."""
        return dict((await self.metadata(model)).inputs)

    async def outputs(self, model: str) -> dict[str, TensorSpec]:
        """Returns the outputs of a model by name."""
        return dict((await self.metadata(model)).outputs)

    async def config(self, model: str) -> dict[str, Any]:
        """Returns a model's configuration as in JSON, without the fields that are not set."""
        return await self._ask(self._protocol.config(model))

    async def statistics(self) -> list[dict[str, Any]]:
        """Returns what the server has counted of each model, as Triton's statistics extension.

        Numbers that are 0 are left out.
        """
        return await self._ask(self._protocol.statistics())

    async def register_shared(
        self,
        kind: RegionKind,
        name: str,
        byte_size: int,
        *,
        key: str | None = None,
        raw_handle: bytes | None = None,
        device_id: int = 0,
        timeout_s: float | None = None,
    ) -> None:
        """Makes a shared-memory region known to the server; see `Connection.register_shared`."""
        place: dict[str, Any] = {"key": key, "raw_handle": raw_handle, "device_id": device_id}
        exchange = register_region(self._protocol, kind, name, byte_size, **place)
        await self._ask(exchange, timeout_s=timeout_s)

    async def unregister_shared(
        self, kind: RegionKind, name: str, *, timeout_s: float | None = None
    ) -> None:
        """Ends that; a name that is not registered is no error."""
        await self._ask(self._protocol.unregister(kind, name), timeout_s=timeout_s)

    async def registered(
        self, kind: RegionKind, *, timeout_s: float | None = None
    ) -> dict[str, str]:
        """Returns the registered regions: name -> key, which is "" for those of CUDA."""
        return await self._ask(self._protocol.registered(kind), timeout_s=timeout_s)

    async def _ask(
        self,
        exchange: Exchange[T],
        *,
        timeout_s: float | None = None,
        repeatable: bool = True,
        shares_memory: bool = False,
    ) -> T:
        limit_s = self.options.timeout_s if timeout_s is None else timeout_s
        check_timeout(limit_s)
        retries = self.retry_policy.retries() if repeatable else 0
        attempts = Attempts(retries, limit_s, shares_memory=shares_memory)
        while True:
            try:
                answer = await self._transport.send(exchange.question, attempts.remaining_s())
                read = exchange.read(answer)
                self.retry_policy.end(None)
                return read
            except TimeoutError as error:
                raise no_answer(limit_s) from error
            except RequestError as error:
                wait_s = self.retry_policy.wait_after(error, attempts, repeatable=repeatable)
            await asyncio.sleep(wait_s)
