"""`endcap.Tracker` gives the ids of ultralytics' ByteTrack."""

from __future__ import annotations

import pytest

import endcap
from tests.support.track_peers import ULTRALYTICS, track_by_ultralytics
from tests.support.track_scenes import make_scene, track

pytest.importorskip("lap", reason="lap is not installed; `make test-peers` has it")
utils = pytest.importorskip(
    "ultralytics.utils", reason="ultralytics is not installed; `make test-peers` has it"
)


def test_the_defaults_are_those_of_ultralytics() -> None:
    settings = utils.YAML.load(utils.ROOT / "cfg" / "trackers" / "bytetrack.yaml")
    assert settings == {"tracker_type": "bytetrack", **ULTRALYTICS}


@pytest.mark.parametrize("seed", range(50))
def test_ids_are_those_of_ultralytics(seed: int) -> None:
    scene = make_scene(seed)
    assert track(scene, endcap.Tracker()) == track_by_ultralytics(scene)


@pytest.mark.parametrize("seed", range(10))
def test_ids_with_other_thresholds(seed: int) -> None:
    scene = make_scene(seed, frames=120, objects=20)
    tracker = endcap.Tracker(
        high_score_threshold=0.5,
        low_score_threshold=0.2,
        new_track_threshold=0.6,
        track_buffer=8,
        match_threshold=0.9,
        fuse_score=False,
    )
    theirs = track_by_ultralytics(
        scene,
        track_high_thresh=0.5,
        track_low_thresh=0.2,
        new_track_thresh=0.6,
        track_buffer=8,
        match_thresh=0.9,
        fuse_score=False,
    )
    assert track(scene, tracker) == theirs
