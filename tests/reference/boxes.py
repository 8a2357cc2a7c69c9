"""Intersection over union and exact greedy suppression, in float32 step by step."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Indices = npt.NDArray[np.int64]


def iou(first: Floats, second: Floats) -> np.float32:
    """IoU of two xyxy boxes, each float32 [4]; NaN when both are empty."""
    zero = np.float32(0)
    with np.errstate(all="ignore"):
        first_area = (first[2] - first[0]) * (first[3] - first[1])
        second_area = (second[2] - second[0]) * (second[3] - second[1])
        width = max(min(first[2], second[2]) - max(first[0], second[0]), zero)
        height = max(min(first[3], second[3]) - max(first[1], second[1]), zero)
        inter = width * height
        return np.float32(inter / (first_area + second_area - inter))


def best_first(scores: Floats) -> Indices:
    """Indices by falling score; equal scores by rising index."""
    return np.array(sorted(range(len(scores)), key=lambda i: (-scores[i], i)), dtype=np.int64)


def nms(boxes: Floats, scores: Floats, iou_threshold: float) -> Indices:
    """Keeps the best box, drops every later one that overlaps it too much, and repeats."""
    kept: list[int] = []
    for candidate in best_first(scores):
        if all(not float(iou(boxes[k], boxes[candidate])) > iou_threshold for k in kept):
            kept.append(int(candidate))
    return np.array(kept, dtype=np.int64)


def batched_nms(
    boxes: Floats, scores: Floats, class_ids: npt.NDArray[np.generic], iou_threshold: float
) -> Indices:
    """One nms for each class; the kept boxes of all classes, best score first."""
    kept: list[int] = []
    for class_id in np.unique(class_ids):
        members = np.flatnonzero(class_ids == class_id)
        kept.extend(members[nms(boxes[members], scores[members], iou_threshold)])
    kept.sort(key=lambda i: (-scores[i], i))
    return np.array(kept, dtype=np.int64)
