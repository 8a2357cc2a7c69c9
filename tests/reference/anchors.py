"""Anchors and the boxes that offsets from them say, in float64."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Level = tuple[float, Sequence[tuple[float, float]]]  # stride, (width, height) in pixels

# Detectron's limit: a box is at most 1000/16 times its anchor.
LARGEST_LOG = math.log(1000 / 16)


def parse(text: str) -> list[Level]:
    """The levels of the parameter anchor_grid: stride:WxH,WxH;stride:WxH."""
    levels: list[Level] = []
    for level in text.split(";"):
        stride, _, sizes = level.partition(":")
        pairs = [size.split("x") for size in sizes.split(",")]
        levels.append((float(stride), [(float(w), float(h)) for w, h in pairs]))
    return levels


def grid(levels: Sequence[Level], height: int, width: int, *, offset: float = 0.5) -> Floats:
    """cx, cy, w, h of every anchor: level by level, row by row, cell by cell, size by size."""
    anchors = [
        ((column + offset) * stride, (row + offset) * stride, w, h)
        for stride, sizes in levels
        for row in range(math.ceil(height / stride))
        for column in range(math.ceil(width / stride))
        for w, h in sizes
    ]
    return np.array(anchors, np.float64).reshape(-1, 4)


def centres(corners: Floats) -> Floats:
    """x1, y1, x2, y2 -> cx, cy, w, h."""
    low, high = corners[:, :2], corners[:, 2:]
    return np.hstack([(low + high) / 2, high - low])


def decode(offsets: Floats, anchors: Floats, variances: Sequence[float]) -> Floats:
    """x1, y1, x2, y2 of the boxes; anchors are cx, cy, w, h."""
    scaled = offsets.astype(np.float64) * np.asarray(variances, np.float64)
    centre = anchors[:, :2] + scaled[:, :2] * anchors[:, 2:]
    size = anchors[:, 2:] * np.exp(np.minimum(scaled[:, 2:], LARGEST_LOG))
    return np.hstack([centre - size / 2, centre + size / 2])
