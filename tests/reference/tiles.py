"""Slicing: the tiles of an image, and the two ways to merge the detections of its tiles."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int32]
Indices = npt.NDArray[np.int64]


def starts(side: int, tile: int, overlap: float) -> list[int]:
    """Where the tiles along a side begin; the last one is moved back into the image."""
    begin, found = 0, []
    while True:
        if begin + tile >= side:
            return [*found, max(side - tile, 0)]
        found.append(begin)
        begin += tile - int(overlap * tile)


def tiles(
    image_h: int, image_w: int, tile: tuple[int, int], overlap: float, *, full: bool
) -> Floats:
    """x1, y1, x2, y2 of each tile, row by row, the whole image last."""
    found = [
        [x, y, min(x + tile[1], image_w), min(y + tile[0], image_h)]
        for y in starts(image_h, tile[0], overlap)
        for x in starts(image_w, tile[1], overlap)
    ]
    if full and len(found) > 1:
        found.append([0, 0, image_w, image_h])
    return np.array(found, np.float32)


def compute_overlap(first: Floats, second: Floats, metric: str) -> np.float32:
    """Intersection over union or over the smaller box, float32 step by step; 0 where none meet."""
    zero = np.float32(0)
    width = max(min(first[2], second[2]) - max(first[0], second[0]), zero)
    height = max(min(first[3], second[3]) - max(first[1], second[1]), zero)
    inter = np.float32(width * height)
    if not inter > 0:
        return zero
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (first, second)]
    whole = areas[0] + areas[1] - inter if metric == "iou" else min(areas)
    return np.float32(inter / whole)


def _order(boxes: Floats, scores: Floats, *, by_place: bool) -> list[int]:
    def key(i: int) -> tuple[object, ...]:
        return (-scores[i], *(boxes[i].tolist() if by_place else ()), i)

    return sorted(range(len(scores)), key=key)


def merge_nms(
    boxes: Floats, scores: Floats, classes: Integers, metric: str, threshold: float
) -> tuple[Indices, Floats]:
    """Greedy suppression: which boxes are kept, and these boxes."""
    kept: list[int] = []
    for i in _order(boxes, scores, by_place=False):
        rivals = [k for k in kept if classes[k] == classes[i]]
        if not any(float(compute_overlap(boxes[k], boxes[i], metric)) > threshold for k in rivals):
            kept.append(i)
    return np.array(kept, np.int64), boxes[kept].reshape(-1, 4)


def merge_nmm(
    boxes: Floats, scores: Floats, classes: Integers, metric: str, threshold: float
) -> tuple[Indices, Floats]:
    """Greedy merging: which boxes are kept, and what they have become."""

    def matches(first: Floats, second: Floats) -> bool:
        found = float(compute_overlap(first, second, metric))
        return found > 0 and found >= threshold

    left, kept, united = _order(boxes, scores, by_place=True), [], []
    while left:
        best, *others = left
        taken = [
            i for i in others if classes[i] == classes[best] and matches(boxes[best], boxes[i])
        ]
        whole = boxes[best].copy()
        for i in taken:
            if matches(whole, boxes[i]):
                whole[:2] = np.minimum(whole[:2], boxes[i, :2])
                whole[2:] = np.maximum(whole[2:], boxes[i, 2:])
        kept.append(best)
        united.append(whole)
        left = [i for i in others if i not in taken]
    return np.array(kept, np.int64), np.array(united, np.float32).reshape(-1, 4)
