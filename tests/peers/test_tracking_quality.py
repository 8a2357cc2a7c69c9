"""HOTA, MOTA and IDF1 of endcap's trackers beside those of the packages that they follow."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tolerances
from track_peers import (
    TrackedFrame,
    track_by_endcap,
    track_by_trackers,
    track_by_ultralytics,
)
from track_scenes import Frame, Truth, make_scene, make_truth

SEQUENCES = range(50)  # seeds


@dataclass(frozen=True)
class MeasuredTracker:
    """A tracker, and the preset that it is compared with."""

    name: str
    preset: str
    track: Callable[[list[Frame]], list[TrackedFrame]]
    boxes: str = "detected"  # or "filtered": what it returns


def _endcap(preset: str) -> MeasuredTracker:
    return MeasuredTracker(f"endcap `{preset}`", preset, partial(track_by_endcap, preset=preset))


def _trackers(name: str, preset: str) -> MeasuredTracker:
    return MeasuredTracker(f"trackers {name}", preset, partial(track_by_trackers, name=name))


TRACKERS = (
    _endcap("bytetrack"),
    MeasuredTracker("ultralytics BYTETracker", "bytetrack", track_by_ultralytics, "filtered"),
    _endcap("bytetrack_trackers"),
    _trackers("ByteTrackTracker", "bytetrack_trackers"),
    _endcap("ocsort"),
    _trackers("OCSORTTracker", "ocsort"),
)


@dataclass(frozen=True)
class Quality:
    """Percentages over all sequences."""

    hota: float
    mota: float
    idf1: float


def measure(tracker: MeasuredTracker) -> dict[str, Quality]:
    """Return the figures for "detected" boxes, and for "filtered" ones if it returns those."""
    scenes = [make_scene(seed) for seed in SEQUENCES]
    truths = [make_truth(seed) for seed in SEQUENCES]
    tracked = [tracker.track(scene) for scene in scenes]
    figures = {}
    if tracker.boxes == "filtered":
        figures["filtered"] = evaluate(zip(truths, tracked, strict=True))
        tracked = [
            [
                TrackedFrame(frame.ids, given.boxes.astype(np.float64))
                for frame, given in zip(frames, scene, strict=True)
            ]
            for frames, scene in zip(tracked, scenes, strict=True)
        ]
    figures["detected"] = evaluate(zip(truths, tracked, strict=True))
    return figures


def evaluate(sequences: Iterable[tuple[list[Truth], list[TrackedFrame]]]) -> Quality:
    """Return the figures of a tracker over all sequences together."""
    from trackeval.metrics import CLEAR, HOTA, Identity

    quiet = {"PRINT_CONFIG": False}
    metrics = {"hota": HOTA(), "clear": CLEAR(quiet), "identity": Identity(quiet)}
    results: dict[str, dict[str, Any]] = {name: {} for name in metrics}
    for number, (truth, tracked) in enumerate(sequences):
        data = _to_data(truth, tracked)
        for name, metric in metrics.items():
            results[name][str(number)] = metric.eval_sequence(data)
    hota, clear, identity = (
        metric.combine_sequences(results[name]) for name, metric in metrics.items()
    )
    return Quality(
        hota=100 * float(np.mean(hota["HOTA"])),
        mota=100 * float(clear["MOTA"]),
        idf1=100 * float(identity["IDF1"]),
    )


def _to_data(truth: list[Truth], tracked: list[TrackedFrame]) -> dict[str, Any]:
    """Return a sequence as TrackEval's metrics take it, with ids that count from 0."""
    objects = sorted({int(each) for frame in truth for each in frame.objects})
    tracks = sorted({each for frame in tracked for each in frame.ids if each >= 0})
    gt_ids, tracker_ids, similarities = [], [], []
    for seen, frame in zip(truth, tracked, strict=True):
        kept = np.array(frame.ids, np.int64) >= 0
        gt_ids.append(np.searchsorted(objects, seen.objects))
        tracker_ids.append(np.searchsorted(tracks, np.array(frame.ids, np.int64)[kept]))
        similarities.append(_iou(seen.boxes, frame.boxes[kept]))
    return {
        "gt_ids": gt_ids,
        "tracker_ids": tracker_ids,
        "similarity_scores": similarities,
        "num_gt_ids": len(objects),
        "num_tracker_ids": len(tracks),
        "num_gt_dets": sum(map(len, gt_ids)),
        "num_tracker_dets": sum(map(len, tracker_ids)),
        "num_timesteps": len(truth),
    }


def _iou(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the IoU of each box of `a` with each of `b`."""
    least = np.maximum(a[:, None, :2], b[None, :, :2])
    most = np.minimum(a[:, None, 2:], b[None, :, 2:])
    common = (most - least).clip(0).prod(axis=2)
    areas = [(each[:, 2:] - each[:, :2]).prod(axis=1) for each in (a, b)]
    union = areas[0][:, None] + areas[1][None, :] - common
    return common / union


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
