"""Normalisation that a tensor shows: the straight line from pixels to its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_CLIP = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
_CAFFE = (123.68, 116.779, 103.939)
_SLOPE_TOLERANCE = 0.01  # relative, of a line that images which are slightly off give
# Truncation shifts a line and keeps its slope, by which 1/255 and 1/256 are told apart.
_SLOPE_WEIGHT = 512
_SHIFT_TOLERANCE = 0.75  # in 8-bit steps, at the mean pixel; more than half a step of truncation


@dataclass(frozen=True)
class Normalization:
    """y = (x * scale - mean) / std, per channel of the tensor, as preprocess has it."""

    scale: float
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @property
    def slopes(self) -> Floats:
        """What one 8-bit step is in the tensor, per channel."""
        return self.scale / np.array(self.std, np.float64)

    @property
    def shifts(self) -> Floats:
        """What a black pixel is in the tensor, per channel."""
        return -np.array(self.mean, np.float64) / np.array(self.std, np.float64)

    def apply(self, pixels: NDArray[np.float32]) -> Floats:
        """Return the tensor's numbers for pixels [..., C] in 8-bit steps."""
        return pixels * self.slopes + self.shifts

    def undo(self, values: Floats) -> Floats:
        """Return pixels in 8-bit steps for a tensor's numbers [H, W, C]."""
        height, width, channels = values.shape
        # Whole rows at once: NumPy takes several times as long for three channels at a time.
        rows = values.reshape(height, width * channels)
        shifts, slopes = np.tile(self.shifts, width), np.tile(self.slopes, width)
        return ((rows - shifts) / slopes).reshape(values.shape)

    def parameters(self) -> dict[str, str]:
        """Return it as parameters of preprocess."""
        return {
            "scale": number(self.scale),
            "mean": ",".join(map(number, self.mean)),
            "std": ",".join(map(number, self.std)),
        }


def number(value: float) -> str:
    """Return a number as short as it can be."""
    return str(int(value)) if value == int(value) else repr(float(value))


@dataclass(frozen=True)
class Line:
    """Least-squares line from pixels to a tensor's numbers, of one image.

    Attributes:
        slopes, shifts: Per channel.
        means: The mean pixel, per channel.
        correlation: The smallest of the channels; 1 where all lie on a line, 0 where nothing does.
    """

    slopes: Floats
    shifts: Floats
    means: Floats
    correlation: float

    def near(self, other: Normalization) -> float | None:
        """Return how far away a normalisation is, in 8-bit steps; None beyond the tolerances."""
        if (self.slopes <= 0).any():
            return None
        slope = np.abs(other.slopes / self.slopes - 1).max()
        here = self.slopes * self.means + self.shifts
        there = other.slopes * self.means + other.shifts
        shift = (np.abs(here - there) / self.slopes).max()
        if slope > _SLOPE_TOLERANCE or shift > _SHIFT_TOLERANCE:
            return None
        return float(shift + slope * _SLOPE_WEIGHT)

    def as_normalization(self) -> Normalization:
        """Return it as parameters, of four digits; without a mean as one scale."""
        scale = float(self.slopes.mean())
        is_one = bool(np.allclose(self.slopes, scale, rtol=1e-3))
        if is_one and (np.abs(self.shifts) < scale * _SHIFT_TOLERANCE).all():
            whole = round(1 / scale) if scale < 1 else 0
            exact = 1 / whole if whole and abs(scale * whole - 1) < 1e-3 else _rounded(scale)
            channels = len(self.slopes)
            return Normalization(exact, (0.0,) * channels, (1.0,) * channels)
        std = [_rounded(1 / (255 * slope)) for slope in self.slopes]
        means = [_rounded(-shift * one) for shift, one in zip(self.shifts, std, strict=True)]
        return Normalization(1 / 255, tuple(means), tuple(std))


def _rounded(value: float) -> float:
    return float(f"{value:.4g}") if abs(value) > 1e-4 else 0.0


def fit_line(pixels: NDArray[np.float32], values: Floats) -> Line:
    """Return the line of one image.

    Args:
        pixels: [N, C], in 8-bit steps.
        values: The tensor's numbers for them.
    """
    x, y = (np.ascontiguousarray(each.T, np.float64) for each in (pixels, values))
    mean_x, mean_y = x.mean(axis=1), y.mean(axis=1)
    dx, dy = x - mean_x[:, None], y - mean_y[:, None]
    xx, yy, xy = (np.einsum("cn,cn->c", *each) for each in ((dx, dx), (dy, dy), (dx, dy)))
    slopes = xy / np.maximum(xx, 1e-12)
    correlation = xy / np.sqrt(np.maximum(xx * yy, 1e-24))
    return Line(slopes, mean_y - slopes * mean_x, mean_x, float(correlation.min()))


def known_normalizations(own: Normalization) -> list[Normalization]:
    """Return endcap's own, and those that libraries use, in either order of the channels."""
    channels = len(own.mean)
    found = [own]

    def add(scale: float, mean: Sequence[float], std: Sequence[float]) -> None:
        for step in (1, -1):
            each = tuple(mean)[::step][:channels], tuple(std)[::step][:channels]
            found.append(Normalization(scale, each[0], each[1]))

    one, zero, half = (1.0,) * 3, (0.0,) * 3, (0.5,) * 3
    for scale in (1 / 255, 1.0, 1 / 256):
        add(scale, zero, one)
    for mean, std in (_IMAGENET, _CLIP, (half, half)):
        add(1 / 255, mean, std)
    add(1 / 255, zero, _IMAGENET[1])
    add(1 / 255, _IMAGENET[0], one)
    add(1.0, [255 * value for value in _IMAGENET[0]], one)
    add(1.0, _CAFFE, one)
    add(1 / 128, one, one)
    for middle in (128.0, 127.5):  # of whole numbers with a sign
        add(1.0, [middle] * 3, one)
    add(own.scale, own.mean, own.std)
    add(own.scale, zero, own.std)
    add(own.scale, own.mean, one)
    return found


def snap(line: Line, own: Normalization) -> tuple[Normalization, bool]:
    """Return the nearest known normalisation, or the line itself, and whether it is a known one."""
    near = [
        (distance, each)
        for each in known_normalizations(own)
        if (distance := line.near(each)) is not None
    ]
    if near:
        return min(near, key=lambda pair: pair[0])[1], True
    return line.as_normalization(), False
