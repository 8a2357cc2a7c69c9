"""Milliseconds of work on a GPU, measured by torch."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

_WARM_UP_SECONDS = 0.3  # clocks rise within about as much
_RUNS = 7
_BUSY_CYCLES = 100_000_000  # of the GPU's clock: 50 ms, in which the host enqueues
_NO_KERNELS = ("memcpy", "memset", "cuda", "culaunch")


@dataclass(frozen=True)
class Timing:
    """ms: the median of several runs. spread: (largest - smallest) / median of them."""

    ms: float
    spread: float | None


def timing_of(times: list[float]) -> Timing:
    """Return the median and the spread of times in milliseconds."""
    middle = median(times)
    return Timing(middle, (max(times) - min(times)) / middle)


def _warm_up(torch: Any, run: Callable[[], object]) -> None:
    end = time.perf_counter() + _WARM_UP_SECONDS
    while time.perf_counter() < end:
        run()
        torch.cuda.synchronize()


def wall_ms(torch: Any, run: Callable[[], object], rounds: int = 20) -> Timing:
    """Return the time from the call until the GPU has done its work."""
    _warm_up(torch, run)
    times = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        start = time.perf_counter()
        result = run()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e3)
        del result
    return timing_of(times)


def enqueue_ms(torch: Any, run: Callable[[], object], rounds: int = 4, repeats: int = 20) -> Timing:
    """Return the host's time of a call that does not wait, of `rounds` calls onto an idle GPU."""
    _warm_up(torch, run)
    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(rounds):
            run()
        times.append((time.perf_counter() - start) * 1e3 / rounds)
    torch.cuda.synchronize()
    return timing_of(times)


def stream_ms(torch: Any, run: Callable[[], object], rounds: int = 20) -> Timing:
    """Return the time of a call among many, one after the other on the default stream."""
    _warm_up(torch, run)
    return timing_of([_between_events(torch, run, rounds, busy=False) for _ in range(_RUNS)])


def queued_ms(torch: Any, run: Callable[[], object], rounds: int = 10) -> Timing:
    """Return the GPU's own time of a call that does not wait, with the host ahead of it."""
    _warm_up(torch, run)
    return timing_of([_between_events(torch, run, rounds, busy=True) for _ in range(_RUNS)])


def _between_events(torch: Any, run: Callable[[], object], rounds: int, busy: bool) -> float:
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    if busy:
        torch.cuda._sleep(_BUSY_CYCLES)
    first.record()
    for _ in range(rounds):
        run()
    last.record()
    torch.cuda.synchronize()
    return float(first.elapsed_time(last)) / rounds


def kernel_times(
    torch: Any, run: Callable[[], object], rounds: int = 20
) -> dict[str, tuple[float, float]]:
    """Return launches per call and mean microseconds of each kernel, by torch's profiler.

    Raises:
        RuntimeError: the profiler sees no kernel, as in some sandboxes.
    """
    if rounds > 1:
        _warm_up(torch, run)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(rounds):
            run()
        torch.cuda.synchronize()
    times: dict[str, tuple[float, float]] = {}
    for event in profile.key_averages():
        total = float(event.device_time_total)
        if total > 0 and not event.key.lower().startswith(_NO_KERNELS):
            name = kernel_name(event.key)
            count, mean = times.get(name, (0.0, 0.0))
            all_us = count * mean * rounds + total
            count += event.count / rounds
            times[name] = count, all_us / (count * rounds)
    if not times:
        raise RuntimeError("torch's profiler saw no kernel")
    return times


def kernel_name(signature: str) -> str:
    """Return a kernel's name with its template arguments, without namespaces and parameters."""
    name = signature.replace("(anonymous namespace)::", "").replace("endcap::", "")
    name = re.sub(r"^void ", "", name)
    depth = 0
    for place, character in enumerate(name):
        depth += (character == "<") - (character == ">")
        if character == "(" and depth == 0:
            return name[:place]
    return name


def kernels_ms(torch: Any, run: Callable[[], object], rounds: int = 20) -> float:
    """Return the time of a call's kernels, without the gaps between them.

    Raises:
        RuntimeError: as kernel_times.
    """
    times = kernel_times(torch, run, rounds).values()
    return sum(count * mean for count, mean in times) / 1e3


def copy_bytes_per_ms(torch: Any) -> float:
    """Return the bytes read and written per millisecond by a copy within the device's memory."""
    source = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    size = int(source.numel())
    return 2 * size / stream_ms(torch, lambda: target.copy_(source)).ms
