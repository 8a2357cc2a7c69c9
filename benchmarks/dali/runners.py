"""What runs a way: a batch of encoded images in, tensors out."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

import endcap
from benchmarks.dali.ways import Way
from benchmarks.preprocess import SIZE

Encoded = Sequence[npt.NDArray[np.uint8]]
# images float32 [N, 3, SIZE, SIZE], geometry float32 [N, 8], status int32 [N]
Arrays = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], npt.NDArray[np.int32]]


class Runner(Protocol):
    """A way with its threads and buffers, for batches of one size."""

    def __call__(self, encoded: Encoded) -> object:
        """Do what is timed; the tensors are complete when it returns."""

    def arrays(self, encoded: Encoded) -> Arrays:
        """The same, with copies of the tensors, to be verified."""


def make(way: Way, batch_size: int, threads: int) -> Runner:
    """The runner of a way.

    Raises:
        ModuleNotFoundError: DALI is not installed, and endcap.EndcapError where its operators
            cannot be built or loaded.
    """
    if way.function is None:
        return _Endcap(way, batch_size, threads)
    return _Pipeline(way, batch_size, threads)


class _Endcap:
    def __init__(self, way: Way, batch_size: int, threads: int) -> None:
        device = "cuda" if way.device == "gpu" else "cpu"
        self._preprocess = endcap.Preprocessor(size=SIZE, threads=threads, device=device)
        self._out = np.empty((batch_size, 3, SIZE, SIZE), np.float32)
        self._cuda = import_module("cuda.bindings.runtime") if way.device == "gpu" else None

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

    def __init__(self, way: Way, batch_size: int, threads: int) -> None:
        dali: Any = import_module("endcap.dali")
        if way.operators:
            dali.build()  # what was built before is taken from the cache
            dali.load()
        assert way.function is not None
        self._pipeline: Any = getattr(dali, way.function)(
            size=(SIZE, SIZE),
            device=way.device,
            batch_size=batch_size,
            num_threads=threads,
            device_id=0 if way.device == "gpu" else None,
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
