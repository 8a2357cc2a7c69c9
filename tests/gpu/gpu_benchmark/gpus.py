"""The GPU that is measured: by torch, or the emulated one, whose times mean nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

import endcap
from endcap import _core
from gpu_benchmark import timing
from gpu_benchmark.timing import Timing, timing_of

Run = Callable[[], object]


class UnavailableError(RuntimeError):
    """Something that this machine does not have; the message says what."""


class Gpu(Protocol):
    """Arrays on a GPU, and times of work on it in milliseconds."""

    emulated: bool

    def peer(self) -> Any:
        """Return torch, for what endcap is compared with; UnavailableError where it cannot run."""

    def upload(self, array: npt.NDArray[Any]) -> Any:
        """Return a copy on the GPU."""

    def latency(self, run: Run, rounds: int = 20) -> Timing:
        """Return the time from the call until the GPU has done its work."""

    def call(self, run: Run, rounds: int = 20) -> Timing:
        """Return the time of a call among many, one after the other."""

    def enqueue(self, run: Run) -> Timing:
        """Return the host's time of a call that does not wait."""

    def queued(self, run: Run, rounds: int = 10) -> Timing:
        """Return the GPU's time of a call, with the host ahead of it."""

    def kernels(self, run: Run, rounds: int = 20) -> dict[str, tuple[float, float]]:
        """Return launches per call and mean microseconds by kernel; UnavailableError without."""

    def copy_bytes_per_ms(self) -> float:
        """Return bytes read and written per millisecond by a copy within the GPU's memory."""


class TorchGpu:
    """A GPU measured by torch."""

    emulated = False

    def __init__(self) -> None:
        try:
            import torch
        except ImportError as error:
            raise UnavailableError(f"torch is not installed: {error}") from error
        if not torch.cuda.is_available():
            raise UnavailableError("torch finds no GPU")
        self._torch = torch

    def peer(self) -> Any:
        """Return torch."""
        return self._torch

    def upload(self, array: npt.NDArray[Any]) -> Any:
        """Return a tensor of torch."""
        return self._torch.from_numpy(array).cuda()

    def latency(self, run: Run, rounds: int = 20) -> Timing:
        """See Gpu."""
        return timing.wall_ms(self._torch, run, rounds)

    def call(self, run: Run, rounds: int = 20) -> Timing:
        """See Gpu."""
        return timing.stream_ms(self._torch, run, rounds)

    def enqueue(self, run: Run) -> Timing:
        """See Gpu."""
        return timing.enqueue_ms(self._torch, run)

    def queued(self, run: Run, rounds: int = 10) -> Timing:
        """See Gpu."""
        return timing.queued_ms(self._torch, run, rounds)

    def kernels(self, run: Run, rounds: int = 20) -> dict[str, tuple[float, float]]:
        """See Gpu."""
        try:
            return timing.kernel_times(self._torch, run, rounds)
        except RuntimeError as error:
            raise UnavailableError(str(error)) from error

    def copy_bytes_per_ms(self) -> float:
        """See Gpu."""
        return timing.copy_bytes_per_ms(self._torch)


class EmulatedGpu:
    """The emulated GPU: the same calls, timed twice by the wall clock. Nothing is measured."""

    emulated = True

    def peer(self) -> Any:
        """Raise UnavailableError."""
        raise UnavailableError("torch does not know the emulated GPU")

    def upload(self, array: npt.NDArray[Any]) -> endcap.CudaArray:
        """Return an array of endcap."""
        return endcap.CudaArray(_core.CudaTensor.upload(np.ascontiguousarray(array), 0, 0, None))

    def latency(self, run: Run, rounds: int = 20) -> Timing:
        """Return the time by the wall clock, as every method here does."""
        times = []
        for _ in range(2):
            start = time.perf_counter()
            run()
            self.upload(np.zeros(1, np.float32)).to_numpy()  # waits for the stream
            times.append((time.perf_counter() - start) * 1e3)
        return timing_of(times)

    def call(self, run: Run, rounds: int = 20) -> Timing:
        """See latency."""
        return self.latency(run)

    def enqueue(self, run: Run) -> Timing:
        """See latency."""
        return self.latency(run)

    def queued(self, run: Run, rounds: int = 10) -> Timing:
        """See latency."""
        return self.latency(run)

    def kernels(self, run: Run, rounds: int = 20) -> dict[str, tuple[float, float]]:
        """Raise UnavailableError."""
        raise UnavailableError("torch's profiler does not know the emulated GPU")

    def copy_bytes_per_ms(self) -> float:
        """Return the speed of a copy to the emulated GPU, a number of no meaning."""
        array = np.zeros(1 << 20, np.uint8)
        return 2 * array.nbytes / self.latency(lambda: self.upload(array)).ms


def open_gpu(emulated: bool) -> Gpu:
    """Return the GPU of this process.

    Raises:
        UnavailableError: there is none, or torch cannot use it.
    """
    state = endcap.cuda_state()
    if not state.available:
        raise UnavailableError(state.reason)
    return EmulatedGpu() if emulated else TorchGpu()
