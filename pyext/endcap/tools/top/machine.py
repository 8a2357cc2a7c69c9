"""The machine that a server runs on, as far as the server reports it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from endcap.tools.top.scrape import Sample


@dataclass(frozen=True)
class Gpu:
    """One GPU. utilization: 0 to 1. None stands for what the server does not report."""

    uuid: str
    utilization: float | None
    memory_used_bytes: float | None
    memory_total_bytes: float | None
    power_w: float | None


@dataclass(frozen=True)
class Machine:
    """The machine's use, not the server's alone. None stands for what is not reported."""

    cpu_utilization: float | None  # 0 to 1
    memory_used_bytes: float | None
    memory_total_bytes: float | None
    gpus: list[Gpu]


def machine(gauges: Iterable[Sample]) -> Machine:
    """Read Triton's gauges. It has them all at 0 until it has looked for the first time."""
    whole: dict[str, float] = {}
    per_gpu: dict[str, dict[str, float]] = defaultdict(dict)
    for sample in gauges:
        if "model" in sample.labels:
            continue
        if sample.name.startswith("nv_gpu_"):
            per_gpu[sample.labels.get("gpu_uuid", "")][sample.name] = sample.value
        else:
            whole[sample.name] = sample.value
    looked = whole.get("nv_cpu_memory_total_bytes", 0.0) > 0
    return Machine(
        whole.get("nv_cpu_utilization") if looked else None,
        whole.get("nv_cpu_memory_used_bytes") if looked else None,
        whole.get("nv_cpu_memory_total_bytes") if looked else None,
        [_gpu(uuid, found) for uuid, found in sorted(per_gpu.items())],
    )


def _gpu(uuid: str, values: Mapping[str, float]) -> Gpu:
    return Gpu(
        uuid,
        values.get("nv_gpu_utilization"),
        values.get("nv_gpu_memory_used_bytes"),
        values.get("nv_gpu_memory_total_bytes"),
        values.get("nv_gpu_power_usage"),
    )
