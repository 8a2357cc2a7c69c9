"""Suppression of rotated boxes: endcap against ultralytics, and against OpenCV.

The boxes are what a detector gives on an aerial picture of 1024x1024: long objects at any angle,
and around each of them many boxes that nearly agree. ultralytics gets them as a head of these
candidates alone; its suppression is the method probiou_fast. OpenCV's compares polygons.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import numpy as np

import endcap
from benchmarks.paths import BUILD
from benchmarks.postprocess.head import Floats
from benchmarks.postprocess.verify import OFFSET_SHARE

IOU_THRESHOLD = 0.45
NUM_BOXES = 1_000
SIDE = 1024
_BOXES_PER_OBJECT = 8

Method = Literal["polygon", "probiou", "probiou_fast"]
Kept = Callable[[], Any]
Make = Callable[[Floats, Floats], Kept]


@dataclass(frozen=True)
class RotatedTask:
    """A method of endcap's, and who does the same: functions of boxes and scores."""

    method: Method
    peer: str
    make_peer: Make
    share: float  # of the kept boxes, how many must be endcap's

    def ours(self, boxes: Floats, scores: Floats) -> Kept:
        """Return the function of endcap to time."""
        return lambda: endcap.nms_rotated(boxes, scores, IOU_THRESHOLD, method=self.method)


def candidates(count: int = NUM_BOXES, seed: int = 0) -> tuple[Floats, Floats]:
    """Boxes cx, cy, w, h, angle [N, 5] and scores [N]; always the same ones."""
    random = np.random.default_rng(seed)
    objects = max(1, count // _BOXES_PER_OBJECT)
    width = random.lognormal(3.7, 0.5, objects).clip(12, 300)
    sizes = np.stack([width, width * random.uniform(0.2, 0.8, objects)], axis=1)
    centres = random.uniform(0, SIDE, (objects, 2))
    of = random.integers(objects, size=count)
    near = centres[of] + random.normal(0, 0.05, (count, 2)) * sizes[of]
    around = sizes[of] * random.normal(1, 0.08, (count, 2)).clip(0.7, 1.3)
    angles = random.uniform(-np.pi / 4, 3 * np.pi / 4, objects)[of]
    angles = angles + random.normal(0, 0.05, count)
    scores = (random.permutation(count) + 1.0) / count
    boxes = np.concatenate([near, around, angles[:, None]], axis=1)
    return boxes.astype(np.float32), scores.astype(np.float32)


def ultralytics(boxes: Floats, scores: Floats) -> Kept:
    """non_max_suppression(rotated=True) on one thread."""
    # Its settings file goes to the build folder, not into the home directory.
    os.environ.setdefault("YOLO_CONFIG_DIR", str(BUILD))
    import torch
    from ultralytics.utils.nms import non_max_suppression

    torch.set_num_threads(1)
    head = torch.from_numpy(np.concatenate([boxes[:, :4], scores[:, None], boxes[:, 4:]], axis=1))
    tensor = head.T[None].contiguous()

    def run() -> Any:
        _, (anchors,) = non_max_suppression(
            tensor,
            conf_thres=0.0,
            iou_thres=IOU_THRESHOLD,
            max_det=len(scores),
            nc=1,
            rotated=True,
            max_time_img=1e9,  # else a slow machine would give an empty response
            return_idxs=True,
        )
        return anchors

    return run


def opencv(boxes: Floats, scores: Floats) -> Kept:
    """NMSBoxesRotated on one thread."""
    cv2: Any = import_module("cv2")
    cv2.setNumThreads(1)
    rectangles = [((b[0], b[1]), (b[2], b[3]), float(np.degrees(b[4]))) for b in boxes.tolist()]
    numbers = scores.tolist()
    return lambda: cv2.dnn.NMSBoxesRotated(rectangles, numbers, 0.0, IOU_THRESHOLD)


TASKS: Mapping[str, RotatedTask] = {
    f"nms_rotated {task.method}, {NUM_BOXES:,} boxes": task
    for task in (
        RotatedTask("probiou_fast", "ultralytics", ultralytics, OFFSET_SHARE),
        RotatedTask("polygon", "OpenCV", opencv, OFFSET_SHARE),
    )
}
