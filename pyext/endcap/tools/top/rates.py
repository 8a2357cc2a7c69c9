"""Rates of models, stages and the machine between two scrapes of a server's metrics."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from endcap.tools.top.metrics import (
    Counter,
    Increase,
    ModelVersion,
    Sample,
    Scrape,
    counts_by_model,
    increase,
)

_TRITON = "nv_"
_PENDING = Counter("nv_inference_pending_request_count")


_SUCCESS = "nv_inference_request_success"
_FAILURE = "nv_inference_request_failure"
_IMAGES = "nv_inference_count"
_EXECUTIONS = "nv_inference_exec_count"
_CACHE_HITS = "nv_cache_num_hits_per_model"
_US_PER_MS = 1e3


@dataclass(frozen=True)
class ModelRates:
    """Rates of one version of a model during an interval, from Triton's counters.

    None stands for what is not known.

    Attributes:
        requests_per_s: Successful requests.
        images_per_s: Images in their batches.
        failures_per_s: Failed requests; `failures` has them by Triton's reason.
        batch_size: Mean over the executions.
        total_ms, queue_ms, compute_input_ms, compute_infer_ms, compute_output_ms: Means over the
            successful requests. An ensemble's compute times are the sums of its steps' times; its
            queue time is its own alone.
        pending: Requests in the queue at the end of the interval.
        restarted: Whether counters decreased, so that there are no rates.
    """

    model: str
    version: str
    requests_per_s: float | None = None
    images_per_s: float | None = None
    failures_per_s: float | None = None
    failures: Mapping[str, float] = field(default_factory=dict)
    batch_size: float | None = None
    total_ms: float | None = None
    queue_ms: float | None = None
    compute_input_ms: float | None = None
    compute_infer_ms: float | None = None
    compute_output_ms: float | None = None
    pending: int | None = None
    restarted: bool = False


def model_rates(owner: ModelVersion, increased: Increase, pending: float | None) -> ModelRates:
    """Return the rates of a model."""
    succeeded = increased.total(_SUCCESS)
    computed = (succeeded or 0.0) - (increased.total(_CACHE_HITS) or 0.0)

    def mean_ms(phase: str, per: float | None) -> float | None:
        microseconds = increased.mean(f"nv_inference_{phase}_duration_us", per)
        return microseconds / _US_PER_MS if microseconds is not None else None

    return ModelRates(
        owner.model,
        owner.version,
        requests_per_s=increased.per_second(_SUCCESS),
        images_per_s=increased.per_second(_IMAGES),
        failures_per_s=increased.per_second(_FAILURE),
        failures=increased.by_reason(_FAILURE),
        batch_size=increased.mean(_IMAGES, increased.total(_EXECUTIONS)),
        total_ms=mean_ms("request", succeeded),
        queue_ms=mean_ms("queue", succeeded),
        compute_input_ms=mean_ms("compute_input", computed),
        compute_infer_ms=mean_ms("compute_infer", computed),
        compute_output_ms=mean_ms("compute_output", computed),
        pending=None if pending is None else int(pending),
        restarted=increased.restarted,
    )


BACKENDS = ("endcap_preprocess", "endcap_postprocess", "endcap_bls", "endcap_track")
_MS_PER_S = 1e3


@dataclass(frozen=True)
class StageRates:
    """Rates of one model of an endcap backend during an interval, from the backend's counters.

    None stands for what the backend does not count, or what is not known.

    Attributes:
        images_per_s: Images processed without an error.
        failures_per_s: Failed images or whole requests; `failures` has them by failure class.
        decode_ms: Mean time in the JPEG decoder of an image without an error.
        spills_per_s: Outputs that were promised GPU memory and got other memory.
        truncated_per_s: Images with more candidates than `max_candidates`.
        detections_per_image: Mean number of detections.
        crops_per_s: Detections that a cascade cropped and classified.
        inner_calls_per_s: Requests of a cascade to other models.
    """

    backend: str
    model: str
    version: str
    images_per_s: float | None = None
    failures_per_s: float | None = None
    failures: Mapping[str, float] = field(default_factory=dict)
    decode_ms: float | None = None
    spills_per_s: float | None = None
    truncated_per_s: float | None = None
    detections_per_image: float | None = None
    crops_per_s: float | None = None
    inner_calls_per_s: float | None = None
    restarted: bool = False


def stage_rates(backend: str, owner: ModelVersion, increased: Increase) -> StageRates:
    """Return the rates of a stage."""
    images = increased.total(f"{backend}_images")
    decode_s = increased.mean(f"{backend}_decode_seconds", images)
    return StageRates(
        backend,
        owner.model,
        owner.version,
        images_per_s=increased.per_second(f"{backend}_images"),
        failures_per_s=increased.per_second(f"{backend}_failed"),
        failures=increased.by_reason(f"{backend}_failed"),
        decode_ms=decode_s * _MS_PER_S if decode_s is not None else None,
        spills_per_s=increased.per_second(f"{backend}_spills"),
        truncated_per_s=increased.per_second(f"{backend}_truncated"),
        detections_per_image=increased.mean(f"{backend}_detections", images),
        crops_per_s=increased.per_second(f"{backend}_crops"),
        inner_calls_per_s=increased.per_second(f"{backend}_inner_calls"),
        restarted=increased.restarted,
    )


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
    """Utilization of the whole machine. None stands for what is not reported."""

    cpu_utilization: float | None  # 0 to 1
    memory_used_bytes: float | None
    memory_total_bytes: float | None
    gpus: list[Gpu]


def machine(gauges: Iterable[Sample]) -> Machine:
    """Return the machine's utilization from Triton's gauges, which are 0 until first measured."""
    whole: dict[str, float] = {}
    per_gpu: dict[str, dict[str, float]] = defaultdict(dict)
    for sample in gauges:
        if "model" in sample.labels:
            continue
        if sample.name.startswith("nv_gpu_"):
            per_gpu[sample.labels.get("gpu_uuid", "")][sample.name] = sample.value
        else:
            whole[sample.name] = sample.value
    measured = whole.get("nv_cpu_memory_total_bytes", 0.0) > 0
    return Machine(
        whole.get("nv_cpu_utilization") if measured else None,
        whole.get("nv_cpu_memory_used_bytes") if measured else None,
        whole.get("nv_cpu_memory_total_bytes") if measured else None,
        [_gpu(uuid, values) for uuid, values in sorted(per_gpu.items())],
    )


def _gpu(uuid: str, values: Mapping[str, float]) -> Gpu:
    return Gpu(
        uuid,
        values.get("nv_gpu_utilization"),
        values.get("nv_gpu_memory_used_bytes"),
        values.get("nv_gpu_memory_total_bytes"),
        values.get("nv_gpu_power_usage"),
    )


@dataclass(frozen=True)
class Totals:
    """Sums over the models; a request to an ensemble counts at the ensemble and at each step."""

    requests_per_s: float
    images_per_s: float
    failures_per_s: float


@dataclass(frozen=True)
class Interval:
    """Models and stages by name, and the machine at the end of the interval.

    Attributes:
        restarted: Whether counters decreased because the server or a model was restarted.
    """

    seconds: float
    models: list[ModelRates]
    stages: list[StageRates]
    machine: Machine
    restarted: bool

    @property
    def totals(self) -> Totals:
        """Sums over the models."""
        return Totals(
            sum(each.requests_per_s or 0.0 for each in self.models),
            sum(each.images_per_s or 0.0 for each in self.models),
            sum(each.failures_per_s or 0.0 for each in self.models),
        )

    def to_json(self) -> dict[str, Any]:
        """Return what `endcap top --json` prints; None for what is not known."""
        return {
            "seconds": self.seconds,
            "restarted": self.restarted,
            "models": [dataclasses.asdict(each) for each in self.models],
            "stages": [dataclasses.asdict(each) for each in self.stages],
            "totals": dataclasses.asdict(self.totals),
            "machine": dataclasses.asdict(self.machine),
        }


def compare(before: Scrape, now: Scrape, *, only: Collection[str] = ()) -> Interval:
    """Return the rates between two scrapes, of the models named in `only`, else of all."""
    seconds = now.at_s - before.at_s
    earlier, later = counts_by_model(before.counters), counts_by_model(now.counters)
    gauges = counts_by_model(now.gauges)
    models: list[ModelRates] = []
    stages: list[StageRates] = []
    for owner, counts in sorted(later.items()):
        if only and owner.model not in only:
            continue
        increased = increase(earlier.get(owner, {}), counts, seconds)
        if _has(counts, _TRITON):
            models.append(model_rates(owner, increased, gauges.get(owner, {}).get(_PENDING)))
        stages += (
            stage_rates(backend, owner, increased)
            for backend in BACKENDS
            if _has(counts, f"{backend}_")
        )
    restarted = any(row.restarted for row in models) or any(row.restarted for row in stages)
    return Interval(seconds, models, stages, machine(now.gauges), restarted)


def model_names(scrape: Scrape) -> frozenset[str]:
    """Return the names of all models that have counters."""
    return frozenset(owner.model for owner in counts_by_model(scrape.counters))


def _has(counts: Mapping[Counter, float], prefix: str) -> bool:
    return any(counter.name.startswith(prefix) for counter in counts)
