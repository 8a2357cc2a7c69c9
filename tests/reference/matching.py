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


def assign_all(gains: Floats, ious: Floats, least_iou: float) -> list[tuple[int, int]]:
    """Return the pairs of the best complete assignment that overlap enough, by rows."""
    rows, columns = linear_sum_assignment(gains, maximize=True)
    least = np.float32(least_iou)
    pairs = zip(rows.tolist(), columns.tolist(), strict=True)
    return [(row, column) for row, column in pairs if np.float32(ious[row, column]) >= least]
