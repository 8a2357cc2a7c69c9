"""Drives a stream for `AsyncDetectionClient.detect_stream`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable
from typing import TYPE_CHECKING, Any

from endcap.client.errors import RequestError
from endcap.client.images import Image, ImageReader, is_read
from endcap.client.sequences import SequenceSteps, StreamImage
from endcap.client.stream_detect import read_stream_image
from endcap.client.streaming import StreamBook
from endcap.results.image_result import ImageResult

if TYPE_CHECKING:
    from endcap.client.aio_connection import AsyncConnection
    from endcap.client.aio_stream import AsyncStream


async def stream_results_async(
    connection: AsyncConnection,
    book: StreamBook,
    images: Iterable[Image] | AsyncIterable[Image],
    *,
    reader: ImageReader,
    steps: SequenceSteps,
    most: int,
) -> AsyncGenerator[ImageResult, None]:
    """Yields the results of images, at most `most` of which are in flight or wait for a result.

    It waits for the next image and for the next response at the same time.
    """
    source = _in_steps(images, reader, steps)
    line = _Line(connection, book)
    pulling: asyncio.Future[StreamImage | None] | None = None
    receiving: asyncio.Future[None] | None = None
    ended = False
    try:
        while True:
            if pulling is None and not ended and len(book) < most:
                pulling = asyncio.ensure_future(_pull(source))
            if receiving is None and book.in_flight:
                receiving = asyncio.ensure_future(line.receive())
            waiting = [future for future in (pulling, receiving) if future is not None]
            if not waiting:
                return
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if receiving is not None and receiving.done():
                receiving.result()
                receiving = None
            if pulling is not None and pulling.done():
                image, pulling = pulling.result(), None
                ended = image is None
                if image is not None:
                    await line.send(image)
            for result in book.take():
                yield result
    finally:
        await _give_up(pulling, receiving)
        await source.aclose()
        await line.close()


async def _in_steps(
    images: Iterable[Image] | AsyncIterable[Image], reader: ImageReader, steps: SequenceSteps
) -> AsyncGenerator[StreamImage, None]:
    position = 0
    async for image in _each(images):
        if is_read(image):
            read = read_stream_image(image, position, reader)
        else:
            read = await asyncio.to_thread(read_stream_image, image, position, reader)
        position += 1
        for ready in steps.push(read):
            yield ready
    for ready in steps.end():
        yield ready


async def _each(images: Iterable[Image] | AsyncIterable[Image]) -> AsyncIterator[Image]:
    if isinstance(images, AsyncIterable):
        async for image in images:
            yield image
    else:
        for image in images:
            yield image


async def _pull(source: AsyncIterator[StreamImage]) -> StreamImage | None:
    return await anext(source, None)


async def _give_up(*futures: asyncio.Future[Any] | None) -> None:
    started = [future for future in futures if future is not None]
    for future in started:
        future.cancel()
    await asyncio.gather(*started, return_exceptions=True)


class _Line:
    """A stream that is opened when it is needed, and again when it was lost."""

    def __init__(self, connection: AsyncConnection, book: StreamBook) -> None:
        self._connection = connection
        self._book = book
        self._resources = contextlib.AsyncExitStack()
        self._stream: AsyncStream | None = None

    async def send(self, image: StreamImage) -> None:
        """Sends an image, if there is anything to send."""
        call = self._book.enter(image)
        if call is None:
            return
        try:
            if self._stream is None:
                self._stream = await self._resources.enter_async_context(self._connection.stream())
            await self._stream.send(call)
        except RequestError as error:
            await self._lose(error)

    async def receive(self) -> None:
        """Waits for a response, as long as the connection's deadline."""
        stream = self._stream
        if stream is None:  # lost in the meantime
            return
        try:
            self._book.answered(await stream.receive())
        except RequestError as error:
            if error.request_id or (stream.alive and error.status_name != "timeout"):
                self._book.failed(error)
            elif stream is self._stream:
                await self._lose(error)

    async def close(self) -> None:
        """Closes the stream."""
        stack, self._resources = self._resources, contextlib.AsyncExitStack()
        self._stream = None
        await stack.aclose()

    async def _lose(self, error: RequestError) -> None:
        await self.close()
        self._book.lost(error)
