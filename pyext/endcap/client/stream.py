"""Streams of images: their steps in a sequence, requests in flight, and results in order."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from endcap.client.batches import RequestFormat
from endcap.client.calls import Call, Response, SequenceStep
from endcap.client.concurrency import ItemReader, Runtime, as_async
from endcap.client.connection_aio import AsyncConnection, AsyncStream
from endcap.client.errors import RequestError, timed_out
from endcap.client.images import Image, ImageReader, is_read, name_of
from endcap.client.response_reader import ImageResponse, ResponseReader
from endcap.results import FramePosition, ImageResult


@dataclass(frozen=True)
class StreamImage:
    """An image of a stream: its encoded bytes, or the error of reading it."""

    name: str
    content: bytes | RequestError
    step: SequenceStep | None = None

    @property
    def is_sent(self) -> bool:
        """Whether there is something to send."""
        return not isinstance(self.content, RequestError)


class SequenceSteps:
    """Steps of the images of a sequence: the first that is sent starts it, the last ends it.

    Each image is therefore held until the next one that can be sent is read, and those that cannot
    be sent are held with it.

    Args:
        sequence: The id, None for images without a sequence, which are not held.

    Raises:
        InvalidArgumentError: For an id that Triton does not allow.
    """

    def __init__(self, sequence: int | str | None) -> None:
        if sequence is not None:
            SequenceStep(sequence)  # raises here, not with the first image
        self._sequence = sequence
        self._started = False
        self._waiting: list[StreamImage] = []

    def push(self, image: StreamImage) -> Sequence[StreamImage]:
        """Add the next image; return those that can be sent now, in order."""
        if self._sequence is None or not (image.is_sent or self._waiting):
            return [image]
        ready: Sequence[StreamImage] = self._release(end=False) if image.is_sent else []
        self._waiting.append(image)
        return ready

    def end(self) -> Sequence[StreamImage]:
        """Return the held images; no other image follows."""
        return self._release(end=True)

    def _release(self, *, end: bool) -> Sequence[StreamImage]:
        if not self._waiting or self._sequence is None:
            return []
        step = SequenceStep(self._sequence, start=not self._started, end=end)
        first, *others = self._waiting
        self._started, self._waiting = True, []
        return [replace(first, step=step), *others]


def read_stream_image(image: Image, position: int, reader: ImageReader) -> StreamImage:
    """Return an image with its encoded bytes, or with the error of reading it."""
    name = name_of(image, position)
    try:
        return StreamImage(name, reader.read(image))
    except RequestError as error:
        return StreamImage(name, error.with_traceback(None))


@dataclass
class _Sent:
    """An image without its last response. held: results to be returned after those of others."""

    name: str
    call: Call | None
    begin: float = field(default_factory=time.perf_counter)
    held: list[ImageResult] = field(default_factory=list)
    done: bool = False


class StreamOrder:
    """The requests in flight on one stream, and their results in the order of the images.

    Results of the oldest image are returned with each response, those of later ones after its last.

    Args:
        request_format: Writes the requests.
        response_reader: Reads the responses.
        next_id: A function that returns a new request id.
        restarts: Whether a sequence begins anew with the request after one that has failed. Then
            one request may be in flight at a time.
    """

    def __init__(
        self,
        request_format: RequestFormat,
        response_reader: ResponseReader,
        next_id: Callable[[], str],
        *,
        restarts: bool = False,
    ) -> None:
        self._request_format = request_format
        self._response_reader = response_reader
        self._next_id = next_id
        self._order: deque[_Sent] = deque()
        self._in_flight: dict[str, _Sent] = {}
        self._without_id: list[RequestError] = []
        self._restarts = restarts
        self._has_failed = False  # the last request

    def __len__(self) -> int:
        """Return the number of images whose last result was not taken."""
        return len(self._order)

    @property
    def in_flight(self) -> int:
        """The number of requests without their last response."""
        return len(self._in_flight)

    def add(self, image: StreamImage) -> Call | None:
        """Add the next image; return its request, None where there is none to send."""
        if isinstance(image.content, RequestError):
            self._order.append(_Sent(image.name, None))
            self._fail(self._order[-1], image.content)
            return None
        step = image.step
        if step is not None and self._restarts and self._has_failed:
            step = replace(step, start=True)
        self._has_failed = False
        call = replace(self._request_format.call([image.content], self._next_id()), sequence=step)
        self._order.append(_Sent(image.name, call))
        self._in_flight[call.request_id] = self._order[-1]
        return call

    def received(self, response: Response, at: float | None = None) -> None:
        """Record a response; ignore one for a request that is not in flight.

        Args:
            response: The response.
            at: Its time of arrival, by time.perf_counter(); None is now.
        """
        sent = self._in_flight.get(response.request_id)
        if sent is None or sent.call is None:
            return
        frame: FramePosition | None = None
        try:
            (tensors,) = self._request_format.read(sent.call, response, 1)
            frame = self._response_reader.read_frame(tensors)
            parsed = self._response_reader.read_part(tensors)
        except RequestError as error:
            if frame is None:
                self._fail(sent, error, at)
                return
            # One frame of a video has failed, and the others follow.
            final, status, text = response.final, error.status_name, str(error)
            self._result(sent, status, at, error=text, final=final, frame=frame)
        else:
            self._result(sent, "ok", at, parsed=parsed, final=response.final, frame=frame)
        if response.final:
            self._finish(sent)

    def failed(self, error: RequestError, at: float | None = None) -> None:
        """Record the error of one request, `at` as in `received`.

        An error without a request id is assigned to the only request in flight, or to a remaining
        one after the responses of all others.
        """
        sent = self._in_flight.get(error.request_id)
        if sent is not None:
            self._has_failed = True
            self._fail(sent, error, at)
        elif not error.request_id:
            self._without_id.append(error)
        self._settle()

    def lost(self, error: RequestError) -> None:
        """Record the end of the stream: all requests in flight have failed."""
        for sent in list(self._in_flight.values()):
            self._has_failed = True
            self._fail(sent, error)
        self._without_id.clear()

    def take(self) -> list[ImageResult]:
        """Return and remove the results that are next in order."""
        self._settle()
        taken: list[ImageResult] = []
        while self._order:
            first = self._order[0]
            taken += first.held
            first.held = []
            if not first.done:
                break
            self._order.popleft()
        return taken

    def _settle(self) -> None:
        if self._without_id and len(self._without_id) >= len(self._in_flight):
            errors = dict(zip(list(self._in_flight), self._without_id, strict=False))
            self._without_id.clear()
            for request_id, error in errors.items():
                self._has_failed = True
                self._fail(self._in_flight[request_id], error)

    def _fail(self, sent: _Sent, error: RequestError, at: float | None = None) -> None:
        self._result(sent, error.status_name, at, error=str(error))
        self._finish(sent)

    def _finish(self, sent: _Sent) -> None:
        sent.done = True
        if sent.call is not None:
            self._in_flight.pop(sent.call.request_id, None)

    def _result(
        self,
        sent: _Sent,
        status: str,
        at: float | None,
        *,
        parsed: ImageResponse | None = None,
        error: str | None = None,
        final: bool = True,
        frame: FramePosition | None = None,
    ) -> None:
        parsed = parsed or ImageResponse()
        at = time.perf_counter() if at is None else at
        sent.held.append(
            ImageResult(
                sent.name,
                status,
                parsed.detections,
                error,
                (at - sent.begin) * 1e3 if sent.call is not None else None,
                parsed.classes,
                self._response_reader.model.task,
                sent.call.request_id if sent.call is not None else "",
                final,
                parsed.upright,
                frame,
                parsed.tensors,
            )
        )


@dataclass(frozen=True)
class _Received:
    """A response or error of a stream, and its time of arrival by time.perf_counter()."""

    number: int
    response: Response | RequestError
    at: float


async def stream_results(
    runtime: Runtime,
    connection: AsyncConnection,
    order: StreamOrder,
    images: Iterable[Image] | AsyncIterable[Image],
    *,
    reader: ImageReader,
    steps: SequenceSteps,
    limit: int,
) -> AsyncGenerator[ImageResult, None]:
    """Yield the results of images, at most `limit` of which are in flight or wait for a result."""
    events = runtime.queue()
    source = ItemReader(runtime, _in_steps(runtime, images, reader, steps), events.put)
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
                if isinstance(event, tuple):
                    requested -= 1
                    await sender.send(event[0])
                elif isinstance(event, _Received):
                    await sender.take(event)
                else:
                    if event is not None:
                        raise event
                    more = False
            for result in order.take():
                yield result
    finally:
        await sender.close()
        await source.stop()


async def _in_steps(
    runtime: Runtime,
    images: Iterable[Image] | AsyncIterable[Image],
    reader: ImageReader,
    steps: SequenceSteps,
) -> AsyncGenerator[StreamImage, None]:
    position = 0
    async with contextlib.aclosing(as_async(images)) as source:
        async for image in source:
            if is_read(image):
                read = read_stream_image(image, position, reader)
            else:
                read = await runtime.call(read_stream_image, image, position, reader)
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
        self._number = 0  # of streams so far
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
                self._number += 1
                self._stream = self._connection.stream(partial(self._arrived, self._number))
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
        if self._stream is None or received.number != self._number:
            return
        self._since = max(self._since, received.at)
        response = received.response
        if isinstance(response, Response):
            self._order.received(response, received.at)
        elif response.request_id or self._stream.alive:
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

    @property
    def _timeout_s(self) -> float:
        return self._connection.options.timeout_s

    def _arrived(self, number: int, response: Response | RequestError) -> None:
        self._put(_Received(number, response, time.perf_counter()))

    async def _lose(self, error: RequestError) -> None:
        await self.close()
        self._order.lost(error)
