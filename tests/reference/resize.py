"""Resizing by definition: float64, half-pixel centres, edges repeated."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]
Image = npt.NDArray[np.uint8]


def nearest_indices(source: int, target: int) -> npt.NDArray[np.int64]:
    """The source position under the centre of each target position."""
    # floor((i + 0.5) * source / target) in whole numbers: exact where the centre hits an edge.
    return np.array([(2 * i + 1) * source // (2 * target) for i in range(target)], np.int64)


def linear_weights(source: int, target: int) -> Doubles:
    """Matrix [target, source]: a triangle around each target centre, as wide as one source pixel.

    The edge pixels stand for those outside of the picture.
    """
    weights = np.zeros((target, source))
    for i in range(target):
        center = (i + 0.5) * source / target
        for j in range(math.floor(center - 1) - 1, math.ceil(center + 1) + 2):
            weights[i, min(max(j, 0), source - 1)] += max(0.0, 1.0 - abs(j + 0.5 - center))
    weights /= weights.sum(axis=1, keepdims=True)
    return weights


def resize_nearest(image: Image, height: int, width: int) -> Image:
    rows = nearest_indices(image.shape[0], height)
    columns = nearest_indices(image.shape[1], width)
    return image[rows][:, columns]


def resize_linear(image: Image, height: int, width: int) -> Doubles:
    """float64 [height, width, C], not rounded."""
    rows = linear_weights(image.shape[0], height)
    columns = linear_weights(image.shape[1], width)
    pixels = image.astype(np.float64)
    resized: Doubles = np.einsum("yh,hwc,xw->yxc", rows, pixels, columns, optimize=True)
    return resized
