"""ByteTrack over a sequence of frames: endcap against ultralytics.

Objects drift over a picture of 1920x1080; a tenth of them is hidden in each frame, and has a low
score. A row's time is that of all frames, taken by a tracker that has seen none.
"""

from __future__ import annotations

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


def name_of(objects: int) -> str:
    """Return the title of the comparison."""
    return f"ByteTrack, {FRAMES} frames of {objects} boxes"


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


def ours(frames: list[Frame]) -> Track:
    """Return `endcap.Tracker` on all frames."""
    detections = [
        endcap.ImageDetections(
            boxes, scores, np.zeros(len(scores), np.int32), np.arange(len(scores), dtype=np.int32)
        )
        for boxes, scores in frames
    ]

    def run() -> Ids:
        tracker = endcap.Tracker()
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


def run(objects: tuple[int, ...], budget: Budget, done: Callable[[str], None]) -> list[Tracked]:
    """Verify and time both for each number of objects; `done` is called after each."""
    results = []
    with one_cpu():
        for count in objects:
            frames = make_frames(count)
            expected = ours(frames)()
            entries: dict[str, Ready | Row] = {
                "endcap": Ready(_case(ours(frames)), f"{_last_id(expected)} tracks")
            }
            theirs = load(lambda frames=frames: ultralytics(frames))  # type: ignore[misc]
            if isinstance(theirs, Row):
                entries["ultralytics"] = theirs
            elif theirs() != expected:
                entries["ultralytics"] = Row("not verified", "other ids")
            else:
                entries["ultralytics"] = Ready(_case(theirs), "the same ids")
            rows = comparison(entries, "endcap", budget)
            results.append(Tracked(name_of(count), count, rows))
            done(name_of(count))
    return results


def _last_id(tracked: Ids) -> int:
    return max(max(ids, default=0) for ids in tracked)


def _case(track: Track) -> Case:
    return Case(run=lambda _: track())
