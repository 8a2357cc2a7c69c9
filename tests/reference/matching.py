"""Overlaps of boxes, and the assignment of all that can be assigned."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

Floats = npt.NDArray[np.float64]


def overlaps(boxes: Any, others: Any) -> Floats:
    """Return the IoU of each box with each other, rounded to float32."""
    first = np.asarray(boxes, np.float64).reshape(-1, 1, 4)
    second = np.asarray(others, np.float64).reshape(1, -1, 4)
    sides = np.minimum(first[..., 2:], second[..., 2:]) - np.maximum(
        first[..., :2], second[..., :2]
    )
    common = np.maximum(sides, 0).prod(axis=-1)
    areas = [(each[..., 2:] - each[..., :2]).prod(axis=-1) for each in (first, second)]
    return (common / (areas[0] + areas[1] - common)).astype(np.float32).astype(np.float64)


def match(
    tracks: list[Any],
    numbers: list[int],
    detections: tuple[Floats, Any],
    track_boxes: Any,
    least_iou: float,
    *,
    class_agnostic: bool,
    momentum: Floats | float = 0.0,
) -> list[tuple[Any, int]]:
    """Take the pairs of the best complete assignment that overlap enough from both lists.

    Args:
        tracks: Tracks without a detection.
        numbers: Detections without a track.
        detections: Boxes and class ids of all detections.
        track_boxes: A box for each track.
        least_iou: The least overlap of a pair.
        class_agnostic: Whether a track may take a detection of another class.
        momentum: What each pair gains in addition to its overlap.
    """
    boxes, class_ids = detections
    ious = overlaps(track_boxes, boxes[numbers])
    if not class_agnostic:
        classes = np.array([track.class_id for track in tracks]).reshape(-1, 1)
        ious[classes != np.asarray(class_ids)[numbers]] = 0
    chosen = zip(*linear_sum_assignment(ious + momentum, maximize=True), strict=True)
    least = np.float32(least_iou)
    pairs = {row: column for row, column in chosen if np.float32(ious[row, column]) >= least}
    matched = [(tracks[row], numbers[column]) for row, column in pairs.items()]
    for track, number in matched:
        track.class_id = int(class_ids[number])
    tracks[:] = [track for row, track in enumerate(tracks) if row not in pairs]
    columns = set(pairs.values())
    numbers[:] = [each for column, each in enumerate(numbers) if column not in columns]
    return matched


def turn_and_scale(camera: Floats) -> tuple[Floats, float]:
    """Return the linear part of a camera's motion [2, 3], and by what it scales lengths."""
    turn = camera[:, :2]
    return turn, float(np.sqrt(np.linalg.det(turn)))
