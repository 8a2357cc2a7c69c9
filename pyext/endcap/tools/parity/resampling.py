"""Image resizing in the variants that training pipelines use, in NumPy.

The variants that preprocess has too are computed by preprocess itself, see `imitation`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

# A bicubic filter's second parameter: Pillow's, and that of OpenCV and PyTorch without antialias.
_BICUBIC_ANTIALIASED, _BICUBIC = -0.5, -0.75
# What float32 sums may lack of a whole number.
_FLOAT_NOISE = 1e-4


@dataclass(frozen=True, kw_only=True)
class Resampling:
    """How an image is resized.

    Attributes:
        interpolation: nearest, bilinear, bicubic, area or lanczos.
        antialias: The filter widens when shrinking.
        centers: Which source position a target pixel i has: half_pixel (i + 0.5) * s - 0.5,
            asymmetric i * s, both with s = source / target; corners i * s with
            s = (source - 1) / (target - 1).
        first_pass: columns (each row gets its new width first) or rows. Only 8-bit rounding between
            the passes makes a difference.
        rounding: nearest and truncate make whole numbers, none keeps fractions.
    """

    interpolation: str
    antialias: bool
    centers: str = "half_pixel"
    first_pass: str = "columns"
    rounding: str = "nearest"


@dataclass(frozen=True)
class _Taps:
    """The source pixels of each target pixel, and their weights; both [target, taps]."""

    indices: NDArray[np.intp]
    weights: Floats


def resample(
    pixels: NDArray[np.uint8],
    size: tuple[int, int],
    how: Resampling,
    *,
    rows: NDArray[np.intp],
    columns: NDArray[np.intp],
) -> Floats:
    """Return some rows and columns of a resized image.

    Args:
        pixels: [H, W, C].
        size: Height and width of the resized image.
        how: The variant.
        rows: The rows of the resized image to compute.
        columns: The columns.

    Returns:
        [rows, columns, C], in 8-bit steps.
    """
    rounds_between = how.rounding == "nearest" and how.antialias
    passes: list[tuple[int, NDArray[np.intp]]] = [(1, columns), (0, rows)]
    if how.first_pass == "rows":
        passes.reverse()
    values: NDArray[Any] = pixels
    for number, (axis, wanted) in enumerate(passes):
        taps = _taps(pixels.shape[axis], size[axis], how.interpolation, how.antialias, how.centers)
        values = _apply(values, axis, taps.indices[wanted], taps.weights[wanted])
        if number == 0 and rounds_between:
            values = _whole(values, 0.5)
    if how.rounding == "nearest":
        return _whole(values, 0.5)
    return _whole(values, _FLOAT_NOISE) if how.rounding == "truncate" else values


def _whole(values: Floats, added: float) -> Floats:
    whole: Floats = np.clip(np.floor(values + np.float32(added)), 0, 255)
    return whole


def _apply(values: NDArray[Any], axis: int, indices: NDArray[np.intp], weights: Floats) -> Floats:
    shape = [1] * values.ndim
    shape[axis] = len(indices)
    total: Floats | None = None
    for tap in range(indices.shape[1]):
        part = np.take(values, indices[:, tap], axis=axis) * weights[:, tap].reshape(shape)
        total = part if total is None else np.add(total, part, out=total)
    assert total is not None  # an axis has one tap at least
    return total


@lru_cache(maxsize=256)
def _taps(source: int, target: int, interpolation: str, antialias: bool, centers: str) -> _Taps:
    step = source / target
    index = np.arange(target)
    if centers == "corners":
        step = (source - 1) / max(target - 1, 1)
        position = index * step
    else:
        position = index * step if centers == "asymmetric" else (index + 0.5) * step - 0.5
    if interpolation == "nearest":
        nearest = np.floor(position + (0.0 if centers == "asymmetric" else 0.5))
        chosen = np.clip(nearest, 0, source - 1).astype(np.intp)[:, None]
        return _Taps(chosen, np.ones((target, 1), np.float32))
    is_area = interpolation == "area"
    widen = max(step, 1.0) if antialias or is_area else 1.0
    support, kernel = _kernel(interpolation, antialias)
    reach = support * widen
    first = np.floor(position - reach + (0.5 if is_area else 1.0)).astype(np.intp)
    offsets = np.arange(int(np.ceil(2 * reach)) + 1)
    indices = first[:, None] + offsets
    distance = (indices - position[:, None]) / widen
    weights = kernel(distance) if not is_area else _coverage(indices, position, step)
    if antialias or is_area:  # pixels outside of the image do not count
        weights = np.where((indices >= 0) & (indices < source), weights, 0.0)
    weights = weights / weights.sum(axis=1, keepdims=True)
    return _Taps(np.clip(indices, 0, source - 1), weights.astype(np.float32))


def _coverage(
    indices: NDArray[np.intp], position: NDArray[np.float64], step: float
) -> NDArray[np.float64]:
    """Return the part of each source pixel that a target pixel covers."""
    half = max(step, 1.0) / 2
    left = np.maximum(indices - 0.5, position[:, None] - half)
    right = np.minimum(indices + 0.5, position[:, None] + half)
    covered: NDArray[np.float64] = np.maximum(right - left, 0.0)
    return covered


def _kernel(
    interpolation: str, antialias: bool
) -> tuple[float, Callable[[NDArray[np.float64]], NDArray[np.float64]]]:
    """Return half the width of a filter, and its weights by distance."""
    if interpolation == "area":
        return 0.5, lambda x: (np.abs(x) <= 0.5).astype(np.float64)
    if interpolation == "bilinear":
        return 1.0, lambda x: np.maximum(1.0 - np.abs(x), 0.0)
    if interpolation == "bicubic":
        a = _BICUBIC_ANTIALIASED if antialias else _BICUBIC
        return 2.0, lambda x: _bicubic(np.abs(x), a)
    return 3.0, lambda x: np.where(np.abs(x) < 3.0, np.sinc(x) * np.sinc(x / 3.0), 0.0)


def _bicubic(x: NDArray[np.float64], a: float) -> NDArray[np.float64]:
    near = ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    far = ((x - 5.0) * x + 8.0) * x * a - 4.0 * a
    return np.where(x < 1.0, near, np.where(x < 2.0, far, 0.0))
