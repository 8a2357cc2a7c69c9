"""Suppression by the peers: each function takes NumPy arrays once, and gives what is then timed.

Conversions to a peer's own types happen before, outside the measured time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

import endcap
from benchmarks.postprocess import numpy_nms
from benchmarks.postprocess.head import Floats, Ids
from benchmarks.postprocess.verify import OFFSET_SHARE

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
        return lambda: numpy_nms.nms(boxes, scores, IOU_THRESHOLD)
    return lambda: numpy_nms.batched_nms(boxes, scores, class_ids, IOU_THRESHOLD)


NMS_PEERS: Mapping[str, NmsPeer] = {
    "endcap": NmsPeer(_endcap),
    "torchvision": NmsPeer(_torchvision),
    "OpenCV": NmsPeer(_opencv, OFFSET_SHARE),
    "NumPy": NmsPeer(_numpy),
}
