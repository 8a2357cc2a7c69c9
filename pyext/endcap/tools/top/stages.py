"""What endcap's backends did in a second, from their own counters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from endcap.tools.top.counters import Growth, ModelVersion

BACKENDS = ("endcap_preprocess", "endcap_postprocess", "endcap_bls")
_MS_PER_S = 1e3


@dataclass(frozen=True)
class StageRates:
    """One model of a backend of endcap's during an interval.

    None stands for what the backend does not count, or what is not known.

    Attributes:
        images_per_s: Processed without an error.
        failures_per_s: Images, or whole requests, and by failure class in `failures`.
        decode_ms: In the JPEG decoder, for each image without an error.
        spills_per_s: Outputs that were promised GPU memory and got another.
        truncated_per_s: Images whose candidates `max_candidates` cut.
        detections_per_image: Found in an image.
        crops_per_s: Detections that were cut out and classified.
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


def stage_rates(backend: str, owner: ModelVersion, grown: Growth) -> StageRates:
    """Return what became of a stage's images."""
    images = grown.total(f"{backend}_images")
    decode_s = grown.mean(f"{backend}_decode_seconds", images)
    return StageRates(
        backend,
        owner.model,
        owner.version,
        images_per_s=grown.per_second(f"{backend}_images"),
        failures_per_s=grown.per_second(f"{backend}_failed"),
        failures=grown.by_reason(f"{backend}_failed"),
        decode_ms=decode_s * _MS_PER_S if decode_s is not None else None,
        spills_per_s=grown.per_second(f"{backend}_spills"),
        truncated_per_s=grown.per_second(f"{backend}_truncated"),
        detections_per_image=grown.mean(f"{backend}_detections", images),
        crops_per_s=grown.per_second(f"{backend}_crops"),
        inner_calls_per_s=grown.per_second(f"{backend}_inner_calls"),
        restarted=grown.restarted,
    )
