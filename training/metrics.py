"""Detection measures in NumPy: a plain NMS and average precision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]
# Recall steps of COCO's interpolated average precision.
RECALL_STEPS = np.linspace(0.0, 1.0, 101)


@dataclass(frozen=True)
class Objects:
    """Boxes float32 [N, 4] xyxy, class_ids int64 [N], and scores float32 [N] (1 for truth)."""

    boxes: Floats
    class_ids: Integers
    scores: Floats


def box_iou(first: Floats, second: Floats) -> Floats:
    """IoU of xyxy boxes [N, 4] and [M, 4], float32 [N, M]."""
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    high = np.minimum(first[:, None, 2:], second[None, :, 2:])
    shared = np.prod(np.maximum(high - low, 0.0), axis=2)
    area_first = np.prod(first[:, 2:] - first[:, :2], axis=1)[:, None]
    area_second = np.prod(second[:, 2:] - second[:, :2], axis=1)[None, :]
    return np.asarray(shared / np.maximum(area_first + area_second - shared, 1e-9), np.float32)


def detections_of_head(
    head: Floats, *, score_threshold: float, iou_threshold: float, max_detections: int = 300
) -> Objects:
    """Best class of each cell, then greedy NMS within classes.

    Args:
        head: float32 [4 + C, A], cxcywh and scores.

    Returns:
        Detections in pixels of the network's input, best score first.
    """
    class_ids, scores = head[4:].argmax(axis=0), head[4:].max(axis=0)
    at = np.flatnonzero(scores >= score_threshold)
    at = at[np.argsort(-scores[at], kind="stable")]
    centre, half = head[:2, at].T, head[2:4, at].T / 2
    boxes = np.concatenate([centre - half, centre + half], axis=1)
    kept: list[int] = []
    open_rows = np.ones(len(at), bool)
    for row in range(len(at)):
        if not open_rows[row]:
            continue
        kept.append(row)
        if len(kept) == max_detections:
            break
        rival = box_iou(boxes[row : row + 1], boxes)[0] > iou_threshold
        open_rows &= ~(rival & (class_ids[at] == class_ids[at[row]]))
    chosen = at[kept]
    return Objects(boxes[kept], class_ids[chosen].astype(np.int64), scores[chosen])


def average_precision(
    found: Sequence[Objects], truth: Sequence[Objects], class_id: int, iou_threshold: float
) -> float:
    """COCO's 101-point average precision of one class; NaN where the truth holds none of it."""
    wanted = sum(int((item.class_ids == class_id).sum()) for item in truth)
    if wanted == 0:
        return float("nan")
    scores: list[float] = []
    correct: list[bool] = []
    for image_found, image_truth in zip(found, truth, strict=True):
        mine = image_found.class_ids == class_id
        targets = image_truth.boxes[image_truth.class_ids == class_id]
        scores.extend(image_found.scores[mine].tolist())
        correct.extend(_match(image_found.boxes[mine], targets, iou_threshold))
    order = np.argsort(-np.array(scores), kind="stable")
    hits = np.cumsum(np.array(correct, bool)[order])
    if not hits.size:
        return 0.0
    precision = hits / np.arange(1, len(hits) + 1)
    best_from_here = np.maximum.accumulate(precision[::-1])[::-1]
    at = np.searchsorted(hits / wanted, RECALL_STEPS)
    return float(np.mean([best_from_here[i] if i < len(hits) else 0.0 for i in at]))


def precision_and_recall(
    found: Sequence[Objects], truth: Sequence[Objects], *, score_threshold: float
) -> tuple[float, float]:
    """Share of detections that are right, and of objects that are found, at IoU 0.5.

    Raises:
        ValueError: there is no object, or no detection reaches the threshold.
    """
    hits = detections = objects = 0
    for image_found, image_truth in zip(found, truth, strict=True):
        sure = image_found.scores >= score_threshold
        detections += int(sure.sum())
        objects += len(image_truth.boxes)
        for class_id in np.unique(image_truth.class_ids):
            mine = image_found.boxes[sure & (image_found.class_ids == class_id)]
            targets = image_truth.boxes[image_truth.class_ids == class_id]
            hits += sum(_match(mine, targets, 0.5))
    if not detections or not objects:
        raise ValueError(
            f"{detections} detections reach score {score_threshold} for {objects} objects; "
            "both must be above 0."
        )
    return hits / detections, hits / objects


def _match(boxes: Floats, targets: Floats, iou_threshold: float) -> list[bool]:
    """Whether each box, best score first, takes a target that no better box has taken."""
    iou = box_iou(boxes, targets)
    free = np.ones(len(targets), bool)
    matched = []
    for row in iou:
        candidates = np.where(free, row, -1.0)
        best = int(candidates.argmax()) if len(candidates) else -1
        hit = best >= 0 and bool(candidates[best] >= iou_threshold)
        if hit:
            free[best] = False
        matched.append(hit)
    return matched
