"""Detectors: the steps of an ensemble in this process, or running servers."""

from __future__ import annotations

import io
import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from endcap.batch.errors import BatchError
from endcap.batch.inputs import EncodedImage
from endcap.batch.results import ImageRow
from endcap.client import ConnectionOptions, DetectionClient
from endcap.detections import ImageResult, Task
from endcap.drawing.orientation import oriented_size
from endcap.errors import InvalidArgumentError

# Statuses of a server that is gone or too slow, not of the image.
_SERVER_STATUSES = frozenset({"unavailable", "timeout", "cancelled"})
# A server may be gone for a minute; the retries would last longer.
_WAIT = ConnectionOptions(timeout_s=60.0, retries=30)


class Detector(Protocol):
    """Finds detections or classes in encoded images."""

    @property
    def task(self) -> Task:
        """Detection or classification."""

    @property
    def max_bytes(self) -> int | None:
        """The most bytes of an image's file; None without a limit."""

    def detect(self, images: Sequence[tuple[str, bytes | memoryview]]) -> list[ImageRow]:
        """Return a row for each image, given its name and the bytes of its file."""


def detect_images(detector: Detector, images: Sequence[EncodedImage]) -> list[ImageRow]:
    """Return a row for each image; the status of those without bytes is ``unreadable``."""
    read = [(image.path, image.data) for image in images if image.data is not None]
    rows = iter(detector.detect(read))
    return [
        ImageRow(ImageResult(image.path, "unreadable", error=image.error, task=detector.task))
        if image.data is None
        else next(rows)
        for image in images
    ]


class ServedDetector:
    """Running servers, used in turn.

    Args:
        urls: Their addresses, HOST:PORT.
        model: The ensemble's name.
        concurrency: Requests in flight at once, of each server.

    Raises:
        ClientError: No server responds, or it does not serve the model.
        InvalidArgumentError: The model returns neither detections nor classes.
    """

    def __init__(self, urls: Sequence[str], *, model: str, concurrency: int = 4) -> None:
        clients = [
            DetectionClient(url, model=model, concurrency=concurrency, options=_WAIT)
            for url in urls
        ]
        self._turns = itertools.cycle(clients)
        self.task = clients[0].task
        if self.task is Task.tensors:
            raise InvalidArgumentError(
                f"model '{model}' returns tensors, not detections or classes; choose another model"
            )
        self.max_bytes: int | None = None  # the servers have their own limit

    def detect(self, images: Sequence[tuple[str, bytes | memoryview]]) -> list[ImageRow]:
        """Return a row for each image.

        Raises:
            BatchError: A server did not respond for a minute.
        """
        results = next(self._turns).detect([encoded for _, encoded in images])
        for result in results:
            if result.status in _SERVER_STATUSES:
                raise BatchError(f"the server does not respond: {result.error}")
        return [_row(result, *image) for result, image in zip(results, images, strict=True)]


def _row(result: ImageResult, name: str, encoded: bytes | memoryview) -> ImageRow:
    size = oriented_size(io.BytesIO(encoded), upright=result.upright) if result.ok else None
    width, height = size or (0, 0)
    return ImageRow(replace(result, image=name), width, height)
