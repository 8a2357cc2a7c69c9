"""`endcap.Tracker` against the definitions of its presets, and what it does with its input."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import endcap
from tests.reference.oc_sort import OcSort
from tests.reference.side_byte_track import SideByteTrack
from tests.reference.tracking import ByteTrack
from tests.support.track_scenes import Frame, make_scene, to_detections, track

DEFINITIONS: dict[Any, Any] = {
    "bytetrack": ByteTrack,
    "bytetrack_trackers": SideByteTrack,
    "ocsort": OcSort,
}
each_preset = pytest.mark.parametrize("preset", DEFINITIONS)
PINNED = {
    "bytetrack_ultralytics_8.4": "bytetrack",
    "bytetrack_trackers_2.6": "bytetrack_trackers",
    "ocsort_trackers_2.6": "ocsort",
}


def define(scene: list[Frame], definition: Any) -> list[list[int]]:
    return [definition.update(each.boxes, each.scores, each.class_ids) for each in scene]


def seen(*boxes: tuple[float, ...], score: float = 0.9) -> endcap.ImageDetections:
    return endcap.ImageDetections.from_list(endcap.Detection(box, score, 0) for box in boxes)


def id_list(tracked: endcap.ImageDetections) -> list[int]:
    assert tracked.track_ids is not None
    return tracked.track_ids.tolist()


NOTHING, ONE = seen(), seen((10, 20, 60, 140))


@each_preset
@pytest.mark.parametrize("seed", range(25))
def test_ids_are_those_of_the_definition(preset: Any, seed: int) -> None:
    scene = make_scene(seed)
    ids = track(scene, endcap.Tracker(preset))
    assert ids == define(scene, DEFINITIONS[preset]())
    assert max(max(frame, default=-1) for frame in ids) >= 8


@pytest.mark.parametrize("preset", PINNED)
def test_a_preset_of_a_version_has_its_parameters(preset: Any) -> None:
    # 10 frames a second make 8 / 3 frames of track_buffer, which libraries round differently.
    pinned, newest = (
        endcap.Tracker(name, frame_rate=10, track_buffer=8) for name in (preset, PINNED[preset])
    )
    assert pinned.describe() == newest.describe()
    scene = make_scene(11)
    assert track(scene, pinned) == track(scene, newest)
    newest.restore(pinned.save())


DIRECTIONS = {"direction_weight": 1.0, "direction_frames": 1}


@pytest.mark.parametrize(
    ("preset", "options"), [("bytetrack_trackers", {}), ("ocsort", {}), ("ocsort", DIRECTIONS)]
)
def test_crowds_are_assigned_as_a_whole(preset: Any, options: dict[str, Any]) -> None:
    """Many objects, fewer and more of them than tracks."""
    scene = make_scene(0, frames=40, objects=60)
    definition = DEFINITIONS[preset](**options)
    assert track(scene, endcap.Tracker(preset, **options)) == define(scene, definition)


BOTH: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"class_agnostic": False}, {"class_agnostic": False}),
    ({"high_score_threshold": 0.4}, {"high": 0.4}),
    ({"match_threshold": 0.5, "second_match_threshold": 0.6}, {"ious": (0.5, 0.4)}),
    ({"new_track_threshold": 0.8}, {"new": 0.8}),
    ({"confirm_frames": 5}, {"confirm_frames": 5}),
    ({"track_buffer": 3}, {"max_lost_frames": 3}),
    ({"frame_rate": 101, "track_buffer": 1}, {"max_lost_frames": 4}),
    ({"track_buffer": 0}, {"max_lost_frames": 0}),
]
# Parameters of the tracker and of the definition.
PARAMETERS: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {
    "bytetrack": [
        ({"class_agnostic": False}, {"class_agnostic": False}),
        ({"fuse_score": False}, {"fuse_score": False}),
        ({"track_buffer": 4}, {"max_lost_frames": 4}),
        ({"frame_rate": 10}, {"max_lost_frames": 10}),
        ({"frame_rate": 123, "track_buffer": 3}, {"max_lost_frames": 12}),
        ({"track_buffer": 0}, {"max_lost_frames": 0}),
        (
            {"high_score_threshold": 0.6, "low_score_threshold": 0.2, "new_track_threshold": 0.7},
            {"high": 0.6, "low": 0.2, "new": 0.7},
        ),
        (
            {
                "match_threshold": 0.6,
                "second_match_threshold": 0.3,
                "unconfirmed_match_threshold": 0.5,
            },
            {"costs": (0.6, 0.3, 0.5)},
        ),
        ({"duplicate_iou": 0.4}, {"duplicate_iou": 0.4}),
    ],
    "bytetrack_trackers": [*BOTH, ({"low_score_threshold": 0.4}, {"low": 0.4})],
    "ocsort": [
        *BOTH,
        ({"direction_weight": 1.0}, {"direction_weight": 1.0}),
        (
            {"direction_weight": 1.0, "direction_frames": 9},
            {"direction_weight": 1.0, "direction_frames": 9},
        ),
    ],
}


@pytest.mark.parametrize(
    ("preset", "options", "expected"),
    [(preset, *each) for preset, cases in PARAMETERS.items() for each in cases],
)
def test_parameters_mean_what_they_say(
    preset: Any, options: dict[str, Any], expected: dict[str, Any]
) -> None:
    """In two scenes at least, and up to the first one whose ids the parameters change."""
    changed = False
    for seed in range(20):
        scene = make_scene(seed, objects=10 if preset == "bytetrack" else 16)
        ids = track(scene, endcap.Tracker(preset, **options))
        assert ids == define(scene, DEFINITIONS[preset](**expected))
        changed |= ids != track(scene, endcap.Tracker(preset))
        if changed and seed > 0:
            return
    pytest.fail("the parameters change nothing")


def test_a_second_frame_confirms_a_track() -> None:
    tracker = endcap.Tracker()
    tracker(NOTHING)
    assert [id_list(tracker(ONE)) for _ in range(2)] == [[-1], [1]]
    tracker.reset()
    assert tracker.frames == 0
    assert id_list(tracker(ONE)) == [1]
    assert (tracker.frames, tracker.track_count) == (1, 1)


def test_everything_of_a_detection_comes_back() -> None:
    keypoints = [(1.0, 2.0, 0.5)] * 3
    pose = endcap.Detection((10, 20, 60, 140), 0.9, 2, "dog", 7, keypoints)
    (tracked,) = endcap.Tracker()(endcap.ImageDetections.from_list([pose]))
    assert tracked.track_id == 1
    assert tracked.keypoints == keypoints
    assert (tracked.label, tracked.index) == ("dog", 7)
    assert tracked.to_dict()["track_id"] == 1
    result = endcap.Tracker()(endcap.ImageDetections.from_list([pose]))
    assert result.to_dict()["track_ids"] == [1]
    assert result[:0].track_ids.tolist() == []  # type: ignore[union-attr]
    assert list(endcap.ImageDetections.from_list(result)) == list(result)


def test_a_track_that_was_lost_for_too_long_may_come_back_once() -> None:
    def run(*frames: bool) -> int:
        """The last id of one object that is seen in some frames; -1 for none yet."""
        tracker = endcap.Tracker(track_buffer=3)
        tracked = NOTHING
        for shown in frames:
            tracked = tracker(ONE if shown else NOTHING)
            again = endcap.Tracker(track_buffer=3)
            again.restore(tracker.save())
            tracker = again
        return id_list(tracked)[-1]

    gap = [False] * 3
    assert run(True, True, *gap, True) == 1
    assert run(True, True, *gap, False, True) == 1
    assert run(True, True, *gap, False, False, True) == -1
    # As after any other gap, a frame may be missing; but not after this one.
    assert run(True, True, *gap, True, False, True) == 1
    assert run(True, True, *gap, False, True, True) == 1
    assert run(True, True, *gap, False, True, False, True) == -1


@each_preset
def test_the_state_goes_on_in_another_tracker(preset: Any) -> None:
    scene = make_scene(3)
    whole = track(scene, endcap.Tracker(preset))
    for cut in (1, 20, 37, 60):
        first, second = endcap.Tracker(preset), endcap.Tracker(preset)
        track(scene[:cut], first)
        state = first.save()
        second.restore(state)
        assert (second.frames, second.save()) == (cut, state)
        assert track(scene[cut:], second) == whole[cut:]
        assert first.save() == state


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda state: b"x" + state[1:], "does not begin as one"),
        (lambda state: state + bytes(8), "has another length"),
        (lambda state: state[:24] + b"\xff" * 8 + state[32:], "tracks: max_tracks is 1000"),
        (lambda state: state[:72] + b"\xff" * 8 + state[80:], "a number that cannot be"),
        (lambda state: state[:24] + b"\x02" + state[25:] + state[32:], "has an id twice"),
    ],
)
def test_bytes_that_are_no_state(change: Any, reason: str) -> None:
    tracker = endcap.Tracker()
    tracker(ONE)
    state = tracker.save()
    with pytest.raises(endcap.InvalidArgumentError, match=reason):
        tracker.restore(change(state))
    assert tracker.save() == state


@each_preset
def test_states_that_are_cut_or_of_another_preset(preset: Any) -> None:
    """tests/fuzz/tracking.cc restores changed ones."""
    tracker = endcap.Tracker(preset)
    track(make_scene(5)[:30], tracker)
    state = tracker.save()
    for length in range(0, len(state), 8):
        with pytest.raises(endcap.InvalidArgumentError, match="the state of a tracker"):
            endcap.Tracker(preset).restore(state[:length])
    for other in DEFINITIONS.keys() - {preset}:
        with pytest.raises(endcap.InvalidArgumentError, match="as one of this preset"):
            endcap.Tracker(other).restore(state)


@each_preset
def test_the_state_of_many_frames_stays_small(preset: Any) -> None:
    """The objects of each scene are gone in the next one."""
    tracker, sizes = endcap.Tracker(preset), []
    for seed in range(16):
        track(make_scene(seed), tracker)
        sizes.append(len(tracker.save()))
    assert max(sizes[8:]) < 1.5 * max(sizes[:8])


@each_preset
def test_boxes_at_the_limits(preset: Any) -> None:
    far, tiny = 1e7, 1e-45
    crowd = seen((-far, -far, far, far), (0, 0, tiny, tiny), (0, 0, far, 1), (0, 0, 1, 1))
    tracker = endcap.Tracker(preset)
    for frame in range(60):
        tracker(NOTHING if frame % 3 == 1 else crowd)
        endcap.Tracker(preset).restore(tracker.save())
    assert tracker.track_count <= 8


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["boxes", "scores"])
def test_numbers_that_are_not_finite(name: str, bad: float) -> None:
    scene = make_scene(1)
    tracker = endcap.Tracker()
    track(scene[:5], tracker)
    before = tracker.save()
    detections = to_detections(scene[5])
    getattr(detections, name)[-1] = bad
    number = len(detections) - 1
    with pytest.raises(endcap.InvalidArgumentError, match=rf"of detection {number} is not finite"):
        tracker(detections)
    assert tracker.save() == before


def test_boxes_without_an_area_have_no_track() -> None:
    boxes = [(10, 20, 10, 90), (10, 20, 60, 20), (60, 20, 10, 90), (10, 20, 60, 90)]
    assert id_list(endcap.Tracker()(seen(*boxes))) == [-1, -1, -1, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preset": "deepsort"}, "preset is 'deepsort'"),
        ({"frame_rate": 0}, "frame_rate is 0"),
        ({"frame_rate": float("nan")}, "frame_rate is nan"),
        ({"high_score_threshold": 1.5}, "high_score_threshold"),
        ({"low_score_threshold": 0.5}, "low_score_threshold is 0.5: give at most high_score_thr"),
        ({"track_buffer": -1}, "track_buffer is -1"),
        ({"track_buffer": float("nan")}, "track_buffer is nan"),
        ({"frame_rate": 1e308}, "frame_rate is 1e"),
        ({"max_tracks": 0}, "max_tracks"),
        ({"preset": None}, "preset is None: give its name as text"),
        ({"frame_rate": "25"}, "frame_rate is '25': give frames a second"),
        ({"track_buffer": 1.5}, "track_buffer is 1.5: give a whole number of frames"),
        ({"track_buffer": "3"}, "track_buffer is '3': give a whole number of frames"),
        ({"max_lost_frames": 3}, "'max_lost_frames' is not a .* frame_rate, track_buffer, high_"),
        ({"track_bufer": 3}, r"did you mean 'track_buffer'\?$"),
    ],
)
def test_impossible_values_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(endcap.InvalidArgumentError, match=message):
        endcap.Tracker(**options)


def test_what_is_too_large_or_does_not_fit_is_refused() -> None:
    tracker = endcap.Tracker()
    with pytest.raises(endcap.InvalidArgumentError, match="detection 0 has a side at 1e"):
        tracker(seen((0, 0, 1e8, 10)))
    with pytest.raises(endcap.InvalidArgumentError, match="there are 2001 detections: at most"):
        tracker(seen(*[(0, 0, 9, 9)] * 2001))
    lengths = [np.zeros((2, 4), np.float32), np.zeros(1, np.float32), *[np.zeros(2, np.int32)] * 2]
    with pytest.raises(endcap.InvalidArgumentError, match="2 boxes, 1 scores and 2 class ids"):
        tracker(endcap.ImageDetections(*lengths))
    assert tracker.frames == 0


def test_threads_wait_for_each_other() -> None:
    tracker = endcap.Tracker()
    frames = [to_detections(frame) for frame in make_scene(9)]
    with ThreadPoolExecutor(4) as pool:
        tracked = list(pool.map(tracker, frames))
    assert tracker.frames == len(frames)
    assert all(len(each) == len(frame) for each, frame in zip(tracked, frames, strict=True))


def test_rotated_boxes_are_refused() -> None:
    rotated = endcap.ImageDetections.from_list(
        [endcap.Detection((10, 20, 60, 140), 0.9, 0, angle=0.3)]
    )
    with pytest.raises(endcap.UnsupportedError, match="angles=None"):
        endcap.Tracker()(rotated)


def test_repr_of_a_tracker() -> None:
    tracker = endcap.Tracker(frame_rate=15)
    assert repr(tracker) == "<Tracker bytetrack, frame 0, 0 tracks>"
    assert tracker.parameters["max_lost_frames"] == "15"
    assert {row.name for row in tracker.describe()} == set(tracker.parameters)


# Frames of a live source between two that were looked at: at first none, then five of six dropped.
GAPS = [0] * 5 + [5] * 10


def walking_ids(tracker: endcap.Tracker, *, skips: bool) -> list[int]:
    """The ids of an object that moves by 8 of its 50 pixels a frame, in the frames looked at.

    Another one stands still.
    """
    ids, frame = [], 0
    for gap in GAPS:
        frame += gap + 1
        if skips:
            tracker.skip(gap)
        ids += id_list(tracker(seen((600, 600, 700, 700), (8 * frame, 20, 8 * frame + 50, 140))))[
            1:
        ]
    return ids


@each_preset
def test_an_object_keeps_its_id_over_frames_that_are_skipped(preset: Any) -> None:
    tracker = endcap.Tracker(preset)
    ids = walking_ids(tracker, skips=True)
    assert len(set(ids[3:])) == 1
    assert ids[3] > 0
    assert tracker.frames == len(GAPS) + sum(GAPS)
    assert len(set(walking_ids(endcap.Tracker(preset), skips=False)[3:])) > 1


@each_preset
def test_a_score_equal_to_the_thresholds_starts_a_track(preset: Any) -> None:
    tracker = endcap.Tracker(preset, high_score_threshold=0.5, new_track_threshold=0.5)
    one = seen((10, 20, 60, 140), score=0.5)
    assert [id_list(tracker(one)) for _ in range(5)][-1][0] > 0


@each_preset
def test_skipped_frames_confirm_no_track_and_end_none(preset: Any) -> None:
    tracker = endcap.Tracker(preset)
    tracker(NOTHING)
    ids = []
    for _ in range(6):  # each begins after more frames than one, none of which was looked at
        tracker.skip(4)
        again = endcap.Tracker(preset)
        again.restore(tracker.save())
        tracker = again
        ids += id_list(tracker(ONE))
    assert ids[0] == -1
    assert ids[4:] == [1, 1]


def test_a_low_score_continues_a_track_over_skipped_frames() -> None:
    """It does not continue one that is lost, as after frames in which nothing was seen."""
    for skips, expected in ((True, [1]), (False, [-1])):
        tracker = endcap.Tracker()
        for score in (0.9, 0.9, 0.2):
            found = tracker(seen((10, 20, 60, 140), score=score))
            if skips:
                tracker.skip(3)
            else:
                tracker(NOTHING)
        assert id_list(found) == expected


@each_preset
def test_lost_tracks_age_in_skipped_frames(preset: Any) -> None:
    def tracks_left(*skipped: int) -> int:
        tracker = endcap.Tracker(preset, track_buffer=10)
        for _ in range(4):
            tracker(ONE)
        for count in skipped:
            tracker(NOTHING)
            tracker.skip(count)
        return tracker.track_count

    assert tracks_left(5) == tracks_left(4, 4) == 1
    assert tracks_left(10, 2) == tracks_left(6, 6) == 0
    assert tracks_left(11) == tracks_left(2**62) == 0


def test_frames_before_the_first_are_not_counted() -> None:
    tracker, other = endcap.Tracker(), endcap.Tracker()
    tracker.skip(7)
    assert tracker.save() == other.save()
    with pytest.raises(endcap.InvalidArgumentError, match="frames is -1"):
        tracker.skip(-1)
