"""The letterbox that the detector is trained and measured with: 114 around a bilinear resize."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

PAD_VALUE = 114


def letterbox(
    image: npt.NDArray[np.uint8], side: int
) -> tuple[npt.NDArray[np.uint8], tuple[float, float, float, float]]:
    """Fit an image into a square.

    Args:
        image: uint8 [H, W, 3].
        side: side of the square in pixels.

    Returns:
        uint8 [side, side, 3], and scale_x, scale_y, pad_x, pad_y with which
        x_source = (x - pad_x) / scale_x.
    """
    height, width = image.shape[:2]
    ratio = min(side / height, side / width)
    new_width, new_height = round(width * ratio), round(height * ratio)
    resized = cv2.resize(image, (new_width, new_height), interpolation=cv2.INTER_LINEAR)
    left = round((side - new_width) / 2 - 0.1)
    top = round((side - new_height) / 2 - 0.1)
    canvas = np.full((side, side, 3), PAD_VALUE, np.uint8)
    canvas[top : top + new_height, left : left + new_width] = resized
    return canvas, (new_width / width, new_height / height, float(left), float(top))


def to_tensor(canvas: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """uint8 [H, W, 3] RGB to the network's float32 [3, H, W] in 0..1."""
    planes = np.ascontiguousarray(canvas.transpose(2, 0, 1))
    return planes.astype(np.float32) / np.float32(255.0)
