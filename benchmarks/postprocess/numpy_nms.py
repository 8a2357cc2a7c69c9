"""Greedy suppression as it is usually written in NumPy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from benchmarks.postprocess.head import Floats, Ids


def nms(boxes: Floats, scores: Floats, iou_threshold: float) -> Ids:
    """Kept indices [M], best first; boxes xyxy [N, 4], scores [N]."""
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    order = np.argsort(-scores, kind="stable")
    kept: list[int] = []
    while order.size:
        best, rest = order[0], order[1:]
        kept.append(int(best))
        order = rest[_iou(boxes[best], areas[best], boxes[rest], areas[rest]) <= iou_threshold]
    return np.array(kept, np.int64)


def batched_nms(boxes: Floats, scores: Floats, class_ids: Ids, iou_threshold: float) -> Ids:
    """The same within each class; best first over all."""
    kept = [
        rows[nms(boxes[rows], scores[rows], iou_threshold)]
        for rows in (np.flatnonzero(class_ids == each) for each in np.unique(class_ids))
    ]
    together = np.concatenate(kept)
    best_first: Ids = together[np.argsort(-scores[together], kind="stable")]
    return best_first


def _iou(
    box: Floats, area: npt.NDArray[np.float32], others: Floats, areas: Floats
) -> npt.NDArray[np.float32]:
    low = np.maximum(box[:2], others[:, :2])
    high = np.minimum(box[2:], others[:, 2:])
    shared = np.prod(np.maximum(high - low, 0), axis=1)
    iou: npt.NDArray[np.float32] = shared / (area + areas - shared)
    return iou
