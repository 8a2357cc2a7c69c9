"""Data sets on Ray Data: encoded images to detections or classes.

It needs the extra `ray`. `endcap batch` (`cli.batch`) calls `run.run_batch`:

1. `inputs.list_images` divides the data set into shards. Images that the output has are left out.
2. Ray Data hands shards to actors (`run`). An actor reads a shard's images (`inputs.read_shard`)
   and detects (the steps of an ensemble in `pipeline`, or a client of running servers in
   `detectors`).
3. The starting process writes what they return as Parquet files (`results`).

For your own pipelines, `Detect` (`detectors`) is for `map_batches` of Ray's datasets. All files are
reached by `storage`.
"""

from __future__ import annotations

from endcap.batch.detectors import Detect
from endcap.batch.pipeline import PipelineSpec
from endcap.batch.run import BatchPlan, BatchReport, ServedModel, run_batch
from endcap.batch.storage import BatchError

__all__ = [
    "BatchError",
    "BatchPlan",
    "BatchReport",
    "Detect",
    "PipelineSpec",
    "ServedModel",
    "run_batch",
]
