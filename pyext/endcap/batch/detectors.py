"""What detects: an ensemble's steps in this process, or running servers."""

from __future__ import annotations

import io
import itertools
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from endcap.batch.errors import BatchError
from endcap.batch.pipeline import Pipeline, PipelineSpec
from endcap.batch.rows import ImageRow
from endcap.client import DetectionClient
from endcap.detections import ImageResult, Task
from endcap.drawing.orientation import oriented_size
from endcap.errors import InvalidArgumentError

# Statuses that say nothing of the image: the server is gone, or too slow.
_OF_THE_SERVER = frozenset({"unavailable", "timeout", "cancelled"})
_LONGEST_PAUSE_S = 10.0
_FIRST_PAUSE_S = 0.1


class Detector(Protocol):
    """What gives encoded images their results.

    Attributes:
        task: Whether these are detections or classes.
        max_bytes: The most bytes of a file that is worth reading; None where there is no limit.
    """

    task: Task
    max_bytes: int | None

    def detect(self, images: Sequence[tuple[str, bytes]]) -> list[ImageRow]:
        """Return a row for each image, given as its name and the bytes of its file."""


class LocalDetector:
    """An ensemble's steps in this process.

    Args:
        spec: What to run.
        device: ``cpu``, ``cuda`` or ``cuda:N``.
        threads: All CPUs by default.
    """

    def __init__(self, spec: PipelineSpec, *, device: str, threads: int | None) -> None:
        self._pipeline = Pipeline(spec, device=device, threads=threads)
        self.task = self._pipeline.task
        self.max_bytes: int | None = self._pipeline.max_bytes

    def detect(self, images: Sequence[tuple[str, bytes]]) -> list[ImageRow]:
        """Return a row for each image."""
        return self._pipeline(images)


class ServedDetector:
    """Running servers, which take turns.

    Args:
        urls: Their addresses, HOST:PORT.
        model: The ensemble's name.
        concurrency: Requests in flight at once, of each server.
        max_wait_s: How long to wait for a server that is not there, or does not respond in time.

    Raises:
        ClientError: No server responds, or it does not serve the model.
        InvalidArgumentError: The model returns neither detections nor classes.
    """

    def __init__(
        self, urls: Sequence[str], *, model: str, concurrency: int = 4, max_wait_s: float = 60.0
    ) -> None:
        self._clients = [DetectionClient(url, model=model, concurrency=concurrency) for url in urls]
        self._turns = itertools.cycle(self._clients)
        self._max_wait_s = max_wait_s
        self.task = self._clients[0].task
        if self.task is Task.tensors:
            raise InvalidArgumentError(
                f"model '{model}' returns tensors, and rows have detections or classes; name "
                "another model"
            )
        self.max_bytes: int | None = None  # the servers say what is too large

    def detect(self, images: Sequence[tuple[str, bytes]]) -> list[ImageRow]:
        """Return a row for each image.

        Raises:
            BatchError: The servers did not respond for too long.
        """
        rows: dict[int, ImageRow] = {}
        waiting = list(range(len(images)))
        end, pause = time.monotonic() + self._max_wait_s, _FIRST_PAUSE_S
        while True:
            results = next(self._turns).detect([images[position][1] for position in waiting])
            again = []
            for position, result in zip(waiting, results, strict=True):
                if result.status in _OF_THE_SERVER:
                    again.append((position, result))
                else:
                    rows[position] = _row(result, *images[position])
            if not again:
                return [rows[position] for position in range(len(images))]
            if time.monotonic() > end:
                raise BatchError(
                    f"the server did not respond for {self._max_wait_s:g} s: {again[0][1].error}"
                )
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)
            waiting = [position for position, _ in again]


def _row(result: ImageResult, name: str, encoded: bytes) -> ImageRow:
    size = oriented_size(io.BytesIO(encoded), upright=result.upright) if result.ok else None
    width, height = size or (0, 0)
    return ImageRow(replace(result, image=name), width, height)
