"""A server as blocking programs see it."""

from __future__ import annotations

import time
from dataclasses import replace
from types import TracebackType
from typing import Any

from endcap.client.address import Address
from endcap.client.calls import Call, Response, TensorSpec
from endcap.client.errors import RequestError
from endcap.client.model_metadata import ModelMetadata
from endcap.client.options import ConnectionOptions, check_timeout
from endcap.client.retry import Attempts, RetryPolicy
from endcap.client.stream import Stream
from endcap.client.wire.exchange import Exchange, T
from endcap.client.wire.grpc_channel import GrpcChannel
from endcap.client.wire.http_connections import HttpConnections
from endcap.client.wire.protocol import (
    RegionKind,
    make_protocol,
    named,
    register_region,
    streams_need_grpc,
)
from endcap.client.wire.translate import no_answer


class Connection:
    """A connection to a server: one channel over gRPC, one connection a request over HTTP.

    Nothing is sent before the first request. Every method that asks the server raises RequestError
    where it gets no answer within `options.timeout_s`, or the server answers with an error.
    A request that the server is unavailable for is sent again, `options.retries` times at the most;
    is_live, is_ready, ready_models and steps of sequences are not. One with tensors in shared
    memory is sent again only where the server refused it: after a broken connection it may still
    be running, and write there later. Thread-safe.

    Raises ClientError where tritonclient is not installed, and InvalidArgumentError for options
    that cannot be used.
    """

    def __init__(self, address: Address, options: ConnectionOptions | None = None) -> None:
        self.options = options or ConnectionOptions()
        self.address = replace(address, secure=address.secure or self.options.tls is not None)
        self.retry_policy = RetryPolicy(self.options.retries)
        self._protocol = make_protocol(self.address, self.options)
        self._transport: GrpcChannel | HttpConnections = (
            GrpcChannel(self.address, self.options)
            if address.protocol == "grpc"
            else HttpConnections(self.address, self.options)
        )

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection. Requests in flight end as cancelled, and so do later ones."""
        self._transport.close()

    def infer(self, call: Call, *, timeout_s: float | None = None) -> Response:
        """Sends a request and returns its answer. timeout_s: None is `options.timeout_s`."""
        exchange = self._protocol.infer(call)
        with named(call.request_id):
            return self._ask(
                exchange,
                timeout_s=timeout_s,
                repeatable=call.sequence is None,
                shares_memory=call.shares_memory,
            )

    def stream(self) -> Stream:
        """Returns a stream, to be closed after use: `with connection.stream() as stream`.

        Raises UnsupportedError over HTTP.
        """
        if not isinstance(self._transport, GrpcChannel):
            raise streams_need_grpc(self.address)
        return Stream(self._transport, self.options.timeout_s)

    def is_live(self) -> bool:
        """Whether a Triton server answers."""
        return self._ask(self._protocol.live(), repeatable=False)

    def is_ready(self, model: str) -> bool:
        """Whether the server serves a model now."""
        return self._ask(self._protocol.ready(model), repeatable=False)

    def ready_models(self) -> list[str]:
        """Returns the names of all models that are ready."""
        return self._ask(self._protocol.ready_models(), repeatable=False)

    def metadata(self, model: str) -> ModelMetadata:
        """Returns the tensors of a model."""
        return self._ask(self._protocol.metadata(model))

    def inputs(self, model: str) -> dict[str, TensorSpec]:
        """Returns the inputs of a model by name."""
        return dict(self.metadata(model).inputs)

    def outputs(self, model: str) -> dict[str, TensorSpec]:
        """Returns the outputs of a model by name."""
        return dict(self.metadata(model).outputs)

    def config(self, model: str) -> dict[str, Any]:
        """Returns a model's configuration as in JSON, without the fields that are not set."""
        return self._ask(self._protocol.config(model))

    def statistics(self) -> list[dict[str, Any]]:
        """Returns what the server has counted of each model, as Triton's statistics extension.

        Numbers that are 0 are left out.
        """
        return self._ask(self._protocol.statistics())

    def register_shared(
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
        """Makes a shared-memory region known to the server under `name`.

        key: of kind "system", the file's name in /dev/shm; None is `name`.
        raw_handle, device_id: of kind "cuda"; the handle in base64, as
            `tritonclient.utils.cuda_shared_memory.get_raw_handle` gives it.
        timeout_s: here and below, None is `options.timeout_s`.
        """
        place: dict[str, Any] = {"key": key, "raw_handle": raw_handle, "device_id": device_id}
        exchange = register_region(self._protocol, kind, name, byte_size, **place)
        self._ask(exchange, timeout_s=timeout_s)

    def unregister_shared(
        self, kind: RegionKind, name: str, *, timeout_s: float | None = None
    ) -> None:
        """Ends that; a name that is not registered is no error."""
        self._ask(self._protocol.unregister(kind, name), timeout_s=timeout_s)

    def registered(self, kind: RegionKind, *, timeout_s: float | None = None) -> dict[str, str]:
        """Returns the registered regions: name -> key, which is "" for those of CUDA."""
        return self._ask(self._protocol.registered(kind), timeout_s=timeout_s)

    def _ask(
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
                answer = self._transport.send(exchange.question, attempts.remaining_s())
                read = exchange.read(answer)
                self.retry_policy.end(None)
                return read
            except TimeoutError as error:
                raise no_answer(limit_s) from error
            except RequestError as error:
                wait_s = self.retry_policy.wait_after(error, attempts, repeatable=repeatable)
            time.sleep(wait_s)
