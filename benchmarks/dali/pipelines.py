"""Pipelines that are compared (who decodes, who resizes, and where), and what runs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

import endcap
from benchmarks.preprocess import SIZE

Device = Literal["cpu", "gpu"]
# The largest difference from endcap.preprocess, in 8-bit steps, of a pipeline that is timed. By
# the tests' bounds the resize of DALI is off by one; what endcap does is off by nothing.
RESIZE_OF_DALI_STEPS = 1
# nvJPEG's pixels, which may be off by 6 (see docs/dali_parity.md), resized.
NVJPEG_STEPS = 7


@dataclass(frozen=True)
class Pipeline:
    """One pipeline from encoded bytes to tensors.

    Attributes:
        function: The pipeline of endcap.dali; None for endcap.preprocess without DALI.
        operators: Whether it needs endcap's operators in DALI.
        steps: How far its images may be from endcap.preprocess on the CPU; 0 asks for equal bits.
    """

    name: str
    how: str
    function: str | None
    device: Device = "cpu"
    operators: bool = True
    steps: int = 0

    @property
    def geometry_values(self) -> int:
        """How many of the eight must be endcap's.

        Not the source index, which is that of a sample alone; nor the orientation of a file that
        DALI has decoded, and oriented without reporting it.
        """
        return 7 if self.function in (None, "detection_preprocess") else 6

    @property
    def key(self) -> str:
        """The name, with the device where that is a GPU."""
        return self.name if self.device == "cpu" else f"{self.name}, GPU"


ENDCAP = Pipeline("endcap.preprocess", "no DALI: Preprocessor", None, operators=False)
ALL_OURS = Pipeline("(a) all endcap", "fn.endcap.preprocess", "detection_preprocess")
CPU_PIPELINES = (
    ENDCAP,
    ALL_OURS,
    Pipeline(
        "(b) DALI decodes",
        "fn.decoders.image, fn.endcap.resize_normalize",
        "detection_preprocess_dali_decode",
    ),
    Pipeline(
        "(c) all DALI",
        "fn.decoders.image, fn.resize, fn.crop_mirror_normalize",
        "detection_preprocess_dali_only",
        operators=False,
        steps=RESIZE_OF_DALI_STEPS,
    ),
)
GPU_PIPELINES = tuple(
    replace(pipeline, device="gpu", steps=0 if pipeline in (ENDCAP, ALL_OURS) else NVJPEG_STEPS)
    for pipeline in CPU_PIPELINES
)


Encoded = Sequence[npt.NDArray[np.uint8]]
# images float32 [N, 3, SIZE, SIZE], geometry float32 [N, 8], status int32 [N]
Arrays = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], npt.NDArray[np.int32]]


class Runner(Protocol):
    """A pipeline with its threads and buffers, for batches of one size."""

    def __call__(self, encoded: Encoded) -> object:
        """Do what is timed; the tensors are complete when it returns."""

    def arrays(self, encoded: Encoded) -> Arrays:
        """Return the same, with copies of the tensors, to be verified."""


def make(pipeline: Pipeline, batch_size: int, threads: int) -> Runner:
    """Return the runner of a pipeline.

    Raises:
        ModuleNotFoundError: DALI is not installed, and endcap.EndcapError where its operators
            cannot be built or loaded.
    """
    if pipeline.function is None:
        return _Endcap(pipeline, batch_size, threads)
    return _Pipeline(pipeline, batch_size, threads)


class _Endcap:
    def __init__(self, pipeline: Pipeline, batch_size: int, threads: int) -> None:
        device = "cuda" if pipeline.device == "gpu" else "cpu"
        self._preprocess = endcap.Preprocessor(size=SIZE, threads=threads, device=device)
        self._out = np.empty((batch_size, 3, SIZE, SIZE), np.float32)
        self._cuda = import_module("cuda.bindings.runtime") if pipeline.device == "gpu" else None

    def __call__(self, encoded: Encoded) -> object:
        if self._cuda is None:
            return self._preprocess(encoded, out=self._out)
        result = self._preprocess(encoded)
        self._cuda.cudaDeviceSynchronize()
        return result

    def arrays(self, encoded: Encoded) -> Arrays:
        result = self._preprocess(encoded)
        images = result.images if self._cuda is None else result.images.to_numpy()
        return np.asarray(images), result.geometry, result.status


class _Pipeline:
    """One pipeline of endcap.dali, fed with arrays.

    Without a queue: every run starts when it is asked for and ends with its own batch.
    """

    def __init__(self, pipeline: Pipeline, batch_size: int, threads: int) -> None:
        dali: Any = import_module("endcap.dali")
        if pipeline.operators:
            dali.build()  # what was built before is taken from the cache
            dali.load()
        assert pipeline.function is not None
        self._pipeline: Any = getattr(dali, pipeline.function)(
            size=(SIZE, SIZE),
            device=pipeline.device,
            batch_size=batch_size,
            num_threads=threads,
            device_id=0 if pipeline.device == "gpu" else None,
            prefetch_queue_depth=1,
            exec_async=False,
            exec_pipelined=False,
        )
        self._pipeline.build()

    def __call__(self, encoded: Encoded) -> Any:
        self._pipeline.feed_input("encoded", list(encoded))
        return self._pipeline.run()

    def arrays(self, encoded: Encoded) -> Arrays:
        images, geometry, status = (_host(output) for output in self(encoded))
        return images, geometry, status.reshape(len(encoded))


def _host(output: Any) -> Any:
    on_host = output.as_cpu() if hasattr(output, "as_cpu") else output
    return np.array(on_host.as_array())  # the pipeline's next run writes into the same memory
