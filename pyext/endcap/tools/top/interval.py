"""What a server did between two looks at its metrics."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from endcap.tools.top.counters import Counter, counts_by_model, growth
from endcap.tools.top.machine import Machine, machine
from endcap.tools.top.models import ModelRates, model_rates
from endcap.tools.top.scrape import Scrape
from endcap.tools.top.stages import BACKENDS, StageRates, stage_rates

_TRITON = "nv_"
_PENDING = Counter("nv_inference_pending_request_count")


@dataclass(frozen=True)
class Totals:
    """Sums over the models. Requests to an ensemble count at the ensemble and at its steps."""

    requests_per_s: float
    images_per_s: float
    failures_per_s: float


@dataclass(frozen=True)
class Interval:
    """Models and stages by name, and the machine at the end of the interval.

    Attributes:
        restarted: Whether counters fell: the server, or a model, was started anew.
    """

    seconds: float
    models: list[ModelRates]
    stages: list[StageRates]
    machine: Machine
    restarted: bool

    @property
    def totals(self) -> Totals:
        """The models' sums."""
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
    """Return what happened between two looks. only: the models of interest; none for all."""
    seconds = now.at_s - before.at_s
    earlier, later = counts_by_model(before.counters), counts_by_model(now.counters)
    gauges = counts_by_model(now.gauges)
    models: list[ModelRates] = []
    stages: list[StageRates] = []
    for owner, counts in sorted(later.items()):
        if only and owner.model not in only:
            continue
        grown = growth(earlier.get(owner, {}), counts, seconds)
        if _has(counts, _TRITON):
            models.append(model_rates(owner, grown, gauges.get(owner, {}).get(_PENDING)))
        stages += (
            stage_rates(backend, owner, grown)
            for backend in BACKENDS
            if _has(counts, f"{backend}_")
        )
    restarted = any(row.restarted for row in models) or any(row.restarted for row in stages)
    return Interval(seconds, models, stages, machine(now.gauges), restarted)


def model_names(look: Scrape) -> frozenset[str]:
    """Return the names of all models that have counters."""
    return frozenset(owner.model for owner in counts_by_model(look.counters))


def _has(counts: Mapping[Counter, float], prefix: str) -> bool:
    return any(counter.name.startswith(prefix) for counter in counts)
