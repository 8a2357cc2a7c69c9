"""What a model does in a second, from Triton's own counters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from endcap.tools.top.counters import Growth, ModelVersion

_SUCCESS = "nv_inference_request_success"
_FAILURE = "nv_inference_request_failure"
_IMAGES = "nv_inference_count"
_EXECUTIONS = "nv_inference_exec_count"
_CACHE_HITS = "nv_cache_num_hits_per_model"
_US_PER_MS = 1e3


@dataclass(frozen=True)
class ModelRates:
    """One version of a model during an interval; None stands for what is not known.

    Attributes:
        requests_per_s: Answered well.
        images_per_s: What was in their batches.
        failures_per_s: Requests that failed, and by Triton's reason in `failures`.
        batch_size: Of an execution, on average.
        total_ms, queue_ms, compute_input_ms, compute_infer_ms, compute_output_ms: Of a request that
            was answered well, on average. An ensemble's compute times are the sums of its steps';
            its queue time is its own alone.
        pending: Requests that wait now.
        restarted: Whether the counters fell, so that there are no rates.
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


def model_rates(owner: ModelVersion, grown: Growth, pending: float | None) -> ModelRates:
    """Return what became of a model's requests."""
    answered = grown.total(_SUCCESS)
    computed = (answered or 0.0) - (grown.total(_CACHE_HITS) or 0.0)

    def mean_ms(phase: str, per: float | None) -> float | None:
        microseconds = grown.mean(f"nv_inference_{phase}_duration_us", per)
        return microseconds / _US_PER_MS if microseconds is not None else None

    return ModelRates(
        owner.model,
        owner.version,
        requests_per_s=grown.per_second(_SUCCESS),
        images_per_s=grown.per_second(_IMAGES),
        failures_per_s=grown.per_second(_FAILURE),
        failures=grown.by_reason(_FAILURE),
        batch_size=grown.mean(_IMAGES, grown.total(_EXECUTIONS)),
        total_ms=mean_ms("request", answered),
        queue_ms=mean_ms("queue", answered),
        compute_input_ms=mean_ms("compute_input", computed),
        compute_infer_ms=mean_ms("compute_infer", computed),
        compute_output_ms=mean_ms("compute_output", computed),
        pending=None if pending is None else int(pending),
        restarted=grown.restarted,
    )
