"""Detection over a gRPC stream: reads images and receives responses concurrently."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable
from dataclasses import dataclass

from endcap.client._async.connection import AsyncConnection, AsyncStream
from endcap.client.calls import Response
from endcap.client.errors import RequestError, timed_out
from endcap.client.images import Image, ImageReader, is_read
from endcap.client.stream_order import SequenceSteps, StreamImage, StreamOrder, read_stream_image
from endcap.client.synchronization import (
    AsyncItemReader,
    AsyncQueue,
    AsyncTask,
    EndOfItems,
    Item,
    async_iterate,
    async_run_blocking,
)
from endcap.results import ImageResult

_A_DAY_S = 86400.0  # _Sender checks the deadline


@dataclass(frozen=True)
class _Received:
    """A response or error of one stream, and its time of arrival by time.perf_counter()."""

    stream: AsyncStream
    response: Response | RequestError
    at: float


async def async_stream_results(
    connection: AsyncConnection,
    order: StreamOrder,
    images: Iterable[Image] | AsyncIterable[Image],
    *,
    reader: ImageReader,
    steps: SequenceSteps,
    limit: int,
) -> AsyncGenerator[ImageResult, None]:
    """Yield the results of images, at most `limit` of which are in flight or wait for a result."""
    events: AsyncQueue[Item[StreamImage] | EndOfItems | _Received] = AsyncQueue()
    source = AsyncItemReader(_in_steps(images, reader, steps), events.put)
    requested, more = 0, True
    sender = _Sender(connection, order, events.put)
    try:
        while True:
            while more and requested + len(order) < limit:
                source.request_next()
                requested += 1
            if not (more or order.in_flight):
                return
            try:
                event = await events.get(sender.left_s())
            except TimeoutError:
                await sender.time_out()
            else:
                if isinstance(event, Item):
                    requested -= 1
                    await sender.send(event.item)
                elif isinstance(event, _Received):
                    await sender.take(event)
                else:
                    if event.error is not None:
                        raise event.error
                    more = False
            for result in order.take():
                yield result
    finally:
        await sender.close()
        await source.stop()


async def _in_steps(
    images: Iterable[Image] | AsyncIterable[Image], reader: ImageReader, steps: SequenceSteps
) -> AsyncGenerator[StreamImage, None]:
    position = 0
    async with contextlib.aclosing(async_iterate(images)) as source:
        async for image in source:
            if is_read(image):
                read = read_stream_image(image, position, reader)
            else:
                read = await async_run_blocking(read_stream_image, image, position, reader)
            position += 1
            for ready in steps.push(read):
                yield ready
    for ready in steps.end():
        yield ready


class _Sender:
    """The sender, which opens a stream when needed, and another when it was lost.

    Args:
        put: A function that is called with each response on arrival; the caller passes them to
            `take`, in that order.
    """

    def __init__(
        self,
        connection: AsyncConnection,
        order: StreamOrder,
        put: Callable[[_Received], None],
    ) -> None:
        self._connection = connection
        self._order = order
        self._put = put
        self._stream: AsyncStream | None = None
        self._since = 0.0  # the last time without requests in flight, or of a response

    async def send(self, image: StreamImage) -> None:
        """Send an image, if there is anything to send."""
        if not self._order.in_flight:
            self._since = time.perf_counter()
        call = self._order.add(image)
        if call is None:
            return
        try:
            if self._stream is None:
                self._stream = self._connection.stream()
                self._task = AsyncTask("endcap responses", _receive, self._stream, self._put)
            await self._stream.send(call)
        except RequestError as error:
            await self._lose(error)

    def left_s(self) -> float | None:
        """Return the seconds to wait for the next response, None without requests in flight."""
        if not self._order.in_flight:
            return None
        return max(self._since + self._timeout_s - time.perf_counter(), 0.0)

    async def take(self, received: _Received) -> None:
        """Process a response; ignore those of a lost stream."""
        if received.stream is not self._stream:
            return
        self._since = max(self._since, received.at)
        response = received.response
        if isinstance(response, Response):
            self._order.received(response, received.at)
        elif response.request_id or received.stream.alive:
            self._order.failed(response, received.at)
        else:
            await self._lose(response)

    async def time_out(self) -> None:
        """End the stream after a timeout."""
        await self._lose(timed_out(self._timeout_s))

    async def close(self) -> None:
        """Close the stream."""
        stream, self._stream = self._stream, None
        if stream is not None:
            await stream.close()
            await self._task.join()

    @property
    def _timeout_s(self) -> float:
        return self._connection.options.timeout_s

    async def _lose(self, error: RequestError) -> None:
        await self.close()
        self._order.lost(error)


async def _receive(stream: AsyncStream, put: Callable[[_Received], None]) -> None:
    """Receive until the stream has ended or was closed."""
    while True:
        try:
            response: Response | RequestError = await stream.receive(_A_DAY_S)
        except RequestError as error:
            if error.status_name == "timeout" and stream.alive:
                continue
            put(_Received(stream, error, time.perf_counter()))
            if not (error.request_id or stream.alive):
                return
        else:
            put(_Received(stream, response, time.perf_counter()))
