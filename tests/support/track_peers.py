"""Trackers on the sequences of `track_scenes`: endcap's, and those of other packages.

Each function takes a sequence and returns its frames with ids: from 1 for all of them, although
`trackers` counts from 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
from track_scenes import HEIGHT, WIDTH, Frame, detections_of

import endcap

# ultralytics/cfg/trackers/bytetrack.yaml of the version that is tested.
ULTRALYTICS = {
    "track_high_thresh": 0.25,
    "track_low_thresh": 0.1,
    "new_track_thresh": 0.25,
    "track_buffer": 30,
    "match_thresh": 0.8,
    "fuse_score": True,
}


@dataclass(frozen=True)
class TrackedFrame:
    """What a tracker says of the detections of one frame.

    Attributes:
        ids: for each detection, in the order given; -1 for none.
        boxes: float64 [N, 4], of the detections as the tracker returns them. Those without an id
            are as given.
    """

    ids: list[int]
    boxes: npt.NDArray[np.float64]


def ids_of(tracked: list[TrackedFrame]) -> list[list[int]]:
    """Return the ids alone."""
    return [frame.ids for frame in tracked]


def track_by_endcap(scene: list[Frame], **options: Any) -> list[TrackedFrame]:
    """Track by `endcap.Tracker`."""
    tracker = endcap.Tracker(**options)
    frames = []
    for frame in scene:
        tracked = tracker(detections_of(frame))
        assert tracked.track_ids is not None
        frames.append(TrackedFrame(tracked.track_ids.tolist(), tracked.boxes.astype(np.float64)))
    return frames


def track_by_ultralytics(scene: list[Frame], **settings: Any) -> list[TrackedFrame]:
    """Track by the BYTETracker of ultralytics, with the settings of its bytetrack.yaml."""
    from ultralytics.engine.results import Boxes
    from ultralytics.trackers.byte_tracker import BYTETracker

    tracker = BYTETracker(SimpleNamespace(**{**ULTRALYTICS, **settings}))
    frames = []
    for frame in scene:
        columns = [frame.boxes, frame.scores[:, None], frame.class_ids[:, None]]
        detections = Boxes(np.hstack(columns).astype(np.float32), (HEIGHT, WIDTH))
        tracked = TrackedFrame([-1] * len(frame.scores), frame.boxes.astype(np.float64))
        for row in tracker.update(detections):
            tracked.ids[int(row[7])] = int(row[4])
            tracked.boxes[int(row[7])] = row[:4]
        frames.append(tracked)
    return frames


def track_by_trackers(scene: list[Frame], name: str, **options: Any) -> list[TrackedFrame]:
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
        tracked = TrackedFrame([-1] * len(rows), frame.boxes.astype(np.float64))
        for row, box, track in zip(
            returned.data.get("row", []), returned.xyxy, returned.tracker_id, strict=True
        ):
            tracked.ids[int(row)] = int(track) + 1 if track >= 0 else -1
            tracked.boxes[int(row)] = box
        frames.append(tracked)
    return frames
