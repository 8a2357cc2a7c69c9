"""Detection in batches of encoded images, by shards or for Ray Data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from endcap.batch.inputs import EncodedImage
from endcap.batch.pipeline import Pipeline, PipelineSpec
from endcap.batch.results import PATH, ImageRow, to_table
from endcap.errors import InvalidArgumentError
from endcap.results import ImageResult, Task

_BYTES = "bytes"


def detect_images(pipeline: Pipeline, images: Sequence[EncodedImage]) -> Any:
    """Return the results of images as a pyarrow.Table; those without bytes are ``unreadable``."""
    read = [(image.path, image.data) for image in images if image.data is not None]
    found = iter(pipeline.detect(read))
    rows = [
        ImageRow(ImageResult(image.path, "unreadable", error=image.error, task=pipeline.task))
        if image.data is None
        else next(found)
        for image in images
    ]
    return to_table(rows, pipeline.task)


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
        model: The ensemble's name.
        device: ``cpu``, ``cuda`` or ``cuda:N``.
        threads: One by default: Ray gives an actor one CPU.
    """

    def __init__(
        self,
        repository: str | Path | PipelineSpec,
        *,
        model: str = "detect",
        device: str = "cpu",
        threads: int | None = 1,
    ) -> None:
        spec = repository
        if not isinstance(spec, PipelineSpec):
            spec = PipelineSpec.from_repository(spec, model)
        self._pipeline = Pipeline(spec, device=device, threads=threads)

    @property
    def task(self) -> Task:
        """Whether the results are detections or classes."""
        return self._pipeline.task

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
                "there are no bytes",
            )
            for row, cell in enumerate(batch[_BYTES])
        ]
        results = detect_images(self._pipeline, images)
        for name in names:
            if name not in (_BYTES, *results.column_names):
                results = results.append_column(batch.schema.field(name), batch[name])
        return results
