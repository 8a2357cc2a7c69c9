"""What numbers of a trial run tell of themselves: units of boxes, kinds of scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from endcap.repository.decision import Decision

Numbers = NDArray[np.float64]

_NOT_TRIED = "assumed, as it could not be tried"
_LARGEST_FRACTION = 2.0  # a box given as a fraction of the image, with room for what sticks out
_LARGEST_LOGIT = 50.0  # far beyond what a network's last layer gives, and coordinates reach


def box_unit(boxes: Numbers | None) -> Decision:
    """Whether boxes [N, 4] are in pixels or fractions of the image."""
    if boxes is None:
        return Decision("pixel", _NOT_TRIED)
    if not boxes.any():
        return Decision("pixel", "assumed, as nothing is found in noise")
    largest = float(np.abs(boxes).max())
    if largest <= _LARGEST_FRACTION:
        return Decision("normalized", f"no box of a trial run exceeds {largest:.2f}")
    return Decision("pixel", f"boxes of a trial run reach {largest:.0f}")


def score_activation(scores: Numbers | None) -> Decision | None:
    """What scores [N, C] still need; None where their columns are not all of one kind."""
    if scores is None:
        return Decision("none", _NOT_TRIED)
    low, high = float(scores.min()), float(scores.max())
    if low >= 0 and high <= 1:
        return Decision("none", "scores of a trial run are from 0 to 1")
    leaves = (scores.min(axis=0) < 0) | (scores.max(axis=0) > 1)
    if not leaves.all() or max(-low, high) > _LARGEST_LOGIT:
        return None
    return Decision("sigmoid", f"scores of a trial run are from {low:.1f} to {high:.1f}")


def cover_image(boxes: Numbers, size: tuple[int, int]) -> bool:
    """Whether the centres of boxes [N, 4] lie all over the image, as those of grids do."""
    width = size[1] if np.abs(boxes).max() > _LARGEST_FRACTION else 1
    return float(np.ptp(boxes[:, 0])) > width / 2


def have_sizes(boxes: Numbers) -> bool:
    """Whether boxes [N, 4] as centre and size may be some; logarithms of sizes are negative."""
    return bool((boxes[:, 2:] >= 0).all())


def are_corners(boxes: Numbers) -> bool:
    """Whether boxes [N, 4] may be x1, y1, x2, y2."""
    return bool((boxes[:, 2:] >= boxes[:, :2]).all())
