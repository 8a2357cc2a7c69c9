"""`endcap.Tracker` gives the ids of the package `trackers`: its ByteTrack and its OC-SORT."""

from __future__ import annotations

import inspect
from importlib.metadata import version
from typing import Any

import numpy as np
import pytest

import endcap
from tests.support.track_peers import track_by_trackers
from tests.support.track_scenes import Frame, make_scene, track

trackers = pytest.importorskip(
    "trackers", reason="trackers is not installed; `make test-peers` has it"
)

# What the presets reproduce: the package's class, and the values that it has by default.
VERSION = "2.6.1"
BUFFER = {"lost_track_buffer": 30, "frame_rate": 30.0}
PRESETS: dict[str, tuple[str, dict[str, Any]]] = {
    "bytetrack_trackers": (
        "ByteTrackTracker",
        {
            **BUFFER,
            "track_activation_threshold": 0.7,
            "minimum_consecutive_frames": 2,
            "minimum_iou_threshold": 0.1,
            "high_conf_det_threshold": 0.6,
        },
    ),
    "ocsort": (
        "OCSORTTracker",
        {
            **BUFFER,
            "minimum_consecutive_frames": 3,
            "minimum_iou_threshold": 0.3,
            "direction_consistency_weight": 0.2,
            "high_conf_det_threshold": 0.6,
            "delta_t": 3,
        },
    ),
}


@pytest.fixture(params=PRESETS)
def preset(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def compare(scene: list[Frame], preset: str, **buffer: Any) -> int:
    """Return the number of ids, which are the same."""
    theirs = dict(buffer)
    if "track_buffer" in theirs:
        theirs["lost_track_buffer"] = theirs.pop("track_buffer")
    expected = track_by_trackers(scene, PRESETS[preset][0], **theirs)
    assert track(scene, endcap.Tracker(preset=preset, **buffer)) == expected
    return max(max(ids, default=0) for ids in expected)


def test_the_defaults_are_those_of_trackers() -> None:
    assert version("trackers") == VERSION
    for name, values in PRESETS.values():
        parameters = inspect.signature(getattr(trackers, name)).parameters
        for parameter, value in values.items():
            assert parameters[parameter].default == value, (name, parameter)
        others = set(parameters) - set(values)
        assert others == {"state_estimator_class", "iou"}


@pytest.mark.parametrize("seed", range(50))
def test_ids_are_those_of_trackers(seed: int, preset: str) -> None:
    assert compare(make_scene(seed), preset) > 0


@pytest.mark.parametrize(("frame_rate", "track_buffer"), [(10, 30), (25, 8), (60, 5), (30, 0)])
def test_ids_with_another_buffer(frame_rate: float, track_buffer: int, preset: str) -> None:
    """A buffer that is no whole number of frames is rounded up."""
    for seed in range(6):
        compare(
            make_scene(seed, frames=120, objects=20),
            preset,
            frame_rate=frame_rate,
            track_buffer=track_buffer,
        )


def make_frame(rows: list[tuple[float, float, float, float, float]]) -> Frame:
    """A frame of centre, size and score; all of class 0."""
    columns = np.array(rows, np.float32).reshape(-1, 5)
    half = columns[:, 2:4] / 2
    return Frame(
        boxes=np.hstack([columns[:, :2] - half, columns[:, :2] + half]),
        scores=columns[:, 4],
        class_ids=np.zeros(len(rows), np.int32),
        objects=np.zeros(len(rows), np.int64),
    )


def test_scores_at_the_thresholds(preset: str) -> None:
    scores = (0.6, float(np.nextafter(np.float32(0.6), np.float32(0))), 0.7)
    scores = (*scores, float(np.nextafter(np.float32(0.7), np.float32(1))))
    frames = [
        make_frame([(100 + 200 * i, 100 + 2 * t, 60, 90, score) for i, score in enumerate(scores)])
        for t in range(8)
    ]
    assert compare(frames, preset) > 0


@pytest.mark.parametrize("away", range(1, 34))
def test_an_object_that_comes_back(away: int, preset: str) -> None:
    """Until a track's end, where its motion says and where it was seen last."""
    for jump in (0.0, 6.0):
        gone = range(12, 12 + away)
        frames = [
            make_frame(
                []
                if t in gone
                else [(200 + (4 * t if t < 12 else 44 + jump * (t - 11)), 300, 90, 120, 0.9)]
            )
            for t in range(12 + away + 8)
        ]
        compare(frames, preset)
        compare([make_frame([(900, 100, 50, 50, 0.9)]), *frames], preset)
