"""Logits or class ids -> the class of each pixel, and PyTorch's interpolate in NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.reference import masks

Map = npt.NDArray[np.uint8]


def best_class(logits: masks.Floats) -> Map:
    """The class of each pixel of [C, H, W]: the lowest of the greatest, or whether it is over 0."""
    if len(logits) == 1:
        return (logits[0] > 0).astype(np.uint8)
    return logits.argmax(axis=0).astype(np.uint8)


def nearest_places(axis: masks.Axis) -> npt.NDArray[np.int64]:
    """Where each pixel reads a class: floor in float32 from picture to input, then to the map."""
    places = []
    for pixel in range(axis.pixels):
        in_input = math.floor(np.float32(pixel) * np.float32(axis.scale)) + math.floor(
            axis.pad + 0.5
        )
        place = math.floor(np.float32(in_input) * np.float32(axis.ratio))
        places.append(min(max(place, axis.low), axis.high))
    return np.array(places)


def class_map(
    head: npt.NDArray[Any],
    *,
    mask_resolution: str = "source",
    input_size: tuple[int, int],
    geometry: masks.Floats | None = None,
    class_map_resize: str = "bilinear",
    classes: list[int] | None = None,
    ignore_label: int = 255,
) -> Map:
    """The map of one image, from logits [C, h, w] or class ids [h, w]."""
    sizes = np.empty((1, *head.shape[-2:]), np.float32)
    y, x = masks.axes(sizes, mask_resolution, input_size, geometry)
    if head.ndim == 3 and class_map_resize == "bilinear":
        (top, bottom, y_weight), (left, right, x_weight) = y.taps(), x.taps()
        logits = head.astype(np.float32)
        along_x = masks.interpolate(logits[..., left], logits[..., right], x_weight)
        ids = best_class(masks.interpolate(along_x[:, top], along_x[:, bottom], y_weight[:, None]))
    else:
        ids = best_class(head.astype(np.float32)) if head.ndim == 3 else head.astype(np.uint8)
        ids = ids[np.ix_(nearest_places(y), nearest_places(x))]
    if classes is not None:
        ids[~np.isin(ids, classes)] = ignore_label
    return ids
