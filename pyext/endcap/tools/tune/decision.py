"""What measurements decide: whether one configuration is better, and the rate at the limit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

# A window should be so many times as long as the limit: a queue that grows without end needs time
# to be seen.
LIMITS = 10
# A ratio of the tails of two configurations from which on a difference is worth a change.
_RELEVANT = 0.97
# Student's t: 95 % of the differences are below it, by degrees of freedom.
_T = {1: 6.314, 2: 2.920, 3: 2.353, 4: 2.132, 5: 2.015, 6: 1.943, 7: 1.895}


def is_better(ratios: Sequence[float]) -> bool:
    """Return whether the mean of the ratios is below 1 by more than chance and by a margin."""
    if len(ratios) < 2 or not all(map(math.isfinite, ratios)):
        return False
    logs = [math.log(ratio) for ratio in ratios]
    error = stdev(logs) / math.sqrt(len(logs))
    quantile = _T.get(len(logs) - 1, _T[max(_T)])
    return fmean(logs) + quantile * error < math.log(_RELEVANT)


def mean_ratio(ratios: Sequence[float]) -> float:
    """Return the geometric mean, infinite where one of the ratios is."""
    return math.exp(fmean(map(math.log, ratios))) if all(map(math.isfinite, ratios)) else math.inf


def crossing(
    below: tuple[float, float] | None, above: tuple[float, float] | None, limit_ms: float
) -> float:
    """Return the rate at which the latency crosses the limit, by rates and latencies around it."""
    if below is None:
        raise ValueError("no rate is below the limit")
    if above is None:
        return below[0]
    if not math.isfinite(above[1]):
        return math.sqrt(below[0] * above[0])
    share = math.log(limit_ms / below[1]) / math.log(above[1] / below[1])
    return below[0] * math.exp(share * math.log(above[0] / below[0]))


def rounded_rate(rate: float) -> float:
    """Return a rate with three digits."""
    return float(f"{rate:.3g}")
