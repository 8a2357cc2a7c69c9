"""Suppression alone: axis-aligned boxes, across and within classes, and rotated boxes.

Conversions to a peer's types are outside the measured time.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

import endcap
from benchmarks.cpu.heads import (
    IOU_THRESHOLD,
    NUM_CLASSES,
    OFFSET_SHARE,
    Floats,
    Ids,
    add_row,
    judge,
    make_head,
    rotated_boxes,
)
from benchmarks.cpu.peers import one_torch_thread
from benchmarks.results import Table
from benchmarks.timing import Budget, Case, Entry, load, one_cpu

NUM_BOXES = 30_000
ROTATED_THRESHOLD = 0.45
Keep = Callable[[], Any]


def candidates(head: Floats, score_threshold: float, most: int) -> tuple[Floats, Floats, Ids]:
    """Return boxes xyxy [N, 4], scores [N] and class ids [N] of a head, best first."""
    anchor, class_id = np.nonzero(score_threshold < head[4:].T)
    score = head[4 + class_id, anchor]
    best = np.argsort(-score, kind="stable")[:most]
    anchor, class_id, score = anchor[best], class_id[best], score[best]
    centre, half = head[:2, anchor].T, head[2:4, anchor].T / 2
    boxes = np.concatenate([centre - half, centre + half], axis=1)
    return np.ascontiguousarray(boxes, np.float32), score, class_id


def nms(boxes: Floats, scores: Floats, iou_threshold: float) -> Ids:
    """Return kept indices, best first, with NumPy."""
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    order = np.argsort(-scores, kind="stable")
    kept: list[int] = []
    while order.size:
        best, rest = order[0], order[1:]
        kept.append(int(best))
        low = np.maximum(boxes[best, :2], boxes[rest, :2])
        high = np.minimum(boxes[best, 2:], boxes[rest, 2:])
        shared = np.prod(np.maximum(high - low, 0), axis=1)
        order = rest[shared / (areas[best] + areas[rest] - shared) <= iou_threshold]
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


def _endcap(boxes: Floats, scores: Floats, class_ids: Ids | None) -> Keep:
    if class_ids is None:
        return lambda: endcap.nms(boxes, scores, IOU_THRESHOLD)
    narrow = class_ids.astype(np.int32)
    return lambda: endcap.batched_nms(boxes, scores, narrow, IOU_THRESHOLD)


def _torchvision(boxes: Floats, scores: Floats, class_ids: Ids | None) -> Keep:
    torch, ops = one_torch_thread(), import_module("torchvision.ops")
    given = [torch.from_numpy(array) for array in (boxes, scores)]
    if class_ids is None:
        return lambda: ops.nms(*given, IOU_THRESHOLD)
    ids = torch.from_numpy(class_ids)
    return lambda: ops.batched_nms(*given, ids, IOU_THRESHOLD)


def _opencv(boxes: Floats, scores: Floats, class_ids: Ids | None) -> Keep:
    cv2: Any = import_module("cv2")
    cv2.setNumThreads(1)
    xywh = np.concatenate([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], axis=1).astype(np.float64)
    if class_ids is None:
        return lambda: cv2.dnn.NMSBoxes(xywh, scores, 0.0, IOU_THRESHOLD)
    ids = class_ids.astype(np.int32)
    return lambda: cv2.dnn.NMSBoxesBatched(xywh, scores, ids, 0.0, IOU_THRESHOLD)


def _numpy(boxes: Floats, scores: Floats, class_ids: Ids | None) -> Keep:
    if class_ids is None:
        return lambda: nms(boxes, scores, IOU_THRESHOLD)
    return lambda: batched_nms(boxes, scores, class_ids, IOU_THRESHOLD)


# With the share of the kept boxes that must be endcap's.
PEERS = {
    "torchvision": (_torchvision, 1.0),
    "OpenCV": (_opencv, OFFSET_SHARE),
    "NumPy": (_numpy, 1),
}


def _entries(boxes: Floats, scores: Floats, class_ids: Ids | None) -> dict[str, Entry]:
    ours = _endcap(boxes, scores, class_ids)
    kept = _indices(ours())
    entries: dict[str, Entry] = {"endcap": Case(ours)}
    for name, (make, share) in PEERS.items():
        keep = load(lambda make=make: make(boxes, scores, class_ids))  # type: ignore[misc]
        entries[name] = _judge(keep, kept, share)
    return entries


def _rotated_ultralytics(boxes: Floats, scores: Floats) -> Keep:
    """Return ultralytics' suppression of a head of these candidates alone."""
    torch = one_torch_thread()
    suppress = import_module("ultralytics.utils.nms").non_max_suppression
    head = torch.from_numpy(np.concatenate([boxes[:, :4], scores[:, None], boxes[:, 4:]], axis=1))
    options: dict[str, Any] = {"conf_thres": 0.0, "iou_thres": ROTATED_THRESHOLD, "nc": 1}
    options |= {"max_det": len(scores), "rotated": True, "max_time_img": 1e9, "return_idxs": True}
    tensor = head.T[None].contiguous()
    return lambda: suppress(tensor, **options)[1][0]


def _rotated_opencv(boxes: Floats, scores: Floats) -> Keep:
    cv2: Any = import_module("cv2")
    cv2.setNumThreads(1)
    rectangles = [((b[0], b[1]), (b[2], b[3]), float(np.degrees(b[4]))) for b in boxes.tolist()]
    numbers = scores.tolist()
    return lambda: cv2.dnn.NMSBoxesRotated(rectangles, numbers, 0.0, ROTATED_THRESHOLD)


def _rotated_entries(method: Any, name: str, make: Callable[..., Keep]) -> dict[str, Entry]:
    boxes, scores = rotated_boxes()

    def ours() -> Any:
        return endcap.nms_rotated(boxes, scores, ROTATED_THRESHOLD, method=method)

    kept = _indices(ours())
    keep = load(lambda: make(boxes, scores))
    entries: dict[str, Entry] = {"endcap": Case(ours)}
    entries[name] = _judge(keep, kept, OFFSET_SHARE)
    return entries


def _judge(keep: Keep | str, kept: list[int], share: float) -> Entry:
    return keep if isinstance(keep, str) else judge(keep, _indices(keep()), kept, share)


def _indices(kept: Any) -> list[int]:
    return [int(index) for index in np.asarray(kept).ravel()]


def run(num_boxes: int, budget: Budget, say: Callable[[str], None]) -> Table:
    """Verify and time every method, on one CPU."""
    table = Table("Suppression", "ms", ["endcap", *PEERS, "ultralytics"])
    boxes, scores, ids = candidates(make_head(), 0.001, num_boxes)
    rows: dict[str, Callable[[], dict[str, Entry]]] = {
        f"nms, {num_boxes:,} boxes": lambda: _entries(boxes, scores, None),
        f"batched_nms, {num_boxes:,} boxes, {NUM_CLASSES} classes": lambda: _entries(
            boxes, scores, ids
        ),
        "nms_rotated probiou_fast, 1,000 boxes": lambda: _rotated_entries(
            "probiou_fast", "ultralytics", _rotated_ultralytics
        ),
        "nms_rotated polygon, 1,000 boxes": lambda: _rotated_entries(
            "polygon", "OpenCV", _rotated_opencv
        ),
    }
    with one_cpu():
        for name, entries in rows.items():
            add_row(table, name, entries(), budget)
            say(name)
    return table
