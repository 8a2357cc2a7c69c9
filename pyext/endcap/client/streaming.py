"""Images sent over a stream and their responses, put in order; it sends nothing itself."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from endcap.client.calls import Call, Response
from endcap.client.errors import RequestError
from endcap.client.pipeline import EnsemblePipeline
from endcap.client.reading import Found, ResponseReader
from endcap.client.sequences import StreamImage
from endcap.results.image_result import ImageResult


@dataclass
class _Sent:
    """An image whose last response has not come. `held`: results that others must precede."""

    name: str
    call: Call | None
    begin: float = field(default_factory=time.perf_counter)
    held: list[ImageResult] = field(default_factory=list)
    done: bool = False


class StreamBook:
    """Keeps book of what is in flight on one stream, and gives results in the order of images.

    Results of the oldest image come as its responses do, those of later ones when it is done.
    """

    def __init__(
        self, pipeline: EnsemblePipeline, reader: ResponseReader, next_id: Callable[[], str]
    ):
        self._pipeline = pipeline
        self._reader = reader
        self._next_id = next_id
        self._order: deque[_Sent] = deque()
        self._in_flight: dict[str, _Sent] = {}
        self._nameless: list[RequestError] = []

    def __len__(self) -> int:
        """Counts the images whose last result was not taken."""
        return len(self._order)

    @property
    def in_flight(self) -> int:
        """How many requests have not had their last response."""
        return len(self._in_flight)

    def enter(self, image: StreamImage) -> Call | None:
        """Enters the next image; returns the request to send, None where there is none."""
        if isinstance(image.content, RequestError):
            self._order.append(_Sent(image.name, None))
            self._fail(self._order[-1], image.content)
            return None
        call = replace(self._pipeline.call([image.content], self._next_id()), sequence=image.step)
        self._order.append(_Sent(image.name, call))
        self._in_flight[call.request_id] = self._order[-1]
        return call

    def answered(self, answer: Response, at: float | None = None) -> None:
        """Takes a response; one to a request that is not in flight is none of ours.

        at: when it came, by time.perf_counter(); None is now.
        """
        sent = self._in_flight.get(answer.request_id)
        if sent is None or sent.call is None:
            return
        try:
            (tensors,) = self._pipeline.read(sent.call, answer, 1)
            found = self._reader.read_part(tensors)
        except RequestError as error:
            self._fail(sent, error, at)
            return
        self._result(sent, "ok", at, found=found, final=answer.final)
        if answer.final:
            self._finish(sent)

    def failed(self, error: RequestError, at: float | None = None) -> None:
        """Takes a failure of one request, `at` as in `answered`.

        Where the server does not say of which, it is that of the only one in flight, or of one of
        them once all others are answered.
        """
        sent = self._in_flight.get(error.request_id)
        if sent is not None:
            self._fail(sent, error, at)
        elif not error.request_id:
            self._nameless.append(error)
        self._settle()

    def lost(self, error: RequestError) -> None:
        """Takes the end of the stream: all that is in flight has failed."""
        for sent in list(self._in_flight.values()):
            self._fail(sent, error)
        self._nameless.clear()

    def take(self) -> list[ImageResult]:
        """Returns the results that are next in order, and forgets them."""
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
        found: Found | None = None,
        error: str | None = None,
        final: bool = True,
    ) -> None:
        found = found or Found()
        at = time.perf_counter() if at is None else at
        sent.held.append(
            ImageResult(
                sent.name,
                status,
                found.detections,
                error,
                (at - sent.begin) * 1e3 if sent.call is not None else None,
                found.classes,
                self._reader.model.task,
                sent.call.request_id if sent.call is not None else "",
                final,
                found.upright,
            )
        )
