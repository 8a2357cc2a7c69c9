"""Streams of images: their steps in a sequence, requests in flight, and results in order."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from endcap.client.batches import RequestFormat
from endcap.client.calls import Call, Response, SequenceStep
from endcap.client.concurrency import END, Runtime, as_async, next_item
from endcap.client.connection import AsyncConnection
from endcap.client.errors import RequestError, closed, from_grpc, from_stream, timed_out
from endcap.client.grpc_transport import GrpcTransport, read_message
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
    return StreamImage(name_of(image, position), reader.try_read(image))


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
        restarts: Whether a sequence begins again with the request after one that has failed. Then
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
            self._hold(self._order[-1], image.content, 0.0)
            return None
        step = image.step
        if step is not None and self._restarts and self._has_failed:
            step = replace(step, start=True)
        self._has_failed = False
        call = replace(self._request_format.call([image.content], self._next_id()), sequence=step)
        self._order.append(_Sent(image.name, call))
        self._in_flight[call.request_id] = self._order[-1]
        return call

    def received(self, response: Response, at: float) -> None:
        """Record a response, of time.perf_counter() `at`; ignore one that nobody waits for."""
        sent = self._in_flight.get(response.request_id)
        if sent is None or sent.call is None:
            return
        frame: FramePosition | None = None
        final = response.final
        try:
            (tensors,) = self._request_format.read(sent.call, response, 1)
            frame = self._response_reader.read_frame(tensors)
            outcome: ImageResponse | RequestError = self._response_reader.read_part(tensors)
        except RequestError as error:
            outcome = error
            final = final or frame is None  # other frames of a video follow one that has failed
        self._hold(sent, outcome, at, final=final, frame=frame)

    def failed(self, error: RequestError, at: float) -> None:
        """Record the error of one request, `at` as in `received`."""
        sent = self._in_flight.get(error.request_id)
        if sent is not None:
            self._has_failed = True
            self._hold(sent, error, at)

    def lost(self, error: RequestError) -> None:
        """Record the end of the stream: all requests in flight have failed."""
        for request_id in list(self._in_flight):
            self._has_failed = True
            self._hold(self._in_flight[request_id], error, time.perf_counter())

    def take(self) -> list[ImageResult]:
        """Return and remove the results that are next in order."""
        taken: list[ImageResult] = []
        while self._order:
            first = self._order[0]
            taken += first.held
            first.held = []
            if not first.done:
                break
            self._order.popleft()
        return taken

    def _hold(
        self,
        sent: _Sent,
        outcome: ImageResponse | RequestError,
        at: float,
        *,
        final: bool = True,
        frame: FramePosition | None = None,
    ) -> None:
        """Keep a result until it is its turn."""
        request_id = "" if sent.call is None else sent.call.request_id
        sent.held.append(
            self._response_reader.result(
                sent.name,
                outcome,
                latency_ms=(at - sent.begin) * 1e3 if sent.call is not None else None,
                request_id=request_id,
                final=final,
                frame=frame,
            )
        )
        if final:
            sent.done = True
            self._in_flight.pop(request_id, None)


async def stream_results(
    connection: AsyncConnection,
    order: StreamOrder,
    images: Iterable[Image] | AsyncIterable[Image],
    *,
    reader: ImageReader,
    steps: SequenceSteps,
    limit: int,
) -> AsyncGenerator[ImageResult, None]:
    """Yield the results of images, at most `limit` of which are in flight or wait for a result."""
    runtime = connection.runtime
    # Images (StreamImage), responses (_Received), None after the last image, or its source's error.
    events = runtime.queue()
    wanted = runtime.semaphore(0)
    stopped = False

    async def read_images() -> None:
        items = _in_steps(runtime, images, reader, steps)
        try:
            async with contextlib.aclosing(items):
                while True:
                    await wanted.acquire()
                    image = END if stopped else await next_item(items.__anext__)
                    if image is END:
                        break
                    events.put(image)
                    del image  # not to be kept alive until the next one
            events.put(None)
        except Exception as error:
            events.put(error)

    job = runtime.start("endcap images", read_images)
    sender = _Sender(connection, order, events.put)
    requested, more = 0, True
    try:
        while True:
            while more and requested + len(order) < limit:
                wanted.release()
                requested += 1
            if not (more or order.in_flight):
                return
            try:
                event = await events.get(sender.left_s())
            except TimeoutError:
                await sender.lose(timed_out(connection.options.timeout_s))
            else:
                if isinstance(event, StreamImage):
                    requested -= 1
                    await sender.send(event)
                elif isinstance(event, _Received):
                    await sender.take(event)
                elif event is None:
                    more = False
                else:
                    raise event
            for result in order.take():
                yield result
    finally:
        stopped = True
        wanted.release()
        await sender.close()
        await job.stop()


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


@dataclass(frozen=True)
class _Received:
    """A response or error of a stream, and its time of arrival by time.perf_counter()."""

    stream: _Stream
    response: Response | RequestError
    at: float


class _Stream:
    """A gRPC stream, whose responses are passed to `put` on arrival, and its end as an error.

    All requests of one are for one model: where a decoupled model and another one share a stream,
    Triton (2.51, and its sources up to 2.71) may begin a write before another one has ended, and
    gRPC then aborts the server.
    """

    def __init__(
        self, connection: AsyncConnection, client: Any, put: Callable[[_Received], None]
    ) -> None:
        transport = connection.transport
        assert isinstance(transport, GrpcTransport)
        self._connection = connection
        self._transport = transport
        self._put = put
        self._requests = connection.runtime.queue()
        self._call = transport.start_stream(
            client, self._requests.until(None), connection.headers()
        )
        self.end: RequestError | None = None
        self._job = connection.runtime.start("endcap stream", self._receive)

    def send(self, call: Call) -> None:
        self._requests.put(self._transport.stream_request(call))

    async def close(self) -> None:
        """End the stream; what has no response is cancelled."""
        self._call.cancel()
        await self._job.join()

    async def _receive(self) -> None:
        try:
            async for message in as_async(self._call):
                self._received(_read_stream_message(message))
            error = RequestError("unavailable", "the server has ended the stream")
        except (Exception, asyncio.CancelledError) as raised:  # gRPC's aio cancels calls so
            error = self._error(raised)
        self.end = error
        self._received(error)
        self._requests.put(None)  # gRPC's thread or task that waits for requests ends

    def _received(self, response: Response | RequestError) -> None:
        self._put(_Received(self, response, time.perf_counter()))

    def _error(self, error: BaseException) -> RequestError:
        status = error.code().name if hasattr(error, "code") else ""
        is_cancelled = status == "CANCELLED" or isinstance(error, asyncio.CancelledError)
        if self._connection.is_closed or is_cancelled:
            return closed()
        if status:
            return from_grpc(status, error.details() or status)  # type: ignore[attr-defined]
        return RequestError("internal", f"the stream has ended by {type(error).__name__}: {error}")


def _read_stream_message(message: Any) -> Response | RequestError:
    if message.error_message:
        return from_stream(message.error_message, request_id=message.infer_response.id)
    try:
        return read_message(message.infer_response, Call("", [], []))
    except RequestError as error:
        return error


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
        self._stream: _Stream | None = None
        self._since = 0.0  # the last time without requests in flight, or of a response

    async def send(self, image: StreamImage) -> None:
        """Send an image, if there is anything to send."""
        if self._stream is not None and self._stream.end is not None:
            await self.lose(self._stream.end)
        if not self._order.in_flight:
            self._since = time.perf_counter()
        call = self._order.add(image)
        if call is None:
            return
        try:
            client = self._connection.open()
        except RequestError as error:
            await self.lose(error)
            return
        if self._stream is None:
            self._stream = _Stream(self._connection, client, self._put)
        self._stream.send(call)

    def left_s(self) -> float | None:
        """Return the seconds to wait for the next response, None without requests in flight."""
        if not self._order.in_flight:
            return None
        timeout_s = self._connection.options.timeout_s
        return max(self._since + timeout_s - time.perf_counter(), 0.0)

    async def take(self, received: _Received) -> None:
        """Process a response; ignore those of a lost stream."""
        if received.stream is not self._stream:
            return
        self._since = max(self._since, received.at)
        response = received.response
        if isinstance(response, Response):
            self._order.received(response, received.at)
        elif response.request_id:
            self._order.failed(response, received.at)
        else:  # the end, or an error that names no request
            await self.lose(response)

    async def lose(self, error: RequestError) -> None:
        """End the stream; what is in flight has failed by `error`."""
        await self.close()
        self._order.lost(error)

    async def close(self) -> None:
        """Close the stream."""
        stream, self._stream = self._stream, None
        if stream is not None:
            await stream.close()
