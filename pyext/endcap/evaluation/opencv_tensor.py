"""From an encoded image to a network's input with OpenCV alone, for the reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.errors import CorruptImageError
from endcap.evaluation.errors import import_package
from endcap.evaluation.reference_settings import ReferenceSettings

Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class Placed:
    """An image inside a tensor.

    x in the picture is (x in the tensor - left) * width / resized_width; y alike.
    """

    tensor: NDArray[np.float32]  # [1, 3, H, W]
    left: int
    top: int
    resized: tuple[int, int]  # width, height
    source: tuple[int, int]  # width, height of the upright picture

    def to_source(self, boxes_xyxy: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns boxes [N, 4] of the tensor in pixels of the picture, clipped to it."""
        shift = np.array([self.left, self.top] * 2, np.float64)
        size = np.array(self.source * 2, np.float64)
        mapped = (boxes_xyxy - shift) * size / np.array(self.resized * 2, np.float64)
        return np.asarray(np.clip(mapped, 0.0, size))


def place_image(encoded: bytes, size: tuple[int, int], settings: ReferenceSettings) -> Placed:
    """Decodes an image and brings it to `size` (height, width).

    Raises CorruptImageError when OpenCV cannot read it.
    """
    cv2: Any = import_package("cv2")
    flags = cv2.IMREAD_COLOR
    if not settings.upright:
        flags |= cv2.IMREAD_IGNORE_ORIENTATION
    image = cv2.imdecode(np.frombuffer(encoded, np.uint8), flags) if encoded else None
    if image is None:
        raise CorruptImageError("OpenCV cannot decode it")
    height, width = image.shape[:2]
    resized_w, resized_h = _resized(width, height, size, settings)
    if (resized_w, resized_h) != (width, height):
        image = cv2.resize(image, (resized_w, resized_h), interpolation=cv2.INTER_LINEAR)
    # Half of the padding before the image; of an odd pixel, the extra one comes after it.
    free_w, free_h = size[1] - resized_w, size[0] - resized_h
    left = round(free_w / 2 - 0.1) if settings.pad_centered else 0
    top = round(free_h / 2 - 0.1) if settings.pad_centered else 0
    image = cv2.copyMakeBorder(
        image,
        top,
        free_h - top,
        left,
        free_w - left,
        cv2.BORDER_CONSTANT,
        value=(settings.pad_value,) * 3,
    )
    return Placed(_normalised(image, settings), left, top, (resized_w, resized_h), (width, height))


def _resized(
    width: int, height: int, size: tuple[int, int], settings: ReferenceSettings
) -> tuple[int, int]:
    if not settings.letterbox:
        return size[1], size[0]
    ratio = min(size[0] / height, size[1] / width)
    if not settings.upscale:
        ratio = min(ratio, 1.0)
    return max(1, round(width * ratio)), max(1, round(height * ratio))


def _normalised(bgr: Pixels, settings: ReferenceSettings) -> NDArray[np.float32]:
    pixels = bgr[..., ::-1] if settings.rgb else bgr
    values = pixels.astype(np.float32) * np.float32(settings.scale)
    values = (values - np.array(settings.mean, np.float32)) / np.array(settings.std, np.float32)
    return np.ascontiguousarray(values.transpose(2, 0, 1)[None])
