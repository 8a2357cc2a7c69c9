# Made by scripts/generate_sync_client.py: change ../_async/connection.py instead.

"""Connections to a server: requests with deadlines and retries over gRPC or HTTP, and streams."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Any

from endcap._pip_commands import install_command
from endcap.client.address import Address
from endcap.client.calls import Call, Operation, RegionKind, Response, T, TensorSpec
from endcap.client.errors import ClientError, RequestError, ended_by_server, timed_out
from endcap.client.grpc import GrpcOperations, GrpcTransport, StreamMessages
from endcap.client.http import HttpOperations
from endcap.client.options import ConnectionOptions, check_timeout
from endcap.client.retry import Attempts, RetryPolicy
from endcap.client.served_model import ModelMetadata
from endcap.client.synchronization import ENDS, Queue, Task, sleep
from endcap.errors import InvalidArgumentError, UnsupportedError


class Connection:
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

    def __init__(self, address: Address, options: ConnectionOptions | None = None) -> None:
        self.options = options or ConnectionOptions()
        self.address = replace(address, secure=address.secure or self.options.tls is not None)
        self.retry_policy = RetryPolicy(self.options.retries)
        self._operations: GrpcOperations | HttpOperations
        if address.protocol == "grpc":
            self._operations = GrpcOperations()
            self._transport: Any = GrpcTransport(self.address, self.options)
        else:
            self._operations = HttpOperations(self.options.compression)
            self._transport = _http_transport(self.address, self.options)

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

    def close(self) -> None:
        """Close the connection. Requests in flight end as cancelled, and so do later ones."""
        self._transport.close()

    def infer(self, call: Call, *, timeout_s: float | None = None) -> Response:
        """Send a request and return its response. timeout_s: None is `options.timeout_s`."""

        def prepare(left_s: float) -> Operation[Response]:
            return self._operations.infer(self._with_timeout(call, left_s))

        try:
            return self._send_prepared(
                prepare,
                timeout_s=timeout_s,
                repeatable=call.sequence is None,
                shares_memory=call.shares_memory,
            )
        except RequestError as error:
            error.request_id = error.request_id or call.request_id
            raise

    def stream(self) -> Stream:
        """Return a stream, to be closed after use, as by `with`.

        Raises UnsupportedError over HTTP.
        """
        if not isinstance(self._transport, GrpcTransport):
            raise UnsupportedError(
                f"{self.address} is an HTTP address, and HTTP has no streams; give the "
                "server's gRPC address"
            )
        return Stream(self._transport, self.options.timeout_s)

    def is_live(self) -> bool:
        """Whether a Triton server responds."""
        return self._send(self._operations.live(), repeatable=False)

    def is_ready(self, model: str) -> bool:
        """Whether the server serves a model now."""
        return self._send(self._operations.ready(model), repeatable=False)

    def ready_models(self) -> list[str]:
        """Return the names of all models that are ready."""
        return self._send(self._operations.ready_models(), repeatable=False)

    def metadata(self, model: str) -> ModelMetadata:
        """Return the tensors of a model."""
        return self._send(self._operations.metadata(model))

    def inputs(self, model: str) -> dict[str, TensorSpec]:
        """Return the inputs of a model by name."""
        return dict((self.metadata(model)).inputs)

    def outputs(self, model: str) -> dict[str, TensorSpec]:
        """Return the outputs of a model by name."""
        return dict((self.metadata(model)).outputs)

    def config(self, model: str) -> dict[str, Any]:
        """Return a model's configuration as JSON objects, without the fields that are not set."""
        return self._send(self._operations.config(model))

    def statistics(self) -> list[dict[str, Any]]:
        """Return the statistics of each model, as Triton's statistics extension defines them.

        Numbers that are 0 are omitted.
        """
        return self._send(self._operations.statistics())

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
        if kind == "system":
            operation = self._operations.register_system(name, key or name, byte_size)
        elif raw_handle is None:
            raise InvalidArgumentError(f"region {name} is of CUDA, but has no raw_handle; give it")
        else:
            operation = self._operations.register_cuda(name, raw_handle, device_id, byte_size)
        self._send(operation, timeout_s=timeout_s)

    def unregister_shared(
        self, kind: RegionKind, name: str, *, timeout_s: float | None = None
    ) -> None:
        """Unregister a region; a name that is not registered is no error."""
        self._send(self._operations.unregister(kind, name), timeout_s=timeout_s)

    def registered(self, kind: RegionKind, *, timeout_s: float | None = None) -> dict[str, str]:
        """Return the registered regions: name -> key, which is "" for those of CUDA."""
        return self._send(self._operations.registered(kind), timeout_s=timeout_s)

    def _with_timeout(self, call: Call, left_s: float) -> Call:
        # Where sequences wait for one another, Triton refuses all frames of one by the first
        # timeout that ends.
        if not self.options.send_timeout or call.sequence is not None:
            return call
        return replace(call, timeout_us=call.timeout_us or max(1, int(left_s * 1e6)))

    def _send(
        self, operation: Operation[T], *, timeout_s: float | None = None, repeatable: bool = True
    ) -> T:
        return self._send_prepared(lambda _: operation, timeout_s=timeout_s, repeatable=repeatable)

    def _send_prepared(
        self,
        prepare: Callable[[float], Operation[T]],
        *,
        timeout_s: float | None = None,
        repeatable: bool = True,
        shares_memory: bool = False,
    ) -> T:
        """Send what `prepare` returns for the seconds that are left, before each attempt."""
        limit_s = self.options.timeout_s if timeout_s is None else timeout_s
        check_timeout(limit_s)
        retries = self.retry_policy.retries() if repeatable else 0
        attempts = Attempts(retries, limit_s, shares_memory=shares_memory)
        while True:
            operation = prepare(attempts.remaining_s())
            try:
                response = self._transport.send(operation.request, attempts.remaining_s())
                read = operation.read(response)
                self.retry_policy.end(None)
                return read
            except TimeoutError as error:
                raise timed_out(limit_s) from error
            except RequestError as error:
                wait_s = self.retry_policy.wait_after(error, attempts, repeatable=repeatable)
            sleep(wait_s)


class Stream:
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

    def __init__(self, transport: GrpcTransport, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._messages = StreamMessages()
        self._sent: Queue[Any] = Queue()
        call = transport.stream(self._sent.until(None))
        self._cancel = weakref.finalize(self, call.cancel)
        self._receiver = _Receiver(transport, call, self._messages, self._sent)
        self._task = Task("endcap stream", self._receiver.run)

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
        return self._receiver.end is None

    def send(self, call: Call) -> None:
        """Send a request, without waiting.

        Raises:
            RequestError: The stream has ended.
            InvalidArgumentError: For another model.
        """
        if self._receiver.end is not None:
            raise copy.copy(self._receiver.end)
        self._sent.put(self._messages.request(call))

    def receive(self, timeout_s: float | None = None) -> Response:
        """Return the next response.

        Args:
            timeout_s: How long to wait for it; None is the connection's.

        Raises:
            RequestError: For the error of a request, for the end of the stream, and where no
                response arrives in time; the last leaves the stream usable.
        """
        wait_s = self._timeout_s if timeout_s is None else timeout_s
        try:
            received = self._receiver.received.get(wait_s)
        except TimeoutError:
            raise timed_out(wait_s) from None
        if received is self._receiver.end:
            self._receiver.received.put(received)  # for the next call of receive
            raise copy.copy(received)
        if isinstance(received, RequestError):
            raise received
        return received

    def close(self) -> None:
        """End the stream; what has no response is cancelled."""
        self._cancel()
        self._task.join()


class _Receiver:
    """The task that receives. It does not refer to the stream, which can be garbage-collected."""

    def __init__(
        self,
        transport: GrpcTransport,
        call: Any,
        messages: StreamMessages,
        sent: Queue[Any],
    ) -> None:
        self.received: Queue[Response | RequestError] = Queue()
        self.end: RequestError | None = None
        self._transport = transport
        self._call = call
        self._messages = messages
        self._sent = sent

    def run(self) -> None:
        try:
            for message in self._call:
                try:
                    self.received.put(self._messages.read(message))
                except RequestError as error:
                    self.received.put(error)
            end = ended_by_server()
        except ENDS as error:
            end = self._transport.stream_error(error)
        self.end = end
        self.received.put(end)
        self._sent.put(None)  # gRPC's thread or task that waits for requests ends


def _http_transport(address: Address, options: ConnectionOptions) -> Any:
    try:
        from endcap.client._sync.http_transport import HttpTransport
    except ImportError as error:
        raise ClientError(
            f"HTTP needs the package httpcore ({error}); run `{install_command('client')}`"
        ) from error
    return HttpTransport(address, options)
