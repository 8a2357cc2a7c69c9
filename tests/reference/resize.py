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


def linear_weights(source: int, target: int, *, antialias: bool) -> Doubles:
    """Matrix [target, source]: a triangle around each target centre, as wide as one source pixel.

    With antialias the triangle is as wide as one target pixel when that is wider, and weights that
    fall outside the picture are left out. Without, the edge pixel stands for them.
    """
    scale = source / target
    width = max(scale, 1.0) if antialias else 1.0
    weights = np.zeros((target, source))
    for i in range(target):
        center = (i + 0.5) * scale
        for j in range(math.floor(center - width) - 1, math.ceil(center + width) + 2):
            weight = max(0.0, 1.0 - abs(j + 0.5 - center) / width)
            if antialias and not 0 <= j < source:
                continue
            weights[i, min(max(j, 0), source - 1)] += weight
    weights /= weights.sum(axis=1, keepdims=True)
    return weights


def keys_cubic(distance: float, a: float) -> float:
    """Keys' cubic convolution kernel, 1 at 0 and 0 from 2 on."""
    x = abs(distance)
    if x < 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    if x < 2:
        return a * (x**3 - 5 * x**2 + 8 * x - 4)
    return 0.0


def cubic_weights(source: int, target: int, *, antialias: bool) -> Doubles:
    """Matrix [target, source] of cubic convolution.

    Without antialias a is -0.75 and the edge pixels stand for those outside; with antialias a is
    -0.5, the kernel widens when shrinking, and weights outside the picture are left out.
    """
    scale = source / target
    stretch = max(scale, 1.0) if antialias else 1.0
    a = -0.5 if antialias else -0.75
    weights = np.zeros((target, source))
    for i in range(target):
        center = (i + 0.5) * scale
        for j in range(math.floor(center - 2 * stretch) - 1, math.ceil(center + 2 * stretch) + 2):
            if antialias and not 0 <= j < source:
                continue
            weight = keys_cubic((j + 0.5 - center) / stretch, a)
            weights[i, min(max(j, 0), source - 1)] += weight
    weights /= weights.sum(axis=1, keepdims=True)
    return weights


def cover_weights(source: int, target: int) -> Doubles:
    """Matrix [target, source] of the share of a target pixel that each source pixel makes."""
    scale = source / target
    weights = np.zeros((target, source))
    for i in range(target):
        for j in range(math.floor(i * scale), min(math.ceil((i + 1) * scale) + 1, source)):
            weights[i, j] = max(0.0, min((i + 1) * scale, j + 1) - max(i * scale, j))
    weights /= weights.sum(axis=1, keepdims=True)
    return weights


def resize_nearest(image: Image, height: int, width: int) -> Image:
    rows = nearest_indices(image.shape[0], height)
    columns = nearest_indices(image.shape[1], width)
    return image[rows][:, columns]


def apply_weights(image: Image, rows: Doubles, columns: Doubles) -> Doubles:
    """float64 [height, width, C], not rounded."""
    pixels = image.astype(np.float64)
    resized: Doubles = np.einsum("yh,hwc,xw->yxc", rows, pixels, columns, optimize=True)
    return resized


def resize_linear(image: Image, height: int, width: int, *, antialias: bool = False) -> Doubles:
    """float64 [height, width, C], not rounded."""
    rows = linear_weights(image.shape[0], height, antialias=antialias)
    columns = linear_weights(image.shape[1], width, antialias=antialias)
    return apply_weights(image, rows, columns)


def resize_cubic(image: Image, height: int, width: int, *, antialias: bool = False) -> Doubles:
    """float64 [height, width, C], neither rounded nor clipped."""
    rows = cubic_weights(image.shape[0], height, antialias=antialias)
    columns = cubic_weights(image.shape[1], width, antialias=antialias)
    return apply_weights(image, rows, columns)


def shrink_area(image: Image, height: int, width: int) -> Doubles:
    """The mean of what each pixel covers; float64 [height, width, C], not rounded."""
    rows = cover_weights(image.shape[0], height)
    columns = cover_weights(image.shape[1], width)
    return apply_weights(image, rows, columns)
