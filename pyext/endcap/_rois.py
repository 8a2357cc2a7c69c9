"""Regions of interest as the core reads them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from endcap._arrays import to_array
from endcap._images import Image, is_single_image
from endcap.errors import InvalidArgumentError


def to_rois(rois: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Return regions as C-contiguous float32 [K, 4]; no region at all may have any shape.

    Raises:
        InvalidArgumentError: For anything that is not K rows of four real numbers.
    """
    with np.errstate(over="ignore"):  # what float32 cannot hold is infinite, which the core refuses
        array = to_array(rois, np.float32, "rois")
    if array.size == 0:
        return array.reshape(0, 4)
    if array.ndim != 2 or array.shape[1] != 4:
        raise InvalidArgumentError(
            f"rois has shape {list(array.shape)}: give [K, 4], a row x1, y1, x2, y2 for each region"
        )
    return array


def image_of_rois(images: Image) -> Image:
    """Return the one image that regions go with.

    Raises:
        InvalidArgumentError: For a sequence of images.
    """
    if not is_single_image(images):
        raise InvalidArgumentError(
            f"rois came with a {type(images).__name__} of {len(images)} images: give one image, "
            "and call again for the next"
        )
    return images
