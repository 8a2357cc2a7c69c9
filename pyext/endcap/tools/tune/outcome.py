"""Goal of a search, its steps, and its result."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from endcap.tools.tune.settings import AS_IT_IS, Configuration
from endcap.tools.tune.windows import Measured, Window


@dataclass(frozen=True)
class Goal:
    """What is wanted.

    Attributes:
        limit_ms: Of the 99th percentile.
        rate: Images per second; None: as many as the limit allows.
        budget_s: Seconds for everything.
        seed: Of the traffic; another gives other arrivals.
    """

    limit_ms: float
    rate: float | None
    budget_s: float
    seed: int = 0


@dataclass(frozen=True)
class Trial:
    """A configuration that was measured while the search went on.

    Attributes:
        knob: What was turned.
        verdict: What came of it.
        ratio: Its tail divided by that of the reference; None where it has none.
    """

    knob: str
    configuration: Configuration
    rate: float
    measured: Measured
    verdict: str
    ratio: float | None = None


@dataclass(frozen=True)
class Point:
    """A configuration at one rate, from all windows of the comparison at the end.

    Attributes:
        rate: Images per second of the schedule.
        p99_each: Of each window, in milliseconds.
        limit_rate: The highest rate within the limit, interpolated; None where there is none, or
            it was not looked for.
    """

    configuration: Configuration
    rate: float
    requests: int
    images_per_s: float
    p50_ms: float
    p99_ms: float
    p99_each: tuple[float, ...]
    limit_rate: float | None

    def meets(self, limit_ms: float) -> bool:
        """Whether the 99th percentile is within a limit."""
        return self.p99_ms <= limit_ms


@dataclass
class Outcome:
    """The result of a search.

    Attributes:
        shipped: The repository as it is, at the rate of `chosen`.
        chosen: What is recommended: `shipped` itself, or a configuration that is better.
        fresh: The same as `chosen`, measured again after the choice, on arrivals of its own; None
            where there was no time.
        tried: The best one that was compared with the repository; None where nothing was better.
        ratios: Its tails divided by those of the repository, pair by pair.
        untried: Knobs for which there was no time.
        windows: All that was measured, for the chart.
    """

    shipped: Point
    chosen: Point
    fresh: Point | None
    tried: Configuration | None = None
    ratios: tuple[float, ...] = ()
    trials: list[Trial] = field(default_factory=list)
    untried: list[str] = field(default_factory=list)
    windows: list[tuple[Window, Measured]] = field(default_factory=list)
    spent_s: float = 0.0

    @property
    def deviation(self) -> float | None:
        """The 99th percentile that was measured again over that which is predicted, less 1.

        None where one of them is not known.
        """
        if self.fresh is None or not math.isfinite(self.chosen.p99_ms):
            return None
        return self.fresh.p99_ms / self.chosen.p99_ms - 1

    @property
    def is_changed(self) -> bool:
        """Whether another configuration than the repository's is recommended."""
        return self.chosen.configuration != AS_IT_IS
