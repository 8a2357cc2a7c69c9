"""Data sets on Ray Data: encoded images to detections, classes or tensors.

It needs the extra `ray`. `endcap batch` (`cli.batch`) calls `run.run_batch`:

1. `inputs.list_images` divides the data set into shards; `job` keeps them beside the results, so
   that a run can be continued.
2. Ray Data hands shards to actors (`run`). An actor reads a shard's images (`inputs.read_shard`),
   detects by one of the `detectors` (the steps of an ensemble in `pipeline`, or a client of running
   servers), and writes one Parquet file (`results`, whose rows are those of `rows`).
3. `results.write_coco` makes COCO JSON of these files.

For pipelines of your own, `read_encoded` gives a Ray Dataset of encoded images, and `Detect` and
`Preprocess` (`transforms`) are for its `map_batches`. All files are reached by `storage`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from endcap.batch.errors import BatchError, import_package
from endcap.batch.pipeline import PipelineSpec
from endcap.batch.run import BatchPlan, BatchProgress, BatchReport, ServedModel, run_batch
from endcap.batch.transforms import Detect, Preprocess

if TYPE_CHECKING:
    import ray.data

__all__ = [
    "BatchError",
    "BatchPlan",
    "BatchProgress",
    "BatchReport",
    "Detect",
    "PipelineSpec",
    "Preprocess",
    "ServedModel",
    "read_encoded",
    "run_batch",
]


def read_encoded(
    locations: str | Path | Sequence[str | Path],
    *,
    column: str | None = None,
    allow_any_path: bool = False,
) -> ray.data.Dataset:
    """Return a Ray Dataset of encoded images: ``path``, ``bytes`` and ``read_error``.

    A file that cannot be read is a row without bytes whose ``read_error`` says why.

    Args:
        locations: Paths or URLs (``s3://``, ``gs://``) of folders (with all below), glob patterns,
            image files, Parquet files with a column of bytes or paths, and tar archives.
        column: That column, where its name is not a usual one.
        allow_any_path: Whether cells of Parquet files may name any file and bucket that can be
            read; else files below the Parquet file's folder only, links followed.

    Raises:
        BatchError: Ray is not installed, or a location cannot be reached.
        InvalidArgumentError: There are no images.
    """
    data = import_package("ray.data")
    from endcap.batch.datasource import EncodedImages

    several = [locations] if isinstance(locations, (str, Path)) else locations
    dataset: ray.data.Dataset = data.read_datasource(
        EncodedImages([str(each) for each in several], column=column, allow_any_path=allow_any_path)
    )
    return dataset
