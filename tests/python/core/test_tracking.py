"""`endcap.Tracker` against ByteTrack's definition, and what it does with its input."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import endcap
from tests.reference.tracking import ByteTrack, best_matches
from tests.support.track_scenes import Frame, detections_of, make_scene, track

SEEDS = range(50)


def define(scene: list[Frame], **options: Any) -> list[list[int]]:
    reference = ByteTrack(**options)
    return [reference.update(frame.boxes, frame.scores, frame.class_ids) for frame in scene]


@pytest.mark.parametrize("seed", SEEDS)
def test_ids_are_those_of_the_definition(seed: int) -> None:
    scene = make_scene(seed)
    ids = track(scene, endcap.Tracker())
    assert ids == define(scene)
    assert max(max(frame, default=-1) for frame in ids) >= 10


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "expected"),
    [
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
)
def test_parameters_mean_what_they_say(options: dict[str, Any], expected: dict[str, Any]) -> None:
    changed = 0
    for seed in range(12):
        scene = make_scene(seed)
        ids = track(scene, endcap.Tracker(**options))
        assert ids == define(scene, **expected)
        changed += ids != track(scene, endcap.Tracker())
    assert changed > 0


def test_objects_keep_their_ids() -> None:
    """Most detections of an object have the id that the object has most often."""
    right = total = 0
    for seed in SEEDS:
        scene = make_scene(seed)
        given: dict[int, list[int]] = {}
        for frame, ids in zip(scene, track(scene, endcap.Tracker()), strict=True):
            for number, each in zip(frame.objects.tolist(), ids, strict=True):
                if number >= 0 and each >= 0:
                    given.setdefault(number, []).append(each)
        for ids in given.values():
            total += len(ids)
            right += max(np.bincount(ids))
    assert right / total > 0.8


def test_an_object_comes_back_with_its_id() -> None:
    tracker = endcap.Tracker()
    walking = [
        endcap.Detection((10.0 + 4 * i, 20.0, 60.0 + 4 * i, 140.0), 0.9, 0) for i in range(30)
    ]
    for i, each in enumerate(walking):
        hidden = 10 <= i < 20
        shown = endcap.ImageDetections.from_list([] if hidden else [each])
        assert [track.track_id for track in tracker(shown)] == ([] if hidden else [1])
    assert tracker.frames == 30
    assert tracker.track_count == 1


def test_a_second_frame_confirms_a_track() -> None:
    tracker = endcap.Tracker()
    one = endcap.ImageDetections.from_list([endcap.Detection((10, 20, 60, 140), 0.9, 0)])
    none = endcap.ImageDetections.from_list([])
    tracker(none)
    assert tracker(one).track_ids.tolist() == [-1]  # type: ignore[union-attr]
    assert tracker(one).track_ids.tolist() == [1]  # type: ignore[union-attr]
    tracker.reset()
    assert tracker.frames == 0
    assert tracker(one).track_ids.tolist() == [1]  # type: ignore[union-attr]


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
    assert "tracks" in repr(result)
    assert result[:0].track_ids.tolist() == []  # type: ignore[union-attr]
    assert list(endcap.ImageDetections.from_list(result)) == list(result)


def test_a_track_that_was_lost_for_too_long_may_come_back_once() -> None:
    def run(*frames: bool) -> int:
        """The last id of one object that is seen in some frames; -1 for none yet."""
        tracker = endcap.Tracker(track_buffer=3)
        one = endcap.ImageDetections.from_list([endcap.Detection((10, 20, 60, 140), 0.9, 0)])
        none = endcap.ImageDetections.from_list([])
        tracked = none
        for seen in frames:
            tracked = tracker(one if seen else none)
            again = endcap.Tracker(track_buffer=3)
            again.restore(tracker.save())
            tracker = again
        assert tracked.track_ids is not None
        return int(tracked.track_ids[-1])

    gap = [False] * 3
    assert run(True, True, *gap, True) == 1
    assert run(True, True, *gap, False, True) == 1
    assert run(True, True, *gap, False, False, True) == -1
    # As after any other gap, a frame may be missing; but not after this one.
    assert run(True, True, *gap, True, False, True) == 1
    assert run(True, True, *gap, False, True, True) == 1
    assert run(True, True, *gap, False, True, False, True) == -1


def test_the_state_goes_on_in_another_tracker() -> None:
    scene = make_scene(3)
    whole = track(scene, endcap.Tracker())
    first = endcap.Tracker()
    assert track(scene[:37], first) == whole[:37]
    state = first.save()
    second = endcap.Tracker()
    second.restore(state)
    assert second.frames == 37
    assert second.save() == state
    assert track(scene[37:], second) == whole[37:]
    assert first.save() == state


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda state: b"", "is too short"),
        (lambda state: b"x" + state[1:], "does not begin as one"),
        (lambda state: state[:-1], "is too short"),
        (lambda state: state + bytes(8), "has another length"),
        (lambda state: state[:8] + b"\xff" * 8 + state[16:], "has numbers that cannot be"),
        (lambda state: state[:24] + b"\xff" * 8 + state[32:], "tracks: max_tracks is 1000"),
        (lambda state: state[:24] + b"\x07" + state[25:], "is too short"),
        (lambda state: state[:32] + bytes(8) + state[40:], "has numbers that cannot be"),
        (lambda state: state[:40] + b"\x06" + state[41:], "has numbers that cannot be"),
        (lambda state: state[:48] + b"\xff\0" * 4 + state[56:], "has numbers that cannot be"),
        (lambda state: state[:64] + bytes(8) + state[72:], "has numbers that cannot be"),
        (lambda state: state[:72] + b"\xff" * 8 + state[80:], "a number that cannot be"),
        (lambda state: state[:24] + b"\x02" + state[25:] + state[32:], "has an id twice"),
    ],
)
def test_bytes_that_are_no_state(change: Any, reason: str) -> None:
    one = endcap.ImageDetections.from_list([endcap.Detection((10, 20, 60, 140), 0.9, 0)])
    tracker = endcap.Tracker()
    tracker(one)
    state = tracker.save()
    with pytest.raises(endcap.InvalidArgumentError, match=reason):
        tracker.restore(change(state))
    assert tracker.save() == state


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["boxes", "scores"])
def test_numbers_that_are_not_finite(name: str, bad: float) -> None:
    scene = make_scene(1)
    tracker = endcap.Tracker()
    track(scene[:5], tracker)
    before = tracker.save()
    detections = detections_of(scene[5])
    getattr(detections, name)[-1] = bad
    number = len(detections) - 1
    with pytest.raises(endcap.InvalidArgumentError, match=rf"of detection {number} is not finite"):
        tracker(detections)
    assert tracker.save() == before


def test_boxes_without_an_area_have_no_track() -> None:
    boxes = [(10, 20, 10, 90), (10, 20, 60, 20), (60, 20, 10, 90), (10, 20, 60, 90)]
    flat = endcap.ImageDetections.from_list(endcap.Detection(box, 0.9, 0) for box in boxes)
    assert endcap.Tracker()(flat).track_ids.tolist() == [-1, -1, -1, 1]  # type: ignore[union-attr]


def test_no_more_tracks_than_allowed() -> None:
    boxes = [(50 * i, 0, 50 * i + 40, 40) for i in range(8)]
    many = endcap.ImageDetections.from_list(endcap.Detection(box, 0.9, 0) for box in boxes)
    tracker = endcap.Tracker(max_tracks=5)
    assert tracker(many).track_ids.tolist() == [1, 2, 3, 4, 5, -1, -1, -1]  # type: ignore[union-attr]
    assert tracker.track_count == 5


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
    ],
)
def test_impossible_values_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(endcap.InvalidArgumentError, match=message):
        endcap.Tracker(**options)


def test_what_is_too_large_is_refused() -> None:
    tracker = endcap.Tracker()
    far = endcap.ImageDetections.from_list([endcap.Detection((0, 0, 1e8, 10), 0.9, 0)])
    with pytest.raises(endcap.InvalidArgumentError, match="detection 0 has a side at 1e"):
        tracker(far)
    many = endcap.ImageDetections.from_list([endcap.Detection((0, 0, 9, 9), 0.9, 0)] * 2001)
    with pytest.raises(endcap.InvalidArgumentError, match="there are 2001 detections: at most"):
        tracker(many)
    assert tracker.frames == 0


def test_threads_wait_for_each_other() -> None:
    tracker = endcap.Tracker()
    frames = [detections_of(frame) for frame in make_scene(9)]
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


def test_a_tracker_tells_what_it_is() -> None:
    tracker = endcap.Tracker(frame_rate=15)
    assert repr(tracker) == "<Tracker bytetrack, frame 0, 0 tracks>"
    assert tracker.parameters["max_lost_frames"] == "15"
    assert {row.name for row in tracker.describe()} == set(tracker.parameters)


def test_the_reference_finds_the_best_matches() -> None:
    # The greatest gain alone would leave the second row without a column.
    gains = {(0, 0): 0.9, (0, 1): 0.8, (1, 0): 0.7}
    assert best_matches(gains) == [(0, 1), (1, 0)]


# Frames of a live source between two that were looked at: at first none, then five of six dropped.
GAPS = [0] * 5 + [5] * 10
PRESETS = ("bytetrack", "bytetrack_trackers", "ocsort")


def walking_ids(tracker: endcap.Tracker, *, skips: bool, first: int = 0) -> list[int]:
    """The ids of an object that moves by 8 of its 50 pixels a frame, in the frames looked at.

    Another stands still. first: the place in GAPS from which on the walking one is there.
    """
    ids, frame = [], 0
    for place, gap in enumerate(GAPS):
        frame += gap + 1
        if skips:
            tracker.skip(gap)
        shown = [endcap.Detection((600, 600, 700, 700), 0.9, 0)]
        if place >= first:
            shown.append(endcap.Detection((8 * frame, 20, 8 * frame + 50, 140), 0.9, 0))
        found = tracker(endcap.ImageDetections.from_list(shown)).track_ids
        assert found is not None
        ids += found[1:].tolist()
    return ids


@pytest.mark.parametrize("preset", PRESETS)
def test_an_object_keeps_its_id_over_frames_that_are_skipped(preset: Any) -> None:
    tracker = endcap.Tracker(preset)
    ids = walking_ids(tracker, skips=True)
    assert len(set(ids[3:])) == 1
    assert ids[3] > 0
    assert tracker.frames == len(GAPS) + sum(GAPS)
    assert len(set(walking_ids(endcap.Tracker(preset), skips=False)[3:])) > 1


@pytest.mark.parametrize("preset", PRESETS)
def test_a_score_equal_to_the_thresholds_starts_a_track(preset: Any) -> None:
    tracker = endcap.Tracker(preset, high_score_threshold=0.5, new_track_threshold=0.5)
    one = endcap.ImageDetections.from_list([endcap.Detection((10, 20, 60, 140), 0.5, 0)])
    found = [tracker(one).track_ids for _ in range(5)][-1]
    assert found is not None
    assert found[0] > 0


@pytest.mark.parametrize("preset", PRESETS)
def test_skipped_frames_confirm_no_track_and_end_none(preset: Any) -> None:
    tracker = endcap.Tracker(preset)
    shown = endcap.ImageDetections.from_list([endcap.Detection((10, 20, 60, 140), 0.9, 0)])
    tracker(endcap.ImageDetections.from_list([]))
    ids = []
    for _ in range(6):  # each begins after more frames than one, none of which was looked at
        tracker.skip(4)
        again = endcap.Tracker(preset)
        again.restore(tracker.save())
        tracker = again
        ids += tracker(shown).track_ids.tolist()  # type: ignore[union-attr]
    assert ids[0] == -1
    assert ids[4:] == [1, 1]


def test_a_low_score_continues_a_track_over_skipped_frames() -> None:
    """It does not continue one that is lost, as after frames in which nothing was seen."""
    for skips, expected in ((True, [1]), (False, [-1])):
        tracker = endcap.Tracker()
        for score in (0.9, 0.9, 0.2):
            found = tracker(
                endcap.ImageDetections.from_list([endcap.Detection((10, 20, 60, 140), score, 0)])
            )
            if skips:
                tracker.skip(3)
            else:
                tracker(endcap.ImageDetections.from_list([]))
        assert found.track_ids is not None
        assert found.track_ids.tolist() == expected


@pytest.mark.parametrize("preset", PRESETS)
def test_lost_tracks_age_in_skipped_frames(preset: Any) -> None:
    def tracks_left(*skipped: int) -> int:
        tracker = endcap.Tracker(preset, track_buffer=10)
        shown = endcap.ImageDetections.from_list([endcap.Detection((10, 20, 60, 140), 0.9, 0)])
        for _ in range(4):
            tracker(shown)
        for count in skipped:
            tracker(endcap.ImageDetections.from_list([]))
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
