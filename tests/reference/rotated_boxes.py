"""Rotated boxes in float64: IoU by clipping polygons, probabilistic IoU, and suppression."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tests.reference.boxes import best_first

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Pair = Callable[[Floats, Floats], float]


def corners(box: Floats) -> Doubles:
    """The corners [4, 2] of a box cx, cy, w, h, angle, each the next one's neighbour."""
    cx, cy, w, h, angle = box.astype(np.float64)
    width = 0.5 * w * np.array([np.cos(angle), np.sin(angle)])
    height = 0.5 * h * np.array([-np.sin(angle), np.cos(angle)])
    centre = np.array([cx, cy])
    return np.stack(
        [
            centre + width + height,
            centre - width + height,
            centre - width - height,
            centre + width - height,
        ]
    )


def le90(box: Floats) -> Floats:
    """The same rectangle with an angle in [0, pi/2): width and height change places for each turn
    by a quarter."""
    cx, cy, w, h, angle = box.astype(np.float64)
    turns = int(np.floor(angle / (np.pi / 2)))
    sides = (h, w) if turns % 2 else (w, h)
    return np.array([cx, cy, *sides, angle - turns * np.pi / 2], np.float32)


def cut(polygon: Doubles, start: Doubles, end: Doubles) -> Doubles:
    """What of a polygon [K, 2] lies to the left of the line from start to end."""
    along = end - start
    sides = along[0] * (polygon[:, 1] - start[1]) - along[1] * (polygon[:, 0] - start[0])
    kept: list[Doubles] = []
    for i in range(len(polygon)):
        here, there = polygon[i - 1], polygon[i]
        if (sides[i - 1] >= 0) != (sides[i] >= 0):
            kept.append(here + (there - here) * (sides[i - 1] / (sides[i - 1] - sides[i])))
        if sides[i] >= 0:
            kept.append(there)
    return np.array(kept).reshape(-1, 2)


def area(polygon: Doubles) -> float:
    """The shoelace formula."""
    if len(polygon) < 3:
        return 0.0
    moved = polygon - polygon[0]
    x, y = moved[:, 0], moved[:, 1]
    return 0.5 * float(np.abs(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1))))


def polygon_iou(first: Floats, second: Floats) -> float:
    """IoU of the rectangles; NaN where neither has an area or a number is not finite."""
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        return float("nan")
    areas = [float(np.float64(b[2]) * b[3]) if min(b[2:4]) > 0 else 0.0 for b in (first, second)]
    if min(areas) == 0:
        return 0.0 if max(areas) > 0 else float("nan")
    # By differences of centres: float32 coordinates that are large lose nothing.
    moved = second.astype(np.float64)
    moved[:2] -= first[:2]
    frame = corners(np.append(np.zeros(2, np.float32), first[2:]))
    polygon = corners(moved)
    for i in range(4):
        polygon = cut(polygon, frame[i - 1], frame[i])
    shared = area(polygon)
    return shared / (areas[0] + areas[1] - shared)


def probiou(first: Floats, second: Floats) -> float:
    """1 less the Hellinger distance (arXiv 2106.06072), with the epsilons of ultralytics."""
    eps = 1e-7
    with np.errstate(all="ignore"):
        (a1, b1, c1), (a2, b2, c2) = covariance(first), covariance(second)
        dx, dy = (second[:2].astype(np.float64) - first[:2]).tolist()
        a, b, c = a1 + a2, b1 + b2, c1 + c2
        determinant = a * b - c * c
        places = (a * dy**2 + b * dx**2 - 2 * c * dx * dy) / (determinant + eps) / 4
        each = np.sqrt(np.maximum(a1 * b1 - c1**2, 0) * np.maximum(a2 * b2 - c2**2, 0))
        shapes = np.log(determinant / (4 * each + eps) + eps) / 2
        distance = np.clip(places + shapes, eps, 100.0)
        return float(1 - np.sqrt(1 - np.exp(-distance) + eps))


def covariance(box: Floats) -> tuple[np.float64, np.float64, np.float64]:
    """a, b, c of the covariance [[a, c], [c, b]] of a uniform distribution over a box."""
    w, h, angle = box[2:].astype(np.float64)
    along, across, cos, sin = w**2 / 12, h**2 / 12, np.cos(angle), np.sin(angle)
    return (
        along * cos**2 + across * sin**2,
        along * sin**2 + across * cos**2,
        (along - across) * cos * sin,
    )


PAIRS: dict[str, Pair] = {"polygon": polygon_iou, "probiou": probiou, "probiou_fast": probiou}


def iou_matrix(boxes_a: Floats, boxes_b: Floats, method: str) -> Doubles:
    """The IoU of every box with every other, [N, M]."""
    pair = PAIRS[method]
    rows = [[pair(a, b) for b in boxes_b] for a in boxes_a]
    return np.array(rows, np.float64).reshape(len(boxes_a), len(boxes_b))


def suppress(
    ious: npt.NDArray[np.floating],
    scores: Floats,
    iou_threshold: float,
    *,
    class_ids: npt.NDArray[np.integer] | None = None,
    method: str = "polygon",
) -> Indices:
    """The indices that are kept, by the IoUs of all pairs [N, N].

    A box goes when a better box of its class overlaps it too much: one that was kept, or, for
    probiou_fast, any.
    """
    kept: list[int] = []
    suppressing: list[int] = []
    for candidate in best_first(scores):
        falls = any(
            ious[other, candidate] > iou_threshold
            and (class_ids is None or class_ids[other] == class_ids[candidate])
            for other in suppressing
        )
        if not falls:
            kept.append(int(candidate))
        if not falls or method == "probiou_fast":
            suppressing.append(int(candidate))
    return np.array(kept, dtype=np.int64)
