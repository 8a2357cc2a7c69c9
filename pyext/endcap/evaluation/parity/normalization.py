"""Normalisation that a tensor shows: the straight line from pixels to its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from endcap.repository.input_normalization import Normalization

Floats = NDArray[np.float64]

_IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_CLIP = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
_CAFFE = (123.68, 116.779, 103.939)
_SLOPE_TOLERANCE = 0.01  # relative, of a line that images which are slightly off give
_SLOPE_WEIGHT = 512  # rounding shifts a line and keeps its slope, which tells 1/255 from 1/256
_SHIFT_TOLERANCE = 0.75  # in 8-bit steps, at the mean pixel


@dataclass(frozen=True)
class Line:
    """Least-squares line from the pixels of an image to a tensor's numbers.

    Attributes:
        slopes, shifts: Per channel.
        means: The mean pixel, per channel.
        correlation: The smallest of the channels; 1 where all lie on a line.
    """

    slopes: Floats
    shifts: Floats
    means: Floats
    correlation: float

    @classmethod
    def fit(cls, pixels: NDArray[np.float32], values: Floats) -> Line:
        """Return the line of pixels [N, C] in 8-bit steps and the tensor's numbers for them."""
        x, y = pixels.astype(np.float64), values
        mean_x, mean_y = x.mean(axis=0), y.mean(axis=0)
        dx, dy = x - mean_x, y - mean_y
        xx, yy, xy = ((a * b).sum(axis=0) for a, b in ((dx, dx), (dy, dy), (dx, dy)))
        slopes = xy / np.maximum(xx, 1e-12)
        correlation = xy / np.sqrt(np.maximum(xx * yy, 1e-24))
        return cls(slopes, mean_y - slopes * mean_x, mean_x, float(correlation.min()))

    def nearest(self, own: Normalization) -> tuple[Normalization, bool]:
        """Return the nearest known normalisation, or the line's, and whether it is a known one."""
        near = [
            (distance, each)
            for each in _known_normalizations(own)
            if (distance := self._distance(each)) is not None
        ]
        if near:
            return min(near, key=lambda pair: pair[0])[1], True
        return self._as_normalization(), False

    def _distance(self, other: Normalization) -> float | None:
        """Return how far away a normalisation is, in 8-bit steps; None beyond the tolerances."""
        slope = np.abs(other.slopes / self.slopes - 1).max()
        here = self.slopes * self.means + self.shifts
        there = other.slopes * self.means + other.shifts
        shift = (np.abs(here - there) / self.slopes).max()
        if slope > _SLOPE_TOLERANCE or shift > _SHIFT_TOLERANCE:
            return None
        return float(shift + slope * _SLOPE_WEIGHT)

    def _as_normalization(self) -> Normalization:
        """Return the line as parameters of four digits, as one scale where it has no mean."""
        scale, channels = float(self.slopes.mean()), len(self.slopes)
        has_mean = (np.abs(self.shifts) >= scale * _SHIFT_TOLERANCE).any()
        if np.allclose(self.slopes, scale, rtol=1e-3) and not has_mean:
            return Normalization((0.0,) * channels, (1.0,) * channels, _round(scale))
        std = [_round(1 / (255 * slope)) for slope in self.slopes]
        means = [_round(-shift * one) for shift, one in zip(self.shifts, std, strict=True)]
        return Normalization(tuple(means), tuple(std), 1 / 255)


def _round(value: float) -> float:
    return float(f"{value:.4g}") if abs(value) > 1e-4 else 0.0


def _known_normalizations(own: Normalization) -> Iterator[Normalization]:
    """Yield endcap's own, and those that libraries use, in either order of the channels."""
    yield own
    one, zero, half = (1.0,) * 3, (0.0,) * 3, (0.5,) * 3
    known: list[tuple[float, Sequence[float], Sequence[float]]] = [
        *((scale, zero, one) for scale in (1 / 255, 1.0, 1 / 256)),
        *((1 / 255, mean, std) for mean, std in (_IMAGENET, _CLIP, (half, half))),
        (1 / 255, zero, _IMAGENET[1]),
        (1 / 255, _IMAGENET[0], one),
        (1.0, [255 * value for value in _IMAGENET[0]], one),
        (1.0, _CAFFE, one),
        (1 / 128, one, one),
        *((1.0, (middle,) * 3, one) for middle in (128.0, 127.5)),  # of int8
        (own.scale, own.mean, own.std),
        (own.scale, zero, own.std),
        (own.scale, own.mean, one),
    ]
    channels = len(own.mean)
    for scale, mean, std in known:
        for step in (1, -1):
            yield Normalization(
                tuple(mean[::step][:channels]), tuple(std[::step][:channels]), scale
            )
