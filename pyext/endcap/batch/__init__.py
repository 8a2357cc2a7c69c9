"""Data sets on Ray Data: encoded images to detections, classes or tensors.

It needs the extra `ray`. `endcap batch` (`cli.batch`) calls `run.run_batch`:

1. `inputs.list_images` divides the data set into shards. Images that the output has are left out.
2. Ray Data hands shards to actors (`run`). An actor reads a shard's images (`inputs.read_shard`),
   detects (the steps of an ensemble in `pipeline`, or a client of running servers in `detectors`),
   and writes one Parquet file (`results`).

For your own pipelines, `read_encoded` returns a Ray Dataset of encoded images, and `Detect` and
`Preprocess` (`transforms`) are for its `map_batches`. All files are reached by `storage`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from endcap.batch.errors import BatchError, import_package
from endcap.batch.inputs import BYTES, READ_ERROR, Shard, list_images, read_shard
from endcap.batch.pipeline import PipelineSpec
from endcap.batch.results import PATH
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

_BLOCK_BYTES = 16 << 20


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
    data, pa = import_package("ray.data"), import_package("pyarrow")
    several = [locations] if isinstance(locations, (str, Path)) else locations
    shards = list_images([str(each) for each in several], column=column).shards
    blocks = [pa.table({"shard": [json.dumps(asdict(shard))]}) for shard in shards]
    dataset: ray.data.Dataset = data.from_blocks(blocks).map_batches(
        _read, fn_kwargs={"allow_any_path": allow_any_path}, batch_size=1, batch_format="pyarrow"
    )
    return dataset


def _read(batch: Any, *, allow_any_path: bool) -> Iterator[Any]:
    """Yield tables of a few megabytes with the images of a shard."""
    pa = import_package("pyarrow")
    schema = pa.schema([(PATH, pa.string()), (BYTES, pa.binary()), (READ_ERROR, pa.string())])
    shard = Shard(**json.loads(batch["shard"][0].as_py()))
    rows: list[dict[str, Any]] = []
    size = 0
    for image in read_shard(shard, allow_any_path=allow_any_path):
        rows.append({PATH: image.path, BYTES: image.data, READ_ERROR: image.error})
        size += len(image.data or b"")
        if size >= _BLOCK_BYTES:
            yield pa.Table.from_pylist(rows, schema=schema)
            rows, size = [], 0
    yield pa.Table.from_pylist(rows, schema=schema)
