"""A stream of requests and answers over one gRPC call, for asyncio."""

from __future__ import annotations

import asyncio
import copy
import weakref
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any

from endcap.client.aio_inbox import Inbox
from endcap.client.calls import Call, Response
from endcap.client.errors import RequestError
from endcap.client.stream_responses import StreamResponses, ended
from endcap.client.wire.aio_grpc_channel import AioGrpcChannel
from endcap.client.wire.translate import no_answer


class AsyncStream:
    """As `endcap.client.stream.Stream`, for the tasks of one event loop.

    A task that is cancelled while it waits in `receive` leaves the stream as it is.
    """

    def __init__(self, channel: AioGrpcChannel, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._answers = StreamResponses()
        self._requests: asyncio.Queue[Any] = asyncio.Queue()
        call = channel.stream(_each(self._requests))
        self._cancel = weakref.finalize(self, call.cancel)
        self._reader = _Reader(channel, call, self._answers, self._requests)

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
        return self._reader.end is None

    async def send(self, call: Call) -> None:
        """Sends a request, without waiting; see `Stream.send`."""
        if self._reader.end is not None:
            raise copy.copy(self._reader.end)
        self._requests.put_nowait(self._answers.request(call))

    async def receive(self, timeout_s: float | None = None) -> Response:
        """Returns the next answer; see `Stream.receive`."""
        wait_s = self._timeout_s if timeout_s is None else timeout_s
        try:
            received = await self._reader.received.take(wait_s)
        except TimeoutError:
            raise no_answer(wait_s) from None
        if received is self._reader.end:
            self._reader.received.put(received)  # for whoever receives next
            raise copy.copy(received)
        if isinstance(received, RequestError):
            raise received
        return received

    async def close(self) -> None:
        """Ends the stream; what was not answered is cancelled."""
        self._cancel()
        await self._reader.task


class _Reader:
    """Receives. It does not hold the stream, so that one that is left behind ends, too."""

    def __init__(
        self,
        channel: AioGrpcChannel,
        call: Any,
        answers: StreamResponses,
        requests: asyncio.Queue[Any],
    ) -> None:
        self.received: Inbox[Response | RequestError] = Inbox()
        self.end: RequestError | None = None
        self._channel = channel
        self._call = call
        self._answers = answers
        self._requests = requests
        self.task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        try:
            async for response in self._call:
                try:
                    self.received.put(self._answers.read(response))
                except RequestError as error:
                    self.received.put(error)
            end = ended()
        except (Exception, asyncio.CancelledError) as error:
            end = self._channel.why_ended(error)
        self.end = end
        self.received.put(end)
        self._requests.put_nowait(None)  # gRPC's task that waits for requests ends


async def _each(requests: asyncio.Queue[Any]) -> AsyncIterator[Any]:
    while (request := await requests.get()) is not None:
        yield request
