"""The presets of `endcap.Tracker` beside `bytetrack`, against their definitions."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import endcap
from tests.reference.oc_sort import OcSort
from tests.reference.side_byte_track import SideByteTrack
from tests.support.track_scenes import Frame, make_scene, track

DEFINITIONS: dict[Any, Any] = {"bytetrack_trackers": SideByteTrack, "ocsort": OcSort}
SEEDS = range(25)


def define(scene: list[Frame], definition: Any) -> list[list[int]]:
    return [definition.update(each.boxes, each.scores, each.class_ids) for each in scene]


@pytest.mark.parametrize("preset", DEFINITIONS)
@pytest.mark.parametrize("seed", SEEDS)
def test_ids_are_those_of_the_definition(preset: Any, seed: int) -> None:
    scene = make_scene(seed)
    ids = track(scene, endcap.Tracker(preset))
    assert ids == define(scene, DEFINITIONS[preset]())
    assert max(itertools.chain.from_iterable(ids)) >= 8


@pytest.mark.parametrize("preset", DEFINITIONS)
def test_crowds_are_assigned_as_a_whole(preset: Any) -> None:
    """Many objects, fewer and more of them than tracks."""
    for seed in range(3):
        scene = make_scene(seed, frames=40, objects=60)
        assert track(scene, endcap.Tracker(preset)) == define(scene, DEFINITIONS[preset]())


COMMON: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"class_agnostic": False}, {"class_agnostic": False}),
    ({"high_score_threshold": 0.4}, {"high": 0.4}),
    ({"match_threshold": 0.5, "second_match_threshold": 0.6}, {"ious": (0.5, 0.4)}),
    ({"new_track_threshold": 0.8}, {"new": 0.8}),
    ({"confirm_frames": 5}, {"confirm_frames": 5}),
    ({"track_buffer": 3}, {"max_lost_frames": 3}),
    ({"frame_rate": 101, "track_buffer": 1}, {"max_lost_frames": 4}),
    ({"track_buffer": 0}, {"max_lost_frames": 0}),
]
OWN: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {
    "bytetrack_trackers": [({"low_score_threshold": 0.4}, {"low": 0.4})],
    "ocsort": [
        ({"direction_weight": 1.0}, {"direction_weight": 1.0}),
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("preset", "options", "expected"),
    [(preset, *each) for preset in DEFINITIONS for each in (*COMMON, *OWN[preset])],
)
def test_parameters_mean_what_they_say(
    preset: Any, options: dict[str, Any], expected: dict[str, Any]
) -> None:
    changed = 0
    for seed in range(4):
        scene = make_scene(seed, objects=16)
        ids = track(scene, endcap.Tracker(preset, **options))
        assert ids == define(scene, DEFINITIONS[preset](**expected))
        changed += ids != track(scene, endcap.Tracker(preset))
    assert changed > 0


@pytest.mark.slow
def test_directions_are_taken_over_frames() -> None:
    ids = {}
    for frames in (1, 3, 9):
        options: dict[str, Any] = {"direction_weight": 1.0, "direction_frames": frames}
        scenes = [make_scene(seed, objects=30) for seed in range(3)]
        ids[frames] = [track(scene, endcap.Tracker("ocsort", **options)) for scene in scenes]
        assert ids[frames] == [define(scene, OcSort(**options)) for scene in scenes]
    assert ids[1] != ids[3] != ids[9] != ids[1]


@pytest.mark.parametrize("preset", DEFINITIONS)
def test_the_state_goes_on_in_another_tracker(preset: Any) -> None:
    scene = make_scene(3)
    whole = track(scene, endcap.Tracker(preset))
    for cut in (1, 20, 37, 60):
        first, second = endcap.Tracker(preset), endcap.Tracker(preset)
        track(scene[:cut], first)
        second.restore(first.save())
        assert second.save() == first.save()
        assert track(scene[cut:], second) == whole[cut:]


@pytest.mark.parametrize("preset", DEFINITIONS)
def test_states_that_are_cut_or_changed(preset: Any) -> None:
    """Either refused, or a tracker that goes on without a failure."""
    tracker = endcap.Tracker(preset)
    scene = make_scene(5)
    track(scene[:30], tracker)
    state = tracker.save()
    for length in range(0, len(state), 8):
        with pytest.raises(endcap.InvalidArgumentError, match="the state of a tracker"):
            endcap.Tracker(preset).restore(state[:length])
    random = np.random.default_rng(1)
    accepted = 0
    for _ in range(300):
        changed = bytearray(state)
        changed[random.integers(len(state))] ^= 1 << int(random.integers(8))
        other = endcap.Tracker(preset)
        try:
            other.restore(bytes(changed))
        except endcap.InvalidArgumentError:
            continue
        accepted += 1
        track(scene[30:40], other)
    assert 0 < accepted < 300
