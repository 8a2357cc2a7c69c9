"""Drives a stream for `DetectionClient.detect_stream`."""

from __future__ import annotations

import queue
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from endcap.client.errors import RequestError
from endcap.client.images import Image, ImageReader, name_of
from endcap.client.pulling import Exhausted, Pulled, Puller
from endcap.client.sequences import SequenceSteps, StreamImage
from endcap.client.stream_line import Received, StreamLine
from endcap.client.streaming import StreamBook
from endcap.results.image_result import ImageResult

if TYPE_CHECKING:
    from endcap.client.connection import Connection

T = TypeVar("T")


def read_stream_image(image: Image, position: int, reader: ImageReader) -> StreamImage:
    """Returns what is sent for an image, or why it is not."""
    name = name_of(image, position)
    try:
        return StreamImage(name, reader.read(image))
    except RequestError as error:
        return StreamImage(name, error.with_traceback(None))


def stream_results(
    connection: Connection,
    book: StreamBook,
    images: Iterable[Image],
    *,
    reader: ImageReader,
    steps: SequenceSteps,
    most: int,
) -> Iterator[ImageResult]:
    """Yields the results of images, at most `most` of which are in flight or wait for a result.

    It waits for the next image and for the next response at the same time.
    """
    events: queue.SimpleQueue[Pulled[StreamImage] | Exhausted | Received] = queue.SimpleQueue()
    source = Puller(_in_steps(images, reader, steps), events.put)
    asked, more = 0, True
    try:
        with StreamLine(connection, book, events.put) as line:
            while True:
                while more and asked + len(book) < most:
                    source.ask()
                    asked += 1
                if not (more or book.in_flight):
                    return
                event = _next(events, line.left_s())
                if isinstance(event, Pulled):
                    asked -= 1
                    line.send(event.item)
                elif isinstance(event, Exhausted):
                    if event.error is not None:
                        raise event.error
                    more = False
                else:
                    line.take(event)
                yield from book.take()
    finally:
        source.stop()


def _in_steps(
    images: Iterable[Image], reader: ImageReader, steps: SequenceSteps
) -> Iterator[StreamImage]:
    for position, image in enumerate(images):
        yield from steps.push(read_stream_image(image, position, reader))
    yield from steps.end()


def _next(events: queue.SimpleQueue[T], timeout_s: float | None) -> T | None:
    """Returns what comes next, None where nothing does in time."""
    try:
        return events.get(timeout=timeout_s)
    except queue.Empty:
        return None
