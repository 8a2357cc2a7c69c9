"""HOTA, MOTA and IDF1 of endcap's trackers beside those of the packages that they follow."""

from __future__ import annotations

from functools import cache

import pytest
import tolerances
from track_quality import TRACKERS, MeasuredTracker, Quality, measure

for needed in ("lap", "trackeval", "trackers", "ultralytics"):
    pytest.importorskip(needed, reason=f"{needed} is not installed; `make test-peers` has it")


@pytest.fixture(params=["bytetrack", "bytetrack_trackers", "ocsort"])
def preset(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@cache
def figures_of(tracker: MeasuredTracker) -> dict[str, Quality]:
    return measure(tracker)


def both(preset: str) -> tuple[dict[str, Quality], dict[str, Quality]]:
    ours, theirs = (figures_of(each) for each in TRACKERS if each.preset == preset)
    return ours, theirs


def test_the_quality_is_that_of_the_peer(preset: str) -> None:
    ours, theirs = both(preset)
    for name in ("hota", "mota", "idf1"):
        expected = getattr(theirs["detected"], name)
        assert expected > 75
        assert getattr(ours["detected"], name) == pytest.approx(
            expected, abs=tolerances.TRACK_QUALITY_POINTS
        )


def test_the_quality_is_no_less_than_that_of_filtered_boxes() -> None:
    ours, theirs = both("bytetrack")
    for name in ("hota", "mota", "idf1"):
        least = getattr(theirs["filtered"], name) - tolerances.TRACK_QUALITY_POINTS
        assert getattr(ours["detected"], name) >= least
