"""Milliseconds of work on a GPU, measured by torch."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

_WARM_UP = 5


def wall_ms(torch: Any, run: Callable[[], object], rounds: int = 30) -> float:
    """Median time from the call until the GPU has done its work."""
    times = []
    for number in range(_WARM_UP + rounds):
        torch.cuda.synchronize()
        start = time.perf_counter()
        result = run()
        torch.cuda.synchronize()
        if number >= _WARM_UP:
            times.append(time.perf_counter() - start)
        del result
    return median(times) * 1e3


def stream_ms(torch: Any, run: Callable[[], object], rounds: int = 50) -> float:
    """Time of a call among many that are enqueued one after the other on the default stream."""
    for _ in range(_WARM_UP):
        run()
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    first.record()
    for _ in range(rounds):
        run()
    last.record()
    torch.cuda.synchronize()
    return float(first.elapsed_time(last)) / rounds


def kernels_ms(torch: Any, run: Callable[[], object], rounds: int = 20) -> float:
    """Time of a call's kernels alone, without the gaps between them, by torch's profiler."""
    for _ in range(_WARM_UP):
        run()
    torch.cuda.synchronize()
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        for _ in range(rounds):
            run()
        torch.cuda.synchronize()
    microseconds = sum(
        event.device_time_total
        for event in profile.key_averages()
        if not event.key.lower().startswith(("memcpy", "memset", "cuda"))
    )
    if microseconds <= 0:
        raise RuntimeError("torch's profiler saw no kernel")
    return float(microseconds) / 1e3 / rounds


def copy_bytes_per_ms(torch: Any) -> float:
    """Bytes read and written per millisecond by a copy within the device's memory."""
    source = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.numel() / stream_ms(torch, lambda: target.copy_(source))
