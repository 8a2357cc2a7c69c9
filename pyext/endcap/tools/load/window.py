"""What became of the requests that ended within a window of time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from endcap.client import ImageResult

PERCENTILES = "linear interpolation between the closest ranks"


class Finished(NamedTuple):
    """A request that was answered, well or not.

    Attributes:
        end_s: Of `time.perf_counter`.
        latency_ms: From the image's bytes to its detections, as the client measures it; None where
            all of it failed.
        images: That were answered well.
        failures: Of its images, status by status.
    """

    end_s: float
    latency_ms: float | None
    images: int
    failures: Mapping[str, int]


def finished(end_s: float, results: Sequence[ImageResult]) -> Finished:
    """Return what became of a request, of the results of its images."""
    good = [result for result in results if result.ok]
    times = [result.latency_ms for result in good if result.latency_ms is not None]
    failures = Counter(result.status for result in results if not result.ok)
    return Finished(end_s, max(times, default=None), len(good), failures)


@dataclass(frozen=True)
class Figures:
    """What a window shows.

    Attributes:
        requests: In which at least one image was answered well; images: those images.
        latency_ms: Mean, p50, p90, p99, min, max of these requests; empty where there is none.
        failures: Images that failed, by status.
    """

    seconds: float
    requests: int
    images: int
    latency_ms: Mapping[str, float] = field(default_factory=dict)
    failures: Mapping[str, int] = field(default_factory=dict)

    @property
    def images_per_s(self) -> float:
        """The throughput."""
        return self.images / self.seconds


def figures(requests: Iterable[Finished], begin_s: float, end_s: float) -> Figures:
    """Return what the requests show that ended from `begin_s` to before `end_s`."""
    counted = [each for each in requests if begin_s <= each.end_s < end_s]
    times = [each.latency_ms for each in counted if each.latency_ms is not None]
    failures: Counter[str] = Counter()
    for each in counted:
        failures.update(each.failures)
    images = sum(each.images for each in counted)
    return Figures(end_s - begin_s, len(times), images, _summary(times), dict(failures))


def _summary(times: Sequence[float]) -> dict[str, float]:
    if not times:
        return {}
    p50, p90, p99 = (float(each) for each in np.percentile(times, (50, 90, 99)))
    return {
        "mean": float(np.mean(times)),
        "p50": p50,
        "p90": p90,
        "p99": p99,
        "min": min(times),
        "max": max(times),
    }
