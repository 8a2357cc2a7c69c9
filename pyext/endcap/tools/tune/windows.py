"""Windows: what is measured, and what that gives."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from endcap.tools.load.arrivals import NOT_SENT
from endcap.tools.tune.disturbance import DISTURBING_FROM
from endcap.tools.tune.settings import Change, Configuration

_TAIL = 0.05


@dataclass(frozen=True)
class Window:
    """What is measured: a configuration under a schedule of arrivals.

    Attributes:
        rate: Images per second.
        seconds: Duration.
        seed: Of arrivals and images; windows of one seed have the same ones.
        round: Distinguishes measurements that are repeated.
    """

    configuration: Configuration
    rate: float
    seconds: float
    seed: int
    round: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the window as state files have it."""
        return {
            "changes": [list(change) for change in self.configuration],
            "rate": self.rate,
            "seconds": self.seconds,
            "seed": self.seed,
            "round": self.round,
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Window:
        """Return the window of such an object."""
        changes = tuple(Change(*map(str, each)) for each in row["changes"])
        return cls(
            changes, float(row["rate"]), float(row["seconds"]), int(row["seed"]), int(row["round"])
        )


@dataclass(frozen=True)
class Measured:
    """What a window gave.

    Attributes:
        latencies_ms: Of the successful requests that were scheduled in it, sorted.
        failures: Images that failed, by status.
        refused: Requests that the server refused, or did not answer in time: overload, too.
        lasted_s: Its seconds, less than wanted where it ended early.
        saturation: Images per second of the warm-up's closed loop.
        client_cpu: Cores that the client used.
        others_cpu: Cores that other programs used, of those that the server may use.
        problem: Why it counts for nothing: the server did not load the models, or requests failed
            otherwise.
        ended_early: Whether so many requests were so late that the rest could not change it.
    """

    latencies_ms: tuple[float, ...] = ()
    failures: Mapping[str, int] = field(default_factory=dict)
    refused: int = 0
    lasted_s: float = 0.0
    saturation: float = 0.0
    client_cpu: float = 0.0
    others_cpu: float = 0.0
    problem: str | None = None
    ended_early: bool = False

    @property
    def p99_ms(self) -> float:
        """The 99th percentile; infinite where the window was lost, or has no request."""
        return self.percentile(99)

    @property
    def is_disturbed(self) -> bool:
        """Whether other programs took so much CPU that the figures are not the server's alone."""
        return self.others_cpu > DISTURBING_FROM

    @property
    def is_lost(self) -> bool:
        """Whether the server could not keep up with the arrivals."""
        return self.ended_early or bool(self.failures.get(NOT_SENT)) or not self.latencies_ms

    def percentile(self, percent: float) -> float:
        """Return a percentile in milliseconds, as for `p99_ms`; refused requests take for ever."""
        return math.inf if self.is_lost else percentile(self.latencies_ms, self.refused, percent)

    @property
    def tail_ms(self) -> float:
        """The mean of the slowest twentieth: less a matter of chance than the 99th percentile.

        A refused request counts as twice the slowest one. Of a window that was lost it is a lower
        bound.
        """
        if not self.latencies_ms:
            return math.inf
        times = (*self.latencies_ms, *(2 * self.latencies_ms[-1],) * self.refused)
        slowest = max(1, round(_TAIL * len(times)))
        return float(np.mean(times[-slowest:]))

    def to_json(self) -> dict[str, Any]:
        """Return the figures as state files have them."""
        return {
            "latencies_ms": list(self.latencies_ms),
            "failures": dict(self.failures),
            "refused": self.refused,
            "lasted_s": self.lasted_s,
            "saturation": self.saturation,
            "client_cpu": self.client_cpu,
            "others_cpu": self.others_cpu,
            "problem": self.problem,
            "ended_early": self.ended_early,
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Measured:
        """Return the figures of such an object."""
        return cls(**{**row, "latencies_ms": tuple(row["latencies_ms"])})


def percentile(latencies_ms: Sequence[float], refused: int, percent: float) -> float:
    """Return a percentile of sorted latencies; of requests that were refused it is infinite."""
    if not latencies_ms:
        return math.inf
    if not refused:
        return float(np.percentile(latencies_ms, percent))
    place = percent / 100 * (len(latencies_ms) + refused - 1)
    if math.ceil(place) >= len(latencies_ms):
        return math.inf
    return float(np.interp(place, range(len(latencies_ms)), latencies_ms))
