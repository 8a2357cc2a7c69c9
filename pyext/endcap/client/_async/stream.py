"""A stream of requests and responses over one gRPC call."""

from __future__ import annotations

import copy
import weakref
from types import TracebackType
from typing import Any

from endcap.client.calls import Call, Response
from endcap.client.errors import RequestError
from endcap.client.synchronization import ASYNC_ENDS, AsyncQueue, AsyncTask
from endcap.client.wire.errors import ended_by_server, no_answer
from endcap.client.wire.grpc import StreamMessages
from endcap.client.wire.grpc_transport import AsyncGrpcTransport


class AsyncStream:
    """Requests to one model that are sent without waiting, and their responses as they come.

    All requests are for the model of the first: where a decoupled model and another one share a
    stream, Triton (2.51, and its sources up to 2.71) may begin a write while another is under
    way, and gRPC aborts the server then.

    Models that are not decoupled respond to each request once, in the order of the requests. A
    decoupled one responds as often as it likes, `Response.final` with the last, which may have no
    tensors; the responses of several requests mix, and `request_id` tells them apart.

    The error of one request is raised by `receive` and leaves the stream as it is: Triton tells its
    message, and `request_id` where the request had one, but no status, so that `status_name` is
    "internal" unless endcap's backends say more. An error of the stream itself ends it: `alive` is
    False, each further `receive` and `send` raises that error, and no other response comes. Open
    another one then. Nothing is sent again by itself.

    `Stream` is thread-safe: one thread may send while another receives. `AsyncStream` is for the
    tasks of one event loop; one that is cancelled in `receive` leaves the stream as it is.
    """

    def __init__(self, transport: AsyncGrpcTransport, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._messages = StreamMessages()
        self._sent: AsyncQueue[Any] = AsyncQueue()
        call = transport.stream(self._sent.until(None))
        self._cancel = weakref.finalize(self, call.cancel)
        self._receiver = _Receiver(transport, call, self._messages, self._sent)
        self._task = AsyncTask("endcap stream", self._receiver.run)

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
        self._sent.put(self._messages.request(call))

    async def receive(self, timeout_s: float | None = None) -> Response:
        """Return the next response.

        Args:
            timeout_s: How long to wait for it; None is the connection's.

        Raises:
            RequestError: For the error of a request, for the end of the stream, and where no
                response comes in time; the last leaves the stream as it is.
        """
        wait_s = self._timeout_s if timeout_s is None else timeout_s
        try:
            received = await self._receiver.received.get(wait_s)
        except TimeoutError:
            raise no_answer(wait_s) from None
        if received is self._receiver.end:
            self._receiver.received.put(received)  # for whoever receives next
            raise copy.copy(received)
        if isinstance(received, RequestError):
            raise received
        return received

    async def close(self) -> None:
        """End the stream; what has no response is cancelled."""
        self._cancel()
        await self._task.join()


class _Receiver:
    """Receives. It does not hold the stream, so that one that is left behind ends, too."""

    def __init__(
        self,
        transport: AsyncGrpcTransport,
        call: Any,
        messages: StreamMessages,
        sent: AsyncQueue[Any],
    ) -> None:
        self.received: AsyncQueue[Response | RequestError] = AsyncQueue()
        self.end: RequestError | None = None
        self._transport = transport
        self._call = call
        self._messages = messages
        self._sent = sent

    async def run(self) -> None:
        try:
            async for message in self._call:
                try:
                    self.received.put(self._messages.read(message))
                except RequestError as error:
                    self.received.put(error)
            end = ended_by_server()
        except ASYNC_ENDS as error:
            end = self._transport.why_ended(error)
        self.end = end
        self.received.put(end)
        self._sent.put(None)  # gRPC's thread or task that waits for requests ends
