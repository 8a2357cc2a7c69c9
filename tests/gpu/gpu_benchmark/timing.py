"""Milliseconds of work on a GPU, measured by torch."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

_WARM_UP_SECONDS = 0.3  # clocks rise within about as much
_RUNS = 7
_BUSY_CYCLES = 100_000_000  # of the GPU's clock: 50 ms, in which the host enqueues


@dataclass(frozen=True)
class Timing:
    """ms: the median of several runs. spread: (most - least) / median of them."""

    ms: float
    spread: float


def _timing(times: list[float]) -> Timing:
    middle = median(times)
    return Timing(middle, (max(times) - min(times)) / middle)


def _warm_up(torch: Any, run: Callable[[], object]) -> None:
    end = time.perf_counter() + _WARM_UP_SECONDS
    while time.perf_counter() < end:
        run()
        torch.cuda.synchronize()


def wall_ms(torch: Any, run: Callable[[], object], rounds: int = 20) -> Timing:
    """Time from the call until the GPU has done its work."""
    _warm_up(torch, run)
    times = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        start = time.perf_counter()
        result = run()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e3)
        del result
    return _timing(times)


def stream_ms(torch: Any, run: Callable[[], object], rounds: int = 20) -> Timing:
    """Time of a call among many that are enqueued one after the other on the default stream."""
    _warm_up(torch, run)
    return _timing([_between_events(torch, run, rounds, busy=False) for _ in range(_RUNS)])


def queued_ms(torch: Any, run: Callable[[], object], rounds: int = 10) -> Timing:
    """The GPU's own time of a call that does not wait: the host is ahead of it all the while."""
    _warm_up(torch, run)
    return _timing([_between_events(torch, run, rounds, busy=True) for _ in range(_RUNS)])


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


def kernels_ms(torch: Any, run: Callable[[], object], rounds: int = 20) -> float:
    """Time of a call's kernels alone, without the gaps between them, by torch's profiler.

    Raises RuntimeError where the profiler sees none, as in some sandboxes.
    """
    _warm_up(torch, run)
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
    return 2 * source.numel() / stream_ms(torch, lambda: target.copy_(source)).ms


def ask_gpu(fields: str) -> str:
    """What nvidia-smi says of the first GPU; "unknown" where it cannot be asked."""
    asked = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"]
    try:
        told = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=20).stdout
    except (OSError, subprocess.SubprocessError):
        told = ""
    return (told.strip() or "unknown").splitlines()[0]
