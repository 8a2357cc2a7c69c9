"""Greedy non-maximum suppression in NumPy, for the reference."""

from __future__ import annotations

import numpy as np

from endcap.evaluation.arrays import Floats, Integers


def suppress(
    boxes_xyxy: Floats, class_ids: Integers, *, iou_threshold: float, max_detections: int
) -> Integers:
    """Return the positions of the boxes that stay, in order, at most `max_detections`.

    boxes_xyxy [N, 4], best first; class_ids [N]: boxes of different classes do not touch each
    other. A box goes when its IoU with a better one that stays is greater than iou_threshold.
    """
    rows_of = {class_id: np.flatnonzero(class_ids == class_id) for class_id in np.unique(class_ids)}
    boxes_of = {class_id: boxes_xyxy[rows] for class_id, rows in rows_of.items()}
    stays = np.ones(len(boxes_xyxy), bool)
    kept: list[int] = []
    for row, class_id in enumerate(class_ids.tolist()):
        if len(kept) == max_detections:
            break
        if stays[row]:
            kept.append(row)
            rivals = box_iou(boxes_xyxy[row], boxes_of[class_id]) > iou_threshold
            stays[rows_of[class_id][rivals]] = False  # better ones that stay are no rivals
    return np.array(kept, np.int64)


def box_iou(box: Floats, others: Floats) -> Floats:
    """Return the IoU [N] of a box [4] with others [N, 4], all xyxy; 0 where both are empty."""
    width = np.minimum(box[2], others[:, 2]) - np.maximum(box[0], others[:, 0])
    height = np.minimum(box[3], others[:, 3]) - np.maximum(box[1], others[:, 1])
    shared = np.maximum(width, 0.0) * np.maximum(height, 0.0)
    areas = (others[:, 2] - others[:, 0]) * (others[:, 3] - others[:, 1])
    union = (box[2] - box[0]) * (box[3] - box[1]) + areas - shared
    iou: Floats = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    return iou
