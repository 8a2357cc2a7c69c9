"""A work's times, and how they stand against a bound and against a peer."""

from __future__ import annotations

from collections.abc import Mapping

from gpu_check.machine import query_gpu
from gpu_check.records import KernelTime, Records, Row

from gpu_benchmark.gpus import Gpu, Run, UnavailableError

Times = Mapping[str, float]  # milliseconds by metric
_RATIOS = ("call", "enqueue", "kernel")


def measure(
    gpu: Gpu,
    records: Records,
    work: str,
    run: Run,
    *,
    by: str = "endcap",
    bound_ms: float | None = None,
    waits: bool = False,
    queued_rounds: int = 10,
    call_rounds: int = 20,
    notes: str = "",
) -> Times:
    """Add the rows of a work's times and its kernels; return the times.

    Metrics: ``latency``, from a call until the GPU is done; ``call``, of a call among many;
    ``enqueue``, the host's time alone; ``queued``, the GPU's time by events, with the host ahead of
    it; ``kernel``, the sum of the kernels' times without gaps, or ``queued`` where there is no
    profiler.

    Args:
        gpu: the GPU.
        records: gets the rows.
        work: its name.
        run: does it once.
        by: who does it.
        bound_ms: time that a bound allows; adds ``call / bound``, ``enqueue / bound`` and
            ``kernel / bound``.
        waits: the call waits for the GPU, so ``enqueue`` and ``queued`` say nothing.
        queued_rounds: calls that do not wait for an earlier one.
        call_rounds: calls of a measurement.
        notes: of the rows.
    """
    times: dict[str, float] = {}
    timings = {"latency": gpu.latency(run), "call": gpu.call(run, call_rounds)}
    if not waits:
        timings["enqueue"] = gpu.enqueue(run)
        timings["queued"] = gpu.queued(run, queued_rounds)
    for metric, taken in timings.items():
        times[metric] = taken.ms
        records.rows.append(Row(work, by, metric, taken.ms, "ms", notes, taken.spread))
    kernel_notes = "sum of the kernels' times"
    try:
        found = gpu.kernels(run)
        records.kernels += [KernelTime(work, name, *found[name]) for name in found]
        times["kernel"] = sum(count * mean for count, mean in found.values()) / 1e3
    except UnavailableError as error:
        records.left_out.append(f"{work}, {by}: times by kernel: {error}")
        if not waits:
            times["kernel"] = min(times["call"], times["queued"])
            kernel_notes = "by events: there is no profiler"
    if "kernel" in times:
        records.rows.append(Row(work, by, "kernel", times["kernel"], "ms", kernel_notes))
    if bound_ms is not None:
        records.rows.append(Row(work, by, "bound", bound_ms, "ms", "bytes / copy bandwidth"))
        for metric in filter(times.__contains__, _RATIOS):
            ratio = times[metric] / bound_ms
            records.rows.append(Row(work, by, f"{metric} / bound", ratio, "x"))
    records.clocks[f"{work}, {by}"] = query_gpu("clocks.sm,clocks.mem")
    records.write()
    return times


def compare(records: Records, work: str, by: str, ours: Times, peer: Times) -> None:
    """Add how many times as long a peer takes: ``peer / call`` and so on."""
    for metric in _RATIOS:
        if metric in ours and metric in peer:
            ratio = peer[metric] / ours[metric]
            records.rows.append(Row(work, by, f"peer / {metric}", ratio, "x"))
