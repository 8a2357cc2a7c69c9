"""Suppression by the peers: each function takes NumPy arrays once, and gives what is then timed.

Conversions to a peer's own types happen before, outside the measured time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

import endcap
from benchmarks.postprocess.head import Floats, Ids
from benchmarks.postprocess.verify import OFFSET_SHARE


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
    """Return the same within each class; best first over all."""
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


IOU_THRESHOLD = 0.7
Kept = Callable[[], Any]


@dataclass(frozen=True)
class NmsPeer:
    """make: boxes, scores and class ids (None: suppress across classes) to the function timed.

    Attributes:
        share: Of the kept boxes, how many must be endcap's.
    """

    make: Callable[[Floats, Floats, Ids | None], Kept]
    share: float = 1.0


def _endcap(boxes: Floats, scores: Floats, class_ids: Ids | None) -> Kept:
    if class_ids is None:
        return lambda: endcap.nms(boxes, scores, IOU_THRESHOLD)
    narrow = class_ids.astype(np.int32)
    return lambda: endcap.batched_nms(boxes, scores, narrow, IOU_THRESHOLD)


def _torchvision(boxes: Floats, scores: Floats, class_ids: Ids | None) -> Kept:
    import torch
    from torchvision import ops

    torch.set_num_threads(1)
    box_tensor, score_tensor = torch.from_numpy(boxes), torch.from_numpy(scores)
    if class_ids is None:
        return lambda: ops.nms(box_tensor, score_tensor, IOU_THRESHOLD)
    ids = torch.from_numpy(class_ids)
    return lambda: ops.batched_nms(box_tensor, score_tensor, ids, IOU_THRESHOLD)


def _opencv(boxes: Floats, scores: Floats, class_ids: Ids | None) -> Kept:
    cv2: Any = import_module("cv2")
    cv2.setNumThreads(1)
    xywh = np.concatenate([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], axis=1).astype(np.float64)
    if class_ids is None:
        return lambda: cv2.dnn.NMSBoxes(xywh, scores, 0.0, IOU_THRESHOLD)
    ids = class_ids.astype(np.int32)
    return lambda: cv2.dnn.NMSBoxesBatched(xywh, scores, ids, 0.0, IOU_THRESHOLD)


def _numpy(boxes: Floats, scores: Floats, class_ids: Ids | None) -> Kept:
    if class_ids is None:
        return lambda: nms(boxes, scores, IOU_THRESHOLD)
    return lambda: batched_nms(boxes, scores, class_ids, IOU_THRESHOLD)


NMS_PEERS: Mapping[str, NmsPeer] = {
    "endcap": NmsPeer(_endcap),
    "torchvision": NmsPeer(_torchvision),
    "OpenCV": NmsPeer(_opencv, OFFSET_SHARE),
    "NumPy": NmsPeer(_numpy),
}
