"""Callable classes for `map_batches` of Ray Data: encoded images to results, or to tensors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from endcap.batch.detectors import Detector, ServedDetector, detect_images
from endcap.batch.inputs import BYTES, READ_ERROR, EncodedImage
from endcap.batch.pipeline import Pipeline, PipelineSpec
from endcap.batch.results import PATH, to_table
from endcap.cuda_array import on_host
from endcap.detections import Task
from endcap.errors import InvalidArgumentError
from endcap.parameters import PreprocessParameters, list_parameters
from endcap.preprocess import Preprocessor

if TYPE_CHECKING:
    from typing_extensions import Unpack

_FORMAT = 'give map_batches batch_format="pyarrow"'


class Detect:
    """Detections or classes of encoded images, for `Dataset.map_batches`.

    A batch is a pyarrow.Table with the columns ``bytes`` and ``path``, as `read_encoded` makes
    them; ``map_batches`` needs ``batch_format="pyarrow"``. The result has no ``bytes``, keeps what
    other columns there are, and has those of the files of `endcap batch`: a bad image is a row with
    a status and a message, and does not affect the others.

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
        self._detector: Detector
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
        results = to_table(detect_images(self._detector, _read_images(batch)), self.task)
        for name in batch.column_names:
            if name not in (BYTES, READ_ERROR, *results.column_names):
                results = results.append_column(batch.schema.field(name), batch[name])
        return results


class Preprocess:
    """Tensors of encoded images, for `Dataset.map_batches` of training pipelines.

    A batch is as for `Detect`. The result is a dict of NumPy arrays without ``bytes``: ``images``,
    ``geometry`` and ``status`` of `endcap.PreprocessResult`, and what other columns there are. A
    bad image is gray, and its status is not 0.

    Args:
        preset: As for `endcap.Preprocessor`.
        device: Likewise.
        threads: One by default: Ray gives an actor one CPU.
        fields: The parameters by name, as for `endcap.Preprocessor`.
    """

    @list_parameters(PreprocessParameters)
    def __init__(
        self,
        preset: str = "ultralytics",
        *,
        device: str = "cpu",
        threads: int | None = 1,
        **fields: Unpack[PreprocessParameters],
    ) -> None:
        fields["on_error"] = "blank"
        self._preprocess = Preprocessor(preset, device=device, threads=threads, **fields)

    def __call__(self, batch: Any) -> dict[str, Any]:
        """Return the tensors of a batch."""
        images = [image.data or b"" for image in _read_images(batch)]
        result = self._preprocess(images)
        kept = [name for name in batch.column_names if name not in (BYTES, READ_ERROR)]
        columns = {name: batch[name].to_numpy() for name in kept}
        return columns | {
            "images": on_host(result.images),
            "geometry": result.geometry,
            "status": result.status,
        }


def _read_images(batch: Any) -> list[EncodedImage]:
    """Return the images of a batch."""
    if isinstance(batch, dict) or not hasattr(batch, "column_names"):
        raise InvalidArgumentError(
            f"a batch is a {type(batch).__name__}, and a pyarrow.Table is expected: {_FORMAT}"
        )
    if BYTES not in batch.column_names:
        raise InvalidArgumentError(
            f"a batch has the columns {', '.join(batch.column_names)}, and {BYTES}, the bytes of "
            "image files, is expected: read images by endcap.batch.read_encoded, or rename a column"
        )
    names = batch.column_names
    paths = batch[PATH].to_pylist() if PATH in names else None
    errors = batch[READ_ERROR].to_pylist() if READ_ERROR in names else None
    images = []
    for row, cell in enumerate(batch[BYTES]):
        path = f"image {row}" if paths is None else paths[row]
        error = None if errors is None else errors[row]
        if error is None and not cell.is_valid:
            error = "there are no bytes"
        data = None if error else memoryview(cell.as_buffer()).cast("B")
        images.append(EncodedImage(path, data, error))
    return images
