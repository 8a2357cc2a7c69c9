"""`endcap.Tracker` gives the ids of ultralytics' ByteTrack."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from track_scenes import Frame, make_scene

import endcap

pytest.importorskip("lap", reason="lap is not installed; `make test-peers` has it")
byte_tracker = pytest.importorskip(
    "ultralytics.trackers.byte_tracker",
    reason="ultralytics is not installed; `make test-peers` has it",
)
results = pytest.importorskip("ultralytics.engine.results")

# ultralytics/cfg/trackers/bytetrack.yaml of the version that is tested.
DEFAULTS = {
    "track_high_thresh": 0.25,
    "track_low_thresh": 0.1,
    "new_track_thresh": 0.25,
    "track_buffer": 30,
    "match_thresh": 0.8,
    "fuse_score": True,
}


def test_the_defaults_are_those_of_ultralytics() -> None:
    utils = pytest.importorskip("ultralytics.utils")
    settings = utils.YAML.load(utils.ROOT / "cfg" / "trackers" / "bytetrack.yaml")
    assert settings == {"tracker_type": "bytetrack", **DEFAULTS}


def track(scene: list[Frame], **options: Any) -> list[list[int]]:
    tracker = endcap.Tracker(**options)
    ids = []
    for frame in scene:
        indices = np.arange(len(frame.scores), dtype=np.int32)
        tracked = tracker(
            endcap.ImageDetections(frame.boxes, frame.scores, frame.class_ids, indices)
        )
        assert tracked.track_ids is not None
        ids.append(tracked.track_ids.tolist())
    return ids


def track_by_ultralytics(scene: list[Frame], **settings: Any) -> list[list[int]]:
    tracker = byte_tracker.BYTETracker(SimpleNamespace(**{**DEFAULTS, **settings}))
    ids = []
    for frame in scene:
        columns = [frame.boxes, frame.scores[:, None], frame.class_ids[:, None]]
        boxes = results.Boxes(np.hstack(columns).astype(np.float32), (720, 1280))
        given = [-1] * len(frame.scores)
        for row in tracker.update(boxes):
            given[int(row[7])] = int(row[4])
        ids.append(given)
    return ids


@pytest.mark.parametrize("seed", range(50))
def test_ids_are_those_of_ultralytics(seed: int) -> None:
    scene = make_scene(seed)
    assert track(scene) == track_by_ultralytics(scene)


@pytest.mark.parametrize("seed", range(10))
def test_ids_with_other_thresholds(seed: int) -> None:
    scene = make_scene(seed, frames=120, objects=20)
    ours = track(
        scene,
        high_score_threshold=0.5,
        low_score_threshold=0.2,
        new_track_threshold=0.6,
        track_buffer=8,
        match_threshold=0.9,
        fuse_score=False,
    )
    assert ours == track_by_ultralytics(
        scene,
        track_high_thresh=0.5,
        track_low_thresh=0.2,
        new_track_thresh=0.6,
        track_buffer=8,
        match_thresh=0.9,
        fuse_score=False,
    )
