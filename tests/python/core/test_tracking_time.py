"""`endcap.Tracker` with time stamps and with the camera's motion."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import endcap
from tests.python.core.test_tracking import DEFINITIONS, NOTHING, ONE, each_preset, id_list
from tests.reference.matching import Floats
from tests.reference.oc_sort import move_box
from tests.support.track_scenes import Frame, make_scene, to_detections, track


def follow(scene: list[Frame], tracker: endcap.Tracker, **each: Any) -> list[list[int]]:
    """Return the ids of the frames of a scene, which have a time stamp or a camera motion each."""
    return [
        id_list(tracker(to_detections(frame), **{name: rows[i] for name, rows in each.items()}))
        for i, frame in enumerate(scene)
    ]


def define(scene: list[Frame], definition: Any, **each: Any) -> list[list[int]]:
    """Return the same by the definition of a preset, whose frames have a step or a camera each."""
    ids = []
    for i, frame in enumerate(scene):
        for name, rows in each.items():
            setattr(definition, name, rows[i])
        ids.append(definition.update(frame.boxes, frame.scores, frame.class_ids))
    return ids


@each_preset
def test_constant_time_stamps_change_no_id(preset: Any) -> None:
    for seed in range(50):
        scene, rate = make_scene(seed), 29.97
        times = [1.7e9 + frame / rate for frame in range(len(scene))]  # since the epoch
        ids = follow(scene, endcap.Tracker(preset, frame_rate=rate), timestamp=times)
        assert ids == track(scene, endcap.Tracker(preset, frame_rate=rate))


@each_preset
def test_frames_between_time_stamps_are_skipped(preset: Any) -> None:
    """Every third frame is left out."""
    for seed in range(50):
        tracker, other = endcap.Tracker(preset), endcap.Tracker(preset)
        for number, frame in enumerate(make_scene(seed)):
            if number % 3 == 2:
                other.skip(1)
                continue
            ids = id_list(tracker(to_detections(frame), timestamp=number / 30))
            assert ids == id_list(other(to_detections(frame)))
        assert (tracker.frames, other.frames) == (54, 80)  # time stamps do not count frames


@each_preset
def test_steps_of_a_variable_rate_are_those_of_the_definition(preset: Any) -> None:
    """Up to 1.4 frames of the nominal rate; others are split."""
    changed = 0
    for seed in range(8):
        gaps = np.random.default_rng(seed).integers(1, 8, 40)
        numbers = np.cumsum(gaps) - gaps[0]
        scene = [frame for i, frame in enumerate(make_scene(seed, frames=250)) if i in numbers]
        expected = define(scene, DEFINITIONS[preset](max_lost_frames=6), step=[1, *gaps[1:] / 5])
        timed, other = (endcap.Tracker(preset, frame_rate=5, track_buffer=36) for _ in range(2))
        assert follow(scene, timed, timestamp=numbers / 25) == expected
        changed += track(scene, other) != expected
    assert changed > 4


@each_preset
@pytest.mark.parametrize("rate", [0.9, 5, 30, 300])
def test_lost_tracks_are_kept_for_a_time(preset: Any, rate: float) -> None:
    """All end in a pause that is longer."""
    tracker, frame = endcap.Tracker(preset), 0
    while frame < 5 or tracker.track_count > 0:
        tracker(ONE if frame < 5 else NOTHING, timestamp=frame / rate)
        frame += 1
    assert (frame - 5) / rate == pytest.approx(1, abs=0.21)


@each_preset
def test_a_frame_without_a_time_stamp_is_the_next_one(preset: Any) -> None:
    """And so is the one after it, and the first after skipped ones."""
    scene = make_scene(2)
    times: list[float | None] = [frame / 30 + 100 * (frame >= 20) for frame in range(len(scene))]
    times[19] = None
    tracker, other = endcap.Tracker(preset), endcap.Tracker(preset)
    assert follow(scene, tracker, timestamp=times) == track(scene, other)
    tracker.skip(1)
    tracker(ONE, timestamp=-5)  # it is not refused


@each_preset
def test_the_state_goes_on_at_the_same_time(preset: Any) -> None:
    scene = make_scene(3)
    times = np.arange(len(scene)) ** 1.1 / 50
    whole = follow(scene, endcap.Tracker(preset), timestamp=times)
    for cut in (1, 37, 60):
        first, second = endcap.Tracker(preset), endcap.Tracker(preset)
        follow(scene[:cut], first, timestamp=times)
        second.restore(first.save())
        assert second.save() == first.save()
        assert follow(scene[cut:], second, timestamp=times[cut:]) == whole[cut:]


def move_camera(seed: int, *, turns: bool) -> tuple[list[Frame], list[Frame], list[Floats]]:
    """Return a scene, how a camera sees it that moves before each frame, and its motions."""
    random, place = np.random.default_rng(seed), np.eye(3)
    scene, seen, motions = make_scene(seed), [], []
    for frame in scene:
        angle, scale = (
            (random.uniform(-0.04, 0.04), random.uniform(0.96, 1.04)) if turns else (0, 1)
        )
        sine, cosine = scale * np.sin(angle), scale * np.cos(angle)
        x, y = random.uniform(-80, 80, 2)
        motions.append(np.array([[cosine, -sine, x], [sine, cosine, y]]))
        place = np.vstack([motions[-1], [0, 0, 1]]) @ place
        boxes = [move_box(box.astype(np.float64), place[:2]) for box in frame.boxes]
        rows = np.array(boxes, np.float32).reshape(-1, 4)
        seen.append(Frame(rows, frame.scores, frame.class_ids, frame.objects))
    return scene, seen, motions


@each_preset
@pytest.mark.parametrize("turns", [False, True])
def test_a_moving_camera_is_followed_as_defined(preset: Any, turns: bool) -> None:
    for seed in range(12):
        still, scene, motions = move_camera(seed, turns=turns)
        expected = define(scene, DEFINITIONS[preset](), camera=motions)
        assert follow(scene, endcap.Tracker(preset), camera_motion=motions) == expected
        assert track(scene, endcap.Tracker(preset)) != expected
        assert turns or track(still, endcap.Tracker(preset)) == expected


@each_preset
def test_tracks_that_the_camera_moves_far_away_end(preset: Any) -> None:
    tracker = endcap.Tracker(preset)
    tracker(ONE)
    for scale, shift in ((1, 9e6), (1e-9, 0), (1e3, 0), (1e300, 1e300)):
        tracker(ONE, camera_motion=[[scale, 0, shift], [0, 1, 0]])
        endcap.Tracker(preset).restore(tracker.save())
    tracker(NOTHING, camera_motion=[[1, 0, 1e99], [0, 1, 0]])
    assert tracker.track_count == 0


REFUSED: dict[str, list[Any]] = {
    "seconds, after those of the previous frame": [
        {"timestamp": timestamp} for timestamp in (1, 0.5, np.nan, np.inf)
    ],
    "motion is not finite, mirrors, or has no inverse": [
        {"camera_motion": [[1, 0, x], [a, y, 0]]}
        for x, a, y in ((np.inf, 0, 1), (0, np.nan, 1), (0, 0, -1), (0, 2, 0))
    ],
    r"camera_motion has the shape \(3, 3\): give \[2, 3\]": [{"camera_motion": np.eye(3)}],
    "camera_motion is <U1: give float64": [{"camera_motion": "x"}],
}


@pytest.mark.parametrize("message", REFUSED)
def test_times_and_motions_that_cannot_be_are_refused(message: str) -> None:
    tracker = endcap.Tracker()
    tracker(ONE, timestamp=1)
    state = tracker.save()
    for given in REFUSED[message]:
        with pytest.raises(endcap.InvalidArgumentError, match=message):
            tracker(ONE, **given)
        assert tracker.save() == state
