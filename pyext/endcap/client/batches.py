"""Batches of images: what is sent together, and what again, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from endcap.client.errors import RequestError
from endcap.client.images import Image, ImageReader, name_of
from endcap.client.response_reader import ImageResponse
from endcap.results.image_result import ImageResult
from endcap.results.task import Task

# What concerns the server or the time, and no image: sending it again would change nothing.
_OF_NO_IMAGE = frozenset({"unavailable", "timeout", "cancelled"})


@dataclass(frozen=True)
class Batch:
    """Images of one request. start: the position of the first among all."""

    start: int
    images: Sequence[Image]

    @property
    def names(self) -> list[str]:
        """Returns the images' names in their results."""
        return [name_of(image, self.start + n) for n, image in enumerate(self.images)]

    def cancelled(self, task: Task) -> list[ImageResult]:
        """Return the results of images that are not sent, for the client was closed."""
        error = "the client was closed before this image was sent; make another one"
        return [ImageResult(name, "cancelled", error=error, task=task) for name in self.names]


@dataclass(frozen=True)
class Attempt:
    """A request of some images of a batch; rows: which of them.

    Attributes:
        spent_s: What an earlier attempt has taken of the time that these images have.
    """

    rows: list[int]
    contents: list[bytes]
    spent_s: float = 0.0


class BatchRun:
    """The requests that one batch takes; it sends nothing itself.

    As long as `next` gives an attempt, it is made and told to `take`.
    """

    def __init__(self, batch: Batch, reader: ImageReader, task: Task) -> None:
        self._names = batch.names
        self._task = task
        self._results: dict[int, ImageResult] = {}
        sent = Attempt([], [])
        for row, image in enumerate(batch.images):
            try:
                content = reader.read(image)
            except RequestError as error:
                self._failed(row, error, None, "")
            else:
                sent.rows.append(row)
                sent.contents.append(content)
        self._attempts = [sent] if sent.rows else []

    def next(self) -> Attempt | None:
        """Return what is to be sent now, None when every image has its result."""
        return self._attempts.pop(0) if self._attempts else None

    def take(
        self,
        attempt: Attempt,
        outcome: Sequence[ImageResponse | RequestError] | RequestError,
        latency_ms: float,
        request_id: str,
    ) -> None:
        """Take what the response says of each image, or why there is none.

        A failure that may be one image's has each sent again by itself.
        """
        if isinstance(outcome, RequestError):
            if len(attempt.rows) > 1 and outcome.status_name not in _OF_NO_IMAGE:
                each = zip(attempt.rows, attempt.contents, strict=True)
                spent_s = latency_ms / 1e3
                self._attempts += [Attempt([row], [content], spent_s) for row, content in each]
                return
            outcome = [outcome] * len(attempt.rows)
        for row, response in zip(attempt.rows, outcome, strict=True):
            if isinstance(response, RequestError):
                self._failed(row, response, latency_ms, request_id)
            else:
                self._results[row] = ImageResult(
                    self._names[row],
                    "ok",
                    response.detections,
                    latency_ms=latency_ms,
                    classes=response.classes,
                    task=self._task,
                    request_id=request_id,
                    upright=response.upright,
                )

    def results(self) -> list[ImageResult]:
        """Return the results in the order of the images."""
        return [self._results[row] for row in range(len(self._names))]

    def _failed(
        self, row: int, error: RequestError, latency_ms: float | None, request_id: str
    ) -> None:
        self._results[row] = ImageResult(
            self._names[row],
            error.status_name,
            error=str(error),
            latency_ms=latency_ms,
            task=self._task,
            request_id=request_id,
        )
