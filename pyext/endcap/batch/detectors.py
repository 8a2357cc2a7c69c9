"""Detectors: the steps of an ensemble in this process, or running servers; and one for Ray Data."""

from __future__ import annotations

import io
import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from endcap.batch.inputs import EncodedImage
from endcap.batch.pipeline import Pipeline, PipelineSpec
from endcap.batch.results import PATH, ImageRow, to_table
from endcap.batch.storage import BatchError
from endcap.client import ConnectionOptions, DetectionClient
from endcap.client.results import ImageResult, Task
from endcap.drawing.pictures import read_oriented_size
from endcap.errors import InvalidArgumentError

_BYTES = "bytes"
# Statuses of a server that is gone or too slow, not of the image.
_SERVER_STATUSES = frozenset({"unavailable", "timeout", "cancelled"})
# A server may be gone for a minute; the retries would last longer.
_WAIT = ConnectionOptions(timeout_s=60.0, retries=30)


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
        if self.task in (Task.tensors, Task.segmentation):
            raise InvalidArgumentError(
                f"model '{model}' returns {self.task.value}, not detections or classes; choose "
                "another model"
            )

    def detect(self, images: Sequence[tuple[str, bytes | memoryview]]) -> list[ImageRow]:
        """Return a row for each image.

        Raises:
            BatchError: A server did not respond for a minute.
        """
        rows = []
        results = next(self._turns).detect([encoded for _, encoded in images])
        for (name, encoded), result in zip(images, results, strict=True):
            if result.status in _SERVER_STATUSES:
                raise BatchError(f"the server does not respond: {result.error}")
            is_ok, upright = result.ok, result.upright
            size = read_oriented_size(io.BytesIO(encoded), upright=upright) if is_ok else None
            rows.append(ImageRow(replace(result, image=name), *(size or (0, 0))))
        return rows


def detect_images(detector: Pipeline | ServedDetector, images: Sequence[EncodedImage]) -> Any:
    """Return the results of images as a pyarrow.Table; those without bytes are ``unreadable``."""
    read = [(image.path, image.data) for image in images if image.data is not None]
    found = iter(detector.detect(read))
    rows = [
        ImageRow(ImageResult(image.path, "unreadable", error=image.error, task=detector.task))
        if image.data is None
        else next(found)
        for image in images
    ]
    return to_table(rows, detector.task)


class Detect:
    """Detections or classes of encoded images, for `Dataset.map_batches` of Ray Data.

    A batch is a pyarrow.Table with the columns ``bytes`` and ``path``, as
    ``ray.data.read_binary_files(..., include_paths=True)`` makes them; ``map_batches`` needs
    ``batch_format="pyarrow"``. The result has no ``bytes``, keeps what other columns there are, and
    has those of the files of `endcap batch`: a bad image is a row with a status and a message, and
    does not affect the others.

    Args:
        repository: A model repository, whose ensemble runs in the actor on ONNX Runtime: its path
            on the actors' machines, or a `PipelineSpec` that travels there.
        url: HOST:PORT of running servers, one or several, in place of a repository.
        model: The ensemble's name.
        device: Of an ensemble that runs in the actor: ``cpu``, ``cuda`` or ``cuda:N``.
        threads: Of such an ensemble. One by default: Ray gives an actor one CPU.
    """

    def __init__(
        self,
        repository: str | Path | PipelineSpec | None = None,
        *,
        url: str | Sequence[str] | None = None,
        model: str = "detect",
        device: str = "cpu",
        threads: int | None = 1,
    ) -> None:
        if (repository is None) == (url is None):
            raise InvalidArgumentError("give either a repository or the url of a server")
        self._detector: Pipeline | ServedDetector
        if url is not None:
            urls = [url] if isinstance(url, str) else list(url)
            self._detector = ServedDetector(urls, model=model)
        else:
            spec = repository
            if not isinstance(spec, PipelineSpec):
                spec = PipelineSpec.from_repository(str(spec), model)
            self._detector = Pipeline(spec, device=device, threads=threads)

    @property
    def task(self) -> Task:
        """Whether the results are detections or classes."""
        return self._detector.task

    def __call__(self, batch: Any) -> Any:
        """Return the batch's results, a pyarrow.Table."""
        names = getattr(batch, "column_names", None)
        if names is None or _BYTES not in names:
            raise InvalidArgumentError(
                f"a batch is a {type(batch).__name__} with the columns "
                f"{', '.join(names or batch)}, and a pyarrow.Table with the column {_BYTES}, the "
                'bytes of image files, is expected: give map_batches batch_format="pyarrow", or '
                "rename a column"
            )
        paths = batch[PATH].to_pylist() if PATH in names else None
        images = [
            EncodedImage(
                f"image {row}" if paths is None else paths[row],
                memoryview(cell.as_buffer()).cast("B") if cell.is_valid else None,
            )
            for row, cell in enumerate(batch[_BYTES])
        ]
        results = detect_images(self._detector, images)
        for name in names:
            if name not in (_BYTES, *results.column_names):
                results = results.append_column(batch.schema.field(name), batch[name])
        return results
