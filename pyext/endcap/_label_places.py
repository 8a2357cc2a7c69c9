"""Finds room for labels beside their boxes, so that none hides another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Corner = tuple[int, int]
Size = tuple[int, int]

# A label of which others would hide more than this share of its area is left out.
_TOLERATED_OVERLAP = 0.05


def place_labels(
    boxes: Sequence[tuple[int, int, int, int]], sizes: Sequence[Size], picture: Size
) -> list[Corner | None]:
    """Return the upper left corner of each label, None for one that finds no room.

    A label stands above its box where there is room, else below, beside or inside of it, and always
    within the picture unless it is larger than that. The first one always finds room.

    Args:
        boxes: X1, y1, x2, y2 in pixels of the picture, the most important first: it chooses first.
        sizes: Width and height of each label; picture: width and height.
    """
    taken = np.zeros((len(boxes), 4), np.int64)
    corners: list[Corner | None] = []
    count = 0
    for box, size in zip(boxes, sizes, strict=True):
        choices = _choices(box, size, picture)
        shares = _overlap(choices, taken[:count]) / (size[0] * size[1])
        best = int(np.argmin(shares))  # the first of equals: the choices come best first
        if shares[best] > _TOLERATED_OVERLAP:
            corners.append(None)
            continue
        taken[count] = choices[best]
        count += 1
        corners.append((int(choices[best, 0]), int(choices[best, 1])))
    return corners


def _choices(box: tuple[int, int, int, int], size: Size, picture: Size) -> npt.NDArray[np.int64]:
    """Return where a label may stand, int64 [10, 4] as x1, y1, x2, y2, the best place first."""
    (left, top, right, bottom), (width, height) = box, size
    corners = [
        (left, top - height),
        (right - width + 1, top - height),
        (left, bottom + 1),
        (right - width + 1, bottom + 1),
        (right + 1, top),
        (left - width, top),
        (left, top),
        (left, bottom - height + 1),
        (right - width + 1, top),
        (right - width + 1, bottom - height + 1),
    ]
    # Pushed back into the picture, a place may come to lie over the box: those come last.
    inside = [_pushed_inside(corner, size, picture) for corner in corners]
    kept = [corner for corner in inside if corner in corners]
    moved = [corner for corner in inside if corner not in corners]
    return np.array([(x, y, x + width, y + height) for x, y in kept + moved], np.int64)


def _pushed_inside(corner: Corner, size: Size, picture: Size) -> Corner:
    x, y = (
        max(0, min(start, whole - part))
        for start, part, whole in zip(corner, size, picture, strict=True)
    )
    return x, y


def _overlap(choices: npt.NDArray[np.int64], taken: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the pixels of each choice that lie in rectangles taken already, int64 [choices]."""
    low = np.maximum(choices[:, None, :2], taken[None, :, :2])
    high = np.minimum(choices[:, None, 2:], taken[None, :, 2:])
    sides = np.maximum(high - low, 0)
    return np.asarray((sides[..., 0] * sides[..., 1]).sum(axis=1))
