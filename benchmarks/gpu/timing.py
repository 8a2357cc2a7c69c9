"""Milliseconds of work on a GPU, by events of the CUDA driver."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Protocol

import numpy as np

import endcap
from endcap import _core

WARM_UP_SECONDS = 0.3  # clocks rise within about as much
RUNS = 9
CALLS = 10  # of a run


@dataclass(frozen=True)
class Timing:
    """Median of several runs in milliseconds, and (largest - smallest) / median of them."""

    ms: float
    spread: float


class Clock(Protocol):
    """Times calls that enqueue work on the legacy default stream."""

    def wait(self) -> None:
        """Wait until the GPU has done everything."""

    def elapsed_ms(self, run: Callable[[], object], calls: int) -> float:
        """Return the milliseconds of several calls one after the other."""


class CudaEvents:
    """Events of the driver, so that nothing besides endcap has to be installed."""

    def __init__(self) -> None:
        self._driver = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self._call("cuInit", ctypes.c_uint(0))
        self._call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(0))
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxSetCurrent", context)
        self._first, self._last = self._event(), self._event()

    def wait(self) -> None:
        """See Clock."""
        self._call("cuCtxSynchronize")

    def elapsed_ms(self, run: Callable[[], object], calls: int) -> float:
        """See Clock."""
        default_stream = ctypes.c_void_p()
        self.wait()
        self._call("cuEventRecord", self._first, default_stream)
        for _ in range(calls):
            run()
        self.wait()  # DALI works on streams that the default stream does not wait for
        self._call("cuEventRecord", self._last, default_stream)
        self._call("cuEventSynchronize", self._last)
        elapsed = ctypes.c_float()
        self._call("cuEventElapsedTime", ctypes.byref(elapsed), self._first, self._last)
        return elapsed.value

    def _event(self) -> ctypes.c_void_p:
        event = ctypes.c_void_p()
        self._call("cuEventCreate", ctypes.byref(event), ctypes.c_uint(0))
        return event

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._driver, name)(*arguments)
        if status != 0:
            raise RuntimeError(f"{name} failed with status {status} of the CUDA driver")


class EmulatedClock:
    """The host's clock, for the emulated GPU: its times mean nothing."""

    def wait(self) -> None:
        """See Clock."""
        _core.CudaTensor.upload(np.zeros(1, np.uint8), 0, 0, None).to_numpy()

    def elapsed_ms(self, run: Callable[[], object], calls: int) -> float:
        """See Clock."""
        start = time.perf_counter()
        for _ in range(calls):
            run()
        self.wait()
        return (time.perf_counter() - start) * 1e3


def open_clock(device: endcap.CudaDevice) -> Clock:
    """Return the clock of the GPU that is measured."""
    return EmulatedClock() if is_emulated(device) else CudaEvents()


def is_emulated(device: endcap.CudaDevice) -> bool:
    """Return whether a GPU is that of tests/cuda_emulation."""
    return "emulation" in device.name


def measure(clock: Clock, run: Callable[[], object], *, tiny: bool) -> Timing:
    """Return the time of a call among several that follow each other."""
    end = time.perf_counter() + (0 if tiny else WARM_UP_SECONDS)
    while True:
        run()
        clock.wait()
        if time.perf_counter() >= end:
            break
    calls, runs = (1, 2) if tiny else (CALLS, RUNS)
    times = [clock.elapsed_ms(run, calls) / calls for _ in range(runs)]
    middle = median(times)
    return Timing(middle, (max(times) - min(times)) / middle)
