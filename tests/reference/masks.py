"""Prototypes and coefficients -> instance masks, pixel by pixel, and COCO's RLE by pycocotools."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pycocotools import mask as coco

from tests.reference.detections import to_source

Floats = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Axis:
    """Where the pixel centres of a mask lie among the prototype pixels of one axis, float64."""

    pixels: int
    ratio: float
    scale: float = 1.0
    pad: float = 0.0
    low: int = 0
    high: int = 0

    def taps(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Floats]:
        """The prototype pixel before each centre, the one after it, and the latter's weight."""
        centres = ((np.arange(self.pixels) + 0.5) * self.scale + self.pad) * self.ratio - 0.5
        positions = np.clip(centres, self.low, self.high)
        first = np.floor(positions).astype(np.int64)
        weight = (positions - first).astype(np.float32)
        return first, first + (weight > 0), weight


def picture_axis(pixels: int, prototypes: int, inputs: int, scale: float, pad: float) -> Axis:
    """The source's axis: only prototype pixels whose centres lie in the picture have a say."""
    ratio = prototypes / inputs
    begin, end = pad * ratio, (pad + pixels * scale) * ratio
    centres = [p for p in range(prototypes) if begin <= p + 0.5 < end]
    if centres:
        low, high = centres[0], centres[-1]
    elif math.ceil(begin - 0.5) <= math.ceil(end - 0.5) - 1:  # a picture beside the input
        low = high = 0 if end < 1 else prototypes - 1
    else:
        low = high = min(max(math.floor((begin + end) / 2), 0), prototypes - 1)
    return Axis(pixels, ratio, scale, pad, low, high)


def axes(
    prototypes: Floats, resolution: str, input_size: tuple[int, int], geometry: Floats | None
) -> tuple[Axis, Axis]:
    """Those of y and of x."""
    _, height, width = prototypes.shape
    if resolution == "prototype":
        return Axis(height, 1.0, high=height - 1), Axis(width, 1.0, high=width - 1)
    if resolution == "source" and geometry is not None:
        scale_x, scale_y, pad_x, pad_y, image_w, image_h = (float(g) for g in geometry[:6])
        return (
            picture_axis(int(image_h), height, input_size[0], scale_y, pad_y),
            picture_axis(int(image_w), width, input_size[1], scale_x, pad_x),
        )
    return (
        Axis(input_size[0], height / input_size[0], high=height - 1),
        Axis(input_size[1], width / input_size[1], high=width - 1),
    )


def box_in_mask(
    box: Floats,
    prototypes: Floats,
    resolution: str,
    input_size: tuple[int, int],
    geometry: Floats | None,
) -> Floats:
    if resolution == "prototype":
        x = np.float32(prototypes.shape[2] / input_size[1])
        y = np.float32(prototypes.shape[1] / input_size[0])
        return box * np.array([x, y, x, y], np.float32)
    return to_source(box, geometry if resolution == "source" else None)


def logits(prototypes: Floats, coefficients: Floats) -> Floats:
    """The sum over the prototypes, one after the other in float32; what is next to 0 is 0."""
    total = np.zeros(prototypes.shape[1:], np.float32)
    for coefficient, prototype in zip(coefficients, prototypes, strict=True):
        total += coefficient * prototype
    total[np.abs(total) < np.float32(1e-20)] = 0
    return total


def interpolate(start: Floats, stop: Floats, weight: Floats) -> Floats:
    return (np.float32(1) - weight) * start + weight * stop


def mask(
    prototypes: Floats,
    coefficients: Floats,
    box: Floats,
    resolution: str,
    input_size: tuple[int, int],
    geometry: Floats | None = None,
) -> Mask:
    """bool [H, W]: where the interpolated logit is greater than 0 and inside the box."""
    y, x = axes(prototypes, resolution, input_size, geometry)
    top, bottom, y_weight = y.taps()
    left, right, x_weight = x.taps()
    x1, y1, x2, y2 = box_in_mask(box, prototypes, resolution, input_size, geometry)
    columns, rows = np.arange(x.pixels), np.arange(y.pixels)
    in_box = ((rows >= y1) & (rows < y2))[:, None] & ((columns >= x1) & (columns < x2))
    with np.errstate(all="ignore"):
        total = logits(prototypes, coefficients)
        along_x = interpolate(total[:, left], total[:, right], x_weight)
        value = interpolate(along_x[top], along_x[bottom], y_weight[:, None])
    return (value > 0) & in_box


def encode(pixels: Mask) -> bytes:
    """COCO's text of RLE."""
    text: bytes = coco.encode(np.asfortranarray(pixels, np.uint8))["counts"]
    return text


def decode(text: bytes, size: tuple[int, int]) -> Mask:
    """The mask [H, W] of such a text."""
    return np.asarray(coco.decode({"size": list(size), "counts": text}), bool)
