"""Images of a stream: their places in a sequence, what is in flight, and results in order."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from endcap.client.batches import EnsembleRequest
from endcap.client.calls import Call, Response, SequenceStep
from endcap.client.errors import RequestError
from endcap.client.images import Image, ImageReader, name_of
from endcap.client.response_reader import ImageResponse, ResponseReader
from endcap.results import ImageResult


@dataclass(frozen=True)
class StreamImage:
    """An image of a stream: what is sent, or why it is not."""

    name: str
    content: bytes | RequestError
    step: SequenceStep | None = None

    @property
    def is_sent(self) -> bool:
        """Whether there is something to send."""
        return not isinstance(self.content, RequestError)


class SequenceSteps:
    """Gives images of a sequence their steps: the first that is sent starts it, the last ends it.

    So each waits until the next that is sent has come; those that cannot be sent wait with it.
    sequence: the id, None for images that are of no sequence and wait for nothing.
    Raises InvalidArgumentError for an id that Triton has not.
    """

    def __init__(self, sequence: int | str | None) -> None:
        if sequence is not None:
            SequenceStep(sequence)  # raises here, not with the first image
        self._sequence = sequence
        self._started = False
        self._waiting: list[StreamImage] = []

    def push(self, image: StreamImage) -> Sequence[StreamImage]:
        """Take the next image; return those that can go on now, in order."""
        if self._sequence is None or not (image.is_sent or self._waiting):
            return [image]
        ready: Sequence[StreamImage] = self._release(end=False) if image.is_sent else []
        self._waiting.append(image)
        return ready

    def end(self) -> Sequence[StreamImage]:
        """Return what still waits; no image follows."""
        return self._release(end=True)

    def _release(self, *, end: bool) -> Sequence[StreamImage]:
        if not self._waiting or self._sequence is None:
            return []
        step = SequenceStep(self._sequence, start=not self._started, end=end)
        first, *others = self._waiting
        self._started, self._waiting = True, []
        return [replace(first, step=step), *others]


def read_stream_image(image: Image, position: int, reader: ImageReader) -> StreamImage:
    """Return what is sent for an image, or why it is not."""
    name = name_of(image, position)
    try:
        return StreamImage(name, reader.read(image))
    except RequestError as error:
        return StreamImage(name, error.with_traceback(None))


@dataclass
class _Sent:
    """An image whose last response has not come. `held`: results that others must precede."""

    name: str
    call: Call | None
    begin: float = field(default_factory=time.perf_counter)
    held: list[ImageResult] = field(default_factory=list)
    done: bool = False


class StreamOrder:
    """What is in flight on one stream, and results in the order of images.

    Results of the oldest image come as its responses do, those of later ones when it is done.
    """

    def __init__(
        self, requests: EnsembleRequest, reader: ResponseReader, next_id: Callable[[], str]
    ) -> None:
        self._requests = requests
        self._reader = reader
        self._next_id = next_id
        self._order: deque[_Sent] = deque()
        self._in_flight: dict[str, _Sent] = {}
        self._nameless: list[RequestError] = []

    def __len__(self) -> int:
        """Count the images whose last result was not taken."""
        return len(self._order)

    @property
    def in_flight(self) -> int:
        """How many requests have not had their last response."""
        return len(self._in_flight)

    def enter(self, image: StreamImage) -> Call | None:
        """Enter the next image; return the request to send, None where there is none."""
        if isinstance(image.content, RequestError):
            self._order.append(_Sent(image.name, None))
            self._fail(self._order[-1], image.content)
            return None
        call = replace(self._requests.call([image.content], self._next_id()), sequence=image.step)
        self._order.append(_Sent(image.name, call))
        self._in_flight[call.request_id] = self._order[-1]
        return call

    def received(self, response: Response, at: float | None = None) -> None:
        """Take a response; one to a request that is not in flight is none of ours.

        Args:
            at: When it came, by time.perf_counter(); None is now.
        """
        sent = self._in_flight.get(response.request_id)
        if sent is None or sent.call is None:
            return
        try:
            (tensors,) = self._requests.read(sent.call, response, 1)
            said = self._reader.read_part(tensors)
        except RequestError as error:
            self._fail(sent, error, at)
            return
        self._result(sent, "ok", at, said=said, final=response.final)
        if response.final:
            self._finish(sent)

    def failed(self, error: RequestError, at: float | None = None) -> None:
        """Take a failure of one request, `at` as in `received`.

        Where the server does not say of which, it is that of the only one in flight, or of one of
        them once all others have their response.
        """
        sent = self._in_flight.get(error.request_id)
        if sent is not None:
            self._fail(sent, error, at)
        elif not error.request_id:
            self._nameless.append(error)
        self._settle()

    def lost(self, error: RequestError) -> None:
        """Take the end of the stream: all that is in flight has failed."""
        for sent in list(self._in_flight.values()):
            self._fail(sent, error)
        self._nameless.clear()

    def take(self) -> list[ImageResult]:
        """Return the results that are next in order, and forget them."""
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
        if self._nameless and len(self._nameless) >= len(self._in_flight):
            errors = dict(zip(list(self._in_flight), self._nameless, strict=False))
            self._nameless.clear()
            for request_id, error in errors.items():
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
        said: ImageResponse | None = None,
        error: str | None = None,
        final: bool = True,
    ) -> None:
        said = said or ImageResponse()
        at = time.perf_counter() if at is None else at
        sent.held.append(
            ImageResult(
                sent.name,
                status,
                said.detections,
                error,
                (at - sent.begin) * 1e3 if sent.call is not None else None,
                said.classes,
                self._reader.model.task,
                sent.call.request_id if sent.call is not None else "",
                final,
                said.upright,
            )
        )
