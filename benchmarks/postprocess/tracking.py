"""ByteTrack and OC-SORT over a sequence of frames: endcap against ultralytics and `trackers`.

Objects drift over a picture of 1920x1080; a tenth of them is hidden in each frame, and has a low
score. A row's time is that of all frames, taken by a tracker that has seen none.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

import endcap
from benchmarks.paths import BUILD
from benchmarks.postprocess.head import Floats
from benchmarks.timing import Budget, Case, Ready, Row, comparison, load, one_cpu

FRAMES = 50
_PICTURE = (1920, 1080)
_HIDDEN = 0.1  # of the objects, in each frame

Ids = list[list[int]]
Track = Callable[[], Ids]
Frame = tuple[Floats, Floats]  # boxes [N, 4], scores [N]


@dataclass(frozen=True)
class Tracked:
    """One number of objects, as a `benchmarks.postprocess.run.Comparison`."""

    name: str
    candidates: int
    rows: dict[str, Row]


# Title, and the peer: ultralytics, or a class of `trackers`.
PRESETS: dict[str, tuple[str, str]] = {
    "bytetrack": ("ByteTrack", "ultralytics"),
    "bytetrack_trackers": ("ByteTrack of trackers", "ByteTrackTracker"),
    "ocsort": ("OC-SORT", "OCSORTTracker"),
}


def name_of(preset: str, objects: int) -> str:
    """Return the title of the comparison."""
    return f"{PRESETS[preset][0]}, {FRAMES} frames of {objects} boxes"


def make_frames(objects: int, seed: int = 0) -> list[Frame]:
    """Return the frames of a sequence; always the same ones."""
    random = np.random.default_rng(seed)
    centres = random.uniform(0, 1, (objects, 2)) * _PICTURE
    steps = random.normal(0, 3, (objects, 2))
    sizes = random.uniform(30, 120, (objects, 2))
    frames = []
    for number in range(FRAMES):
        seen = centres + number * steps + random.normal(0, 1, (objects, 2))
        scores = random.uniform(0.5, 0.95, objects)
        hidden = random.uniform(0, 1, objects) < _HIDDEN
        scores[hidden] = random.uniform(0.05, 0.25, objects)[hidden]
        boxes = np.hstack([seen - sizes / 2, seen + sizes / 2])
        frames.append((boxes.astype(np.float32), scores.astype(np.float32)))
    return frames


def ours(frames: list[Frame], preset: Any) -> Track:
    """Return `endcap.Tracker` on all frames."""
    detections = [
        endcap.ImageDetections(
            boxes, scores, np.zeros(len(scores), np.int32), np.arange(len(scores), dtype=np.int32)
        )
        for boxes, scores in frames
    ]

    def run() -> Ids:
        tracker = endcap.Tracker(preset)
        tracked = [tracker(each).track_ids for each in detections]
        return [ids.tolist() for ids in tracked if ids is not None]

    return run


def ultralytics(frames: list[Frame]) -> Track:
    """Return ultralytics' BYTETracker with the thresholds of its bytetrack.yaml."""
    # Its settings file goes to the build folder, not into the home directory.
    os.environ.setdefault("YOLO_CONFIG_DIR", str(BUILD))
    from ultralytics.engine.results import Boxes
    from ultralytics.trackers.byte_tracker import BYTETracker

    settings = SimpleNamespace(
        track_high_thresh=0.25,
        track_low_thresh=0.1,
        new_track_thresh=0.25,
        track_buffer=30,
        match_thresh=0.8,
        fuse_score=True,
    )
    shape = (_PICTURE[1], _PICTURE[0])
    boxes = [
        Boxes(np.hstack([xyxy, scores[:, None], np.zeros((len(scores), 1), np.float32)]), shape)
        for xyxy, scores in frames
    ]

    def run() -> Ids:
        tracker: Any = BYTETracker(settings)
        tracked = []
        for each in boxes:
            ids = [-1] * len(each)
            for row in tracker.update(each):
                ids[int(row[7])] = int(row[4])
            tracked.append(ids)
        return tracked

    return run


def of_trackers(frames: list[Frame], name: str) -> Track:
    """Return a class of the package `trackers` with its defaults; its ids begin at 0."""
    import supervision
    import trackers

    detections = [
        supervision.Detections(
            xyxy=boxes,
            confidence=scores,
            class_id=np.zeros(len(scores), int),
            data={"row": np.arange(len(scores))},
        )
        for boxes, scores in frames
    ]

    def run() -> Ids:
        tracker: Any = getattr(trackers, name)()
        tracked = []
        for each in detections:
            ids = [-1] * len(each)
            after = tracker.update(each)
            for row, number in zip(after.data["row"], after.tracker_id, strict=True):
                ids[int(row)] = int(number) + 1 if number >= 0 else -1
            tracked.append(ids)
        return tracked

    return run


def run(objects: tuple[int, ...], budget: Budget, done: Callable[[str], None]) -> list[Tracked]:
    """Verify and time each preset for each number of objects; `done` is called after each."""
    with one_cpu():
        return [
            _compare(preset, count, budget, done)
            for preset, count in itertools.product(PRESETS, objects)
        ]


def _compare(preset: str, count: int, budget: Budget, done: Callable[[str], None]) -> Tracked:
    frames = make_frames(count)
    expected = ours(frames, preset)()
    entries: dict[str, Ready | Row] = {
        "endcap": Ready(_case(ours(frames, preset)), f"{_last_id(expected)} tracks")
    }
    name = PRESETS[preset][1]
    peer = "ultralytics" if name == "ultralytics" else "trackers"
    theirs = load(lambda: ultralytics(frames) if peer == name else of_trackers(frames, name))
    if isinstance(theirs, Row):
        entries[peer] = theirs
    elif theirs() != expected:
        entries[peer] = Row("not verified", "other ids")
    else:
        entries[peer] = Ready(_case(theirs), "the same ids")
    rows = comparison(entries, "endcap", budget)
    done(name_of(preset, count))
    return Tracked(name_of(preset, count), count, rows)


def _last_id(tracked: Ids) -> int:
    return max(max(ids, default=0) for ids in tracked)


def _case(track: Track) -> Case:
    return Case(run=lambda _: track())
