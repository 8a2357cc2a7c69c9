"""OpenCV's and Pillow's decoding and resizing, as tests compare endcap's with them."""

from __future__ import annotations

import io

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image

from tests.support import tolerances

Pixels = npt.NDArray[np.uint8]

OPENCV = {"bilinear": cv2.INTER_LINEAR, "bicubic": cv2.INTER_CUBIC, "area": cv2.INTER_AREA}
PILLOW = {
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "area": Image.Resampling.BOX,
}


def opencv_rgb(data: bytes, flags: int = cv2.IMREAD_COLOR) -> Pixels:
    """EXIF is applied."""
    decoded = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    assert decoded is not None
    return decoded[..., ::-1] if decoded.ndim == 3 else decoded


def pillow_rgb(data: bytes) -> Pixels:
    """EXIF is ignored."""
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def opencv_resize(
    pixels: np.ndarray, height: int, width: int, interpolation: str = "bilinear"
) -> np.ndarray:
    """[height, width, C] of [H, W, C], uint8 or float32."""
    if pixels.shape[:2] == (height, width):
        return pixels
    result = cv2.resize(pixels, (width, height), interpolation=OPENCV[interpolation])
    return result.reshape(height, width, pixels.shape[2])


def pillow_resize(
    pixels: Pixels, height: int, width: int, interpolation: str = "bilinear"
) -> Pixels:
    """Antialiased, columns first.

    Two calls, because from version 13 on one call takes the rows first where the height shrinks
    the most, and 8-bit rounding between the passes shows it.
    """
    picture = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    narrow = picture.resize((width, len(pixels)), PILLOW[interpolation])
    result = np.asarray(narrow.resize((width, height), PILLOW[interpolation]))
    return result.reshape(height, width, pixels.shape[2])


def assert_near_opencv(actual: np.ndarray, expected: np.ndarray) -> None:
    steps = np.abs(actual.astype(int) - expected.astype(int))
    assert steps.max() <= tolerances.OPENCV_RESIZE_STEPS
    assert (steps == 0).mean() >= tolerances.OPENCV_RESIZE_EXACT_SHARE
