"""Counters of models, and what was added to them between two looks."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from endcap.tools.top.scrape import Sample


class ModelVersion(NamedTuple):
    """A model as the labels of its metrics name it."""

    model: str
    version: str


class Counter(NamedTuple):
    """A counter of a model; reason: of failures, else empty."""

    name: str
    reason: str = ""


Counts = Mapping[Counter, float]


@dataclass(frozen=True)
class Growth:
    """What was added to a model's counters within `seconds`.

    Attributes:
        restarted: Whether one of them fell, as when the server or the model was started anew. How
            much was added is not known then, and `added` is empty.
    """

    seconds: float
    added: Counts = field(default_factory=dict)
    restarted: bool = False

    def per_second(self, name: str) -> float | None:
        """The rate of a counter, None for one that is not there."""
        found = self.total(name)
        return found / self.seconds if found is not None else None

    def total(self, name: str) -> float | None:
        """What was added to a counter for whatever reason, None for one that is not there."""
        found = [count for counter, count in self.added.items() if counter.name == name]
        return sum(found) if found else None

    def by_reason(self, name: str) -> dict[str, float]:
        """What was added for each reason, per second; reasons without any are left out."""
        return {
            counter.reason: count / self.seconds
            for counter, count in sorted(self.added.items())
            if counter.name == name and count > 0
        }

    def mean(self, name: str, per: float | None) -> float | None:
        """What was added to a counter for each of `per` events; None where there was none."""
        found = self.total(name)
        mean = found / per if found is not None and per else math.nan
        return mean if math.isfinite(mean) else None


def counts_by_model(samples: Iterable[Sample]) -> dict[ModelVersion, dict[Counter, float]]:
    """Return the counters, or gauges, that have a model. Those of a model's GPUs are added up."""
    counts: dict[ModelVersion, dict[Counter, float]] = defaultdict(lambda: defaultdict(float))
    for sample in samples:
        if "model" in sample.labels:
            owner = ModelVersion(sample.labels["model"], sample.labels.get("version", ""))
            counts[owner][Counter(sample.name, sample.labels.get("reason", ""))] += sample.value
    return {owner: dict(found) for owner, found in counts.items()}


def growth(before: Counts, now: Counts, seconds: float) -> Growth:
    """Return what was added; a counter that was not there before began at 0."""
    if any(now.get(counter, 0.0) < count for counter, count in before.items()):
        return Growth(seconds, restarted=True)
    return Growth(seconds, {each: count - before.get(each, 0.0) for each, count in now.items()})
