"""Connections and streams for threads: `connection_aio.py`, driven without an event loop."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from endcap.client.address import Address
from endcap.client.calls import Call, RegionKind, Response
from endcap.client.concurrency import Threads, run
from endcap.client.connection_aio import AsyncConnection, AsyncStream
from endcap.client.options import ConnectionOptions
from endcap.client.retry import RetryPolicy
from endcap.client.served_model import ModelMetadata


class Connection:
    """`AsyncConnection` for threads. Thread-safe; a forked child needs another one."""

    def __init__(self, address: Address, options: ConnectionOptions | None = None) -> None:
        self.coroutines = AsyncConnection(address, options, runtime=Threads())

    @classmethod
    def around(cls, coroutines: AsyncConnection) -> Connection:
        """Return a connection that drives these coroutines, which use `Threads`."""
        connection = cls.__new__(cls)
        connection.coroutines = coroutines
        return connection

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

    @property
    def retry_policy(self) -> RetryPolicy:
        """The number of retries, for all requests together."""
        return self.coroutines.retry_policy

    def close(self) -> None:
        """Close the connection. Requests in flight end as cancelled, and so do later ones."""
        run(self.coroutines.close())

    def infer(self, call: Call, *, timeout_s: float | None = None) -> Response:
        """Send a request and return its response. timeout_s: None is `options.timeout_s`."""
        return run(self.coroutines.infer(call, timeout_s=timeout_s))

    def stream(self) -> Stream:
        """Return a stream, to be closed after use, as by `with`.

        Raises UnsupportedError over HTTP.
        """
        return Stream(self.coroutines.stream())

    def is_live(self) -> bool:
        """Whether a Triton server responds."""
        return run(self.coroutines.is_live())

    def is_ready(self, model: str) -> bool:
        """Whether the server serves a model now."""
        return run(self.coroutines.is_ready(model))

    def ready_models(self) -> list[str]:
        """Return the names of all models that are ready."""
        return run(self.coroutines.ready_models())

    def metadata(self, model: str) -> ModelMetadata:
        """Return the tensors of a model."""
        return run(self.coroutines.metadata(model))

    def config(self, model: str) -> dict[str, Any]:
        """Return a model's configuration as JSON objects, without the fields that are not set."""
        return run(self.coroutines.config(model))

    def statistics(self) -> list[dict[str, Any]]:
        """Return the statistics of each model, as Triton's statistics extension defines them.

        Numbers that are 0 are omitted.
        """
        return run(self.coroutines.statistics())

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
        """Register a shared-memory region with the server under `name`.

        Args:
            kind: "system" or "cuda".
            name: The name to register.
            byte_size: The size of the region.
            key: The file's name in /dev/shm, of kind "system"; None is `name`.
            raw_handle: The handle in base64, of kind "cuda", as
                `tritonclient.utils.cuda_shared_memory.get_raw_handle` returns it.
            device_id: The GPU's, of kind "cuda".
            timeout_s: Here and below, None is `options.timeout_s`.
        """
        run(
            self.coroutines.register_shared(
                kind,
                name,
                byte_size,
                key=key,
                raw_handle=raw_handle,
                device_id=device_id,
                timeout_s=timeout_s,
            )
        )

    def unregister_shared(
        self, kind: RegionKind, name: str, *, timeout_s: float | None = None
    ) -> None:
        """Unregister a region; names that are not registered are ignored."""
        run(self.coroutines.unregister_shared(kind, name, timeout_s=timeout_s))

    def registered(self, kind: RegionKind, *, timeout_s: float | None = None) -> dict[str, str]:
        """Return the registered regions: name -> key, which is "" for those of CUDA."""
        return run(self.coroutines.registered(kind, timeout_s=timeout_s))


class Stream:
    """`AsyncStream` for threads. One thread may send while another receives."""

    def __init__(self, coroutines: AsyncStream) -> None:
        self._coroutines = coroutines

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, {'alive' if self.alive else 'ended'}>"

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def alive(self) -> bool:
        """Whether the stream still takes requests."""
        return self._coroutines.alive

    def send(self, call: Call) -> None:
        """Send a request, without waiting.

        Raises:
            RequestError: The stream has ended.
            InvalidArgumentError: For another model.
        """
        run(self._coroutines.send(call))

    def receive(self, timeout_s: float | None = None) -> Response:
        """Return the next response.

        Args:
            timeout_s: How long to wait for it; None is the connection's.

        Raises:
            RequestError: For the error of a request, for the end of the stream, and where no
                response arrives in time; the last leaves the stream usable.
        """
        return run(self._coroutines.receive(timeout_s))

    def close(self) -> None:
        """End the stream; what has no response is cancelled."""
        run(self._coroutines.close())
