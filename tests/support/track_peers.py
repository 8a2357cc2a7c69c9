"""Trackers of other packages on the sequences of `track_scenes`.

Each function takes a sequence and returns the ids in its frames, -1 for a detection without one.
They count from 1 for all of them, although `trackers` counts from 0.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.support.track_scenes import HEIGHT, WIDTH, Frame

# ultralytics/cfg/trackers/bytetrack.yaml of the version that is tested.
ULTRALYTICS = {
    "track_high_thresh": 0.25,
    "track_low_thresh": 0.1,
    "new_track_thresh": 0.25,
    "track_buffer": 30,
    "match_thresh": 0.8,
    "fuse_score": True,
}


def track_by_ultralytics(scene: list[Frame], **settings: Any) -> list[list[int]]:
    """Track by the BYTETracker of ultralytics, with the settings of its bytetrack.yaml."""
    from ultralytics.engine.results import Boxes
    from ultralytics.trackers.byte_tracker import BYTETracker

    tracker = BYTETracker(SimpleNamespace(**{**ULTRALYTICS, **settings}))
    frames = []
    for frame in scene:
        columns = [frame.boxes, frame.scores[:, None], frame.class_ids[:, None]]
        detections = Boxes(np.hstack(columns).astype(np.float32), (HEIGHT, WIDTH))
        ids = [-1] * len(frame.scores)
        for row in tracker.update(detections):
            ids[int(row[7])] = int(row[4])
        frames.append(ids)
    return frames


def track_by_trackers(scene: list[Frame], name: str, **options: Any) -> list[list[int]]:
    """Track by a class of the package `trackers`."""
    import supervision
    import trackers

    tracker = getattr(trackers, name)(**options)
    frames = []
    for frame in scene:
        rows = np.arange(len(frame.scores))
        detections = supervision.Detections(
            xyxy=frame.boxes,
            confidence=frame.scores,
            class_id=frame.class_ids,
            data={"row": rows},
        )
        returned = tracker.update(detections)
        ids = [-1] * len(rows)
        for row, track in zip(returned.data.get("row", []), returned.tracker_id, strict=True):
            ids[int(row)] = int(track) + 1 if track >= 0 else -1
        frames.append(ids)
    return frames
