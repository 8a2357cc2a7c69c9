"""Connections to a server: requests with deadlines and retries over gRPC or HTTP, and streams."""

from __future__ import annotations

import asyncio
import copy
import weakref
from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import TracebackType
from typing import Any, TypeVar

from endcap.client.address import Address
from endcap.client.calls import Call, OutputTensor, RegionKind, Response
from endcap.client.concurrency import Queue, Runtime, Tasks, as_async
from endcap.client.errors import RequestError, ended_by_server, timed_out
from endcap.client.grpc_transport import GrpcTransport, read_stream_message
from endcap.client.http_transport import HttpTransport
from endcap.client.options import ConnectionOptions, check_timeout
from endcap.client.retry import Attempts, RetryPolicy
from endcap.client.served_model import ModelMetadata, read_metadata
from endcap.errors import InvalidArgumentError, UnsupportedError

T = TypeVar("T")


class AsyncConnection:
    """A connection to a server: one channel over gRPC, one connection a request over HTTP.

    Nothing is sent before the first request. Every method that sends a request raises RequestError
    where there is no response within `options.timeout_s`, or the server responds with an error.
    A request is sent again where the server is unavailable, `options.retries` times at the most;
    is_live, is_ready, ready_models and steps of sequences are not. One with tensors in shared
    memory is sent again only where the server refused it: after a broken connection it may still
    be running, and write there later.

    `Connection` is thread-safe. `AsyncConnection` is for the tasks of one event loop, in which its
    first request runs and where it is closed; a task that is cancelled while it waits cancels its
    request: in the server, too, over gRPC; over HTTP its connection is closed.

    Raises ClientError where tritonclient is not installed, and InvalidArgumentError for options
    that cannot be used.
    """

    def __init__(
        self,
        address: Address,
        options: ConnectionOptions | None = None,
        *,
        runtime: Runtime | None = None,
    ) -> None:
        self.options = options or ConnectionOptions()
        self.address = replace(address, secure=address.secure or self.options.tls is not None)
        self.retry_policy = RetryPolicy(self.options.retries)
        self._runtime: Runtime = runtime or Tasks()
        transport = GrpcTransport if address.protocol == "grpc" else HttpTransport
        self._transport: Any = transport(self.address, self.options, self._runtime)

    def to(self, address: Address, options: ConnectionOptions) -> AsyncConnection:
        """Return a connection to another server, of the same kind."""
        return AsyncConnection(address, options, runtime=self._runtime)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} to {self.address}>"

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
        """Close the connection. Requests in flight end as cancelled, and so do later ones."""
        await self._transport.close()

    async def infer(self, call: Call, *, timeout_s: float | None = None) -> Response:
        """Send a request and return its response. timeout_s: None is `options.timeout_s`."""

        async def send(left_s: float) -> Response:
            return await self._transport.infer(self._with_timeout(call, left_s), left_s)  # type: ignore[no-any-return]

        try:
            return await self._repeat(
                send,
                timeout_s,
                is_repeatable=call.sequence is None,
                shares_memory=call.shares_memory,
            )
        except RequestError as error:
            error.request_id = error.request_id or call.request_id
            raise

    def stream(self, put: Callable[[Response | RequestError], None] | None = None) -> AsyncStream:
        """Return a stream, to be closed after use, as by `with`.

        Args:
            put: A function that is called with each response on arrival, in place of `receive`.

        Raises:
            UnsupportedError: Over HTTP.
        """
        if not isinstance(self._transport, GrpcTransport):
            raise UnsupportedError(
                f"{self.address} is an HTTP address, and HTTP has no streams; give the "
                "server's gRPC address"
            )
        return AsyncStream(self._transport, self.options.timeout_s, self._runtime, put)

    async def is_live(self) -> bool:
        """Whether a Triton server responds."""
        return bool(await self._send("is_server_live", is_repeatable=False))

    async def is_ready(self, model: str) -> bool:
        """Whether the server serves a model now."""
        return bool(await self._send("is_model_ready", is_repeatable=False, model_name=model))

    async def ready_models(self) -> list[str]:
        """Return the names of all models that are ready."""
        # Of the statistics: `endcap serve` closes the repository's index.
        statistics = await self._send("get_inference_statistics", is_repeatable=False)
        return sorted({str(each["name"]) for each in statistics.get("model_stats", [])})

    async def metadata(self, model: str) -> ModelMetadata:
        """Return the tensors of a model."""
        return read_metadata(model, await self._send("get_model_metadata", model_name=model))

    async def config(self, model: str) -> dict[str, Any]:
        """Return a model's configuration as JSON objects, without the fields that are not set."""
        config = await self._send("get_model_config", model_name=model)
        return dict(config.get("config", {}) if self.address.protocol == "grpc" else config)

    async def statistics(self) -> list[dict[str, Any]]:
        """Return the statistics of each model, as Triton's statistics extension defines them.

        Numbers that are 0 are omitted.
        """
        return list((await self._send("get_inference_statistics")).get("model_stats", []))

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
        arguments: dict[str, Any] = {"name": name, "byte_size": byte_size}
        if kind == "system":
            arguments["key"] = key or name
        elif raw_handle is None:
            raise InvalidArgumentError(f"region {name} is of CUDA, but has no raw_handle; give it")
        else:
            arguments |= {"raw_handle": raw_handle, "device_id": device_id}
        await self._send(f"register_{kind}_shared_memory", timeout_s, **arguments)

    async def unregister_shared(
        self, kind: RegionKind, name: str, *, timeout_s: float | None = None
    ) -> None:
        """Unregister a region; names that are not registered are ignored."""
        await self._send(f"unregister_{kind}_shared_memory", timeout_s, name=name)

    async def registered(
        self, kind: RegionKind, *, timeout_s: float | None = None
    ) -> dict[str, str]:
        """Return the registered regions: name -> key, which is "" for those of CUDA."""
        status = await self._send(f"get_{kind}_shared_memory_status", timeout_s)
        return {name: region.get("key", "") for name, region in status.get("regions", {}).items()}

    def _with_timeout(self, call: Call, left_s: float) -> Call:
        # Where sequences wait for one another, Triton refuses all frames of one by the first
        # timeout that ends.
        if not self.options.send_timeout or call.sequence is not None:
            return call
        return replace(call, timeout_us=call.timeout_us or max(1, int(left_s * 1e6)))

    async def _send(
        self,
        method: str,
        timeout_s: float | None = None,
        *,
        is_repeatable: bool = True,
        **arguments: Any,
    ) -> Any:
        """Return the response to a method of tritonclient."""

        async def send(left_s: float) -> Any:
            return await self._transport.send(method, left_s, **arguments)

        return await self._repeat(send, timeout_s, is_repeatable=is_repeatable)

    async def _repeat(
        self,
        send: Callable[[float], Awaitable[T]],
        timeout_s: float | None,
        *,
        is_repeatable: bool,
        shares_memory: bool = False,
    ) -> T:
        """Return the result of `send`, which is called for each attempt with the seconds left."""
        limit_s = self.options.timeout_s if timeout_s is None else timeout_s
        check_timeout(limit_s)
        retries = self.retry_policy.retries() if is_repeatable else 0
        attempts = Attempts(retries, limit_s, shares_memory=shares_memory)
        while True:
            try:
                response = await send(attempts.remaining_s())
                self.retry_policy.end(None)
                return response
            except TimeoutError as error:
                raise timed_out(limit_s) from error
            except RequestError as error:
                wait_s = self.retry_policy.wait_after(error, attempts, repeatable=is_repeatable)
            await self._runtime.sleep(wait_s)


class AsyncStream:
    """A stream of requests to one model, sent without waiting, and of their responses.

    All requests are for the model of the first: where a decoupled model and another one share a
    stream, Triton (2.51, and its sources up to 2.71) may begin a write before another one has
    ended, and gRPC then aborts the server.

    Models that are not decoupled respond to each request once, in the order of the requests. A
    decoupled one responds as often as it likes, `Response.final` with the last, which may have no
    tensors; the responses of several requests mix, and `request_id` tells them apart.

    The error of one request is raised by `receive` and leaves the stream usable: Triton sends its
    message, and `request_id` where the request had one, but no status, so that `status_name` is
    "internal" unless endcap's backends say more. An error of the stream itself ends it: `alive` is
    False, there are no further responses, and each `receive` and `send` raises that error. Open
    another stream then. Nothing is retried.

    `Stream` is thread-safe: one thread may send while another receives. `AsyncStream` is for the
    tasks of one event loop; one that is cancelled in `receive` leaves the stream usable.
    """

    def __init__(
        self,
        transport: GrpcTransport,
        timeout_s: float,
        runtime: Runtime,
        put: Callable[[Response | RequestError], None] | None = None,
    ) -> None:
        self._timeout_s = timeout_s
        self._transport = transport
        self._model: str | None = None
        self._requests = runtime.queue()
        call = transport.stream(self._requests.until(None))
        self._cancel = weakref.finalize(self, call.cancel)
        self._received: Queue[Response | RequestError] = runtime.queue()
        self._receiver = _Receiver(transport, call, put or self._received.put, self._requests)
        self._job = runtime.start("endcap stream", self._receiver.run)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, {'alive' if self.alive else 'ended'}>"

    async def __aenter__(self) -> AsyncStream:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def alive(self) -> bool:
        """Whether the stream still takes requests."""
        return self._receiver.end is None

    async def send(self, call: Call) -> None:
        """Send a request, without waiting.

        Raises:
            RequestError: The stream has ended.
            InvalidArgumentError: For another model.
        """
        if self._receiver.end is not None:
            raise copy.copy(self._receiver.end)
        if self._model not in (None, call.model):
            raise InvalidArgumentError(
                f"this stream is for the model '{self._model}': open another one for "
                f"'{call.model}'; a server may abort where models share a stream"
            )
        request = self._transport.stream_request(call)
        self._model = call.model
        self._receiver.shared += [each for each in call.outputs if each.shared is not None]
        self._requests.put(request)

    async def receive(self, timeout_s: float | None = None) -> Response:
        """Return the next response.

        Args:
            timeout_s: How long to wait for it; None is the connection's.

        Raises:
            RequestError: For the error of a request, for the end of the stream, and where no
                response arrives in time; the last leaves the stream usable.
        """
        wait_s = self._timeout_s if timeout_s is None else timeout_s
        try:
            received = await self._received.get(wait_s)
        except TimeoutError:
            raise timed_out(wait_s) from None
        if received is self._receiver.end:
            self._received.put(received)  # for the next call of receive
            raise copy.copy(received)
        if isinstance(received, RequestError):
            raise received
        return received

    async def close(self) -> None:
        """End the stream; what has no response is cancelled."""
        self._cancel()
        await self._job.join()


class _Receiver:
    """The task that receives. It does not refer to the stream, which can be garbage-collected."""

    def __init__(
        self,
        transport: GrpcTransport,
        call: Any,
        put: Callable[[Response | RequestError], None],
        requests: Queue[Any],
    ) -> None:
        self._put = put
        self.end: RequestError | None = None
        self.shared: list[OutputTensor] = []
        self._transport = transport
        self._call = call
        self._requests = requests

    async def run(self) -> None:
        try:
            async for message in as_async(self._call):
                try:
                    self._put(read_stream_message(message, Call("", [], self.shared)))
                except RequestError as error:
                    self._put(error)
            end = ended_by_server()
        except (Exception, asyncio.CancelledError) as error:  # gRPC's aio cancels calls so
            end = self._transport.stream_error(error)
        self.end = end
        self._put(end)
        self._requests.put(None)  # gRPC's thread or task that waits for requests ends
