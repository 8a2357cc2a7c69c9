"""From an encoded image to a network's input with OpenCV, and Pillow for antialiased resizing.

For the reference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from endcap.errors import CorruptImageError
from endcap.evaluation.errors import import_package
from endcap.evaluation.reference_settings import Color, Fit, ReferenceSettings

Pixels = NDArray[np.uint8] | NDArray[np.float32]


@dataclass(frozen=True)
class Placed:
    """An image inside a tensor.

    x in the picture is (x in the tensor - left) * width / resized_width; y alike. left and top are
    negative where the image is cropped.
    """

    tensor: NDArray[np.float32]  # [1, C, H, W], or [1, H, W, C] with channels_last
    left: int
    top: int
    resized: tuple[int, int]  # width, height
    source: tuple[int, int]  # width, height of the upright picture

    def to_source(self, boxes_xyxy: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return boxes [N, 4] of the tensor in pixels of the picture, clipped to it."""
        shift = np.array([self.left, self.top] * 2, np.float64)
        size = np.array(self.source * 2, np.float64)
        mapped = (boxes_xyxy - shift) * size / np.array(self.resized * 2, np.float64)
        return np.asarray(np.clip(mapped, 0.0, size))


def place_image(encoded: bytes, size: tuple[int, int], settings: ReferenceSettings) -> Placed:
    """Decode an image and brings it to `size` (height, width).

    Raises:
        CorruptImageError: OpenCV cannot read it.
    """
    image: Pixels = _decode(encoded, settings)
    if not settings.quantized:
        image = image.astype(np.float32)
    height, width = image.shape[:2]
    resized = _resized(width, height, size, settings)
    if resized != (width, height):
        image = (
            _resize_antialiased(image, resized) if settings.antialias else _resize(image, resized)
        )
    left, top = _offset(resized, size, settings)
    image = _on_canvas(image, left, top, size, settings.pad_value)
    return Placed(_normalised(image, settings), left, top, resized, (width, height))


def _decode(encoded: bytes, settings: ReferenceSettings) -> NDArray[np.uint8]:
    cv2: Any = import_package("cv2")
    flags = cv2.IMREAD_GRAYSCALE if settings.color is Color.gray else cv2.IMREAD_COLOR
    if not settings.upright:
        flags |= cv2.IMREAD_IGNORE_ORIENTATION
    image = cv2.imdecode(np.frombuffer(encoded, np.uint8), flags) if encoded else None
    if image is None:
        raise CorruptImageError("OpenCV cannot decode it")
    return np.asarray(image, np.uint8)


def _resized(
    width: int, height: int, size: tuple[int, int], settings: ReferenceSettings
) -> tuple[int, int]:
    """Width and height of the image before padding or cropping."""
    if settings.fit is Fit.stretch:
        return size[1], size[0]
    if settings.fit is Fit.center_crop:
        short, shorter = min(width, height), settings.resize_shorter
        return shorter * width // short, shorter * height // short
    ratio = min(size[0] / height, size[1] / width)
    if not settings.upscale:
        ratio = min(ratio, 1.0)
    return max(1, round(width * ratio)), max(1, round(height * ratio))


def _resize(image: Pixels, resized: tuple[int, int]) -> Pixels:
    cv2: Any = import_package("cv2")
    return np.asarray(cv2.resize(image, resized, interpolation=cv2.INTER_LINEAR))


def _resize_antialiased(image: Pixels, resized: tuple[int, int]) -> Pixels:
    # In two calls: from version 13 on, one call may take the rows before the columns.
    bilinear = Image.Resampling.BILINEAR
    narrow = Image.fromarray(image).resize((resized[0], image.shape[0]), bilinear)
    return np.asarray(narrow.resize(resized, bilinear))


def _offset(
    resized: tuple[int, int], size: tuple[int, int], settings: ReferenceSettings
) -> tuple[int, int]:
    """Left and top of the image in the tensor."""
    free_w, free_h = size[1] - resized[0], size[0] - resized[1]
    if settings.fit is Fit.center_crop:
        return -round(-free_w / 2), -round(-free_h / 2)
    if not settings.pad_centered:
        return 0, 0
    # Half of the padding before the image; of an odd pixel, the extra one comes after it.
    return round(free_w / 2 - 0.1), round(free_h / 2 - 0.1)


def _on_canvas(image: Pixels, left: int, top: int, size: tuple[int, int], pad_value: int) -> Pixels:
    """[H, W, C] of the tensor's size: the image cropped, or with padding around it."""
    cv2: Any = import_package("cv2")
    inside = image[max(0, -top) :, max(0, -left) :][: size[0], : size[1]]
    before = max(0, top), max(0, left)
    padded = cv2.copyMakeBorder(
        inside,
        before[0],
        size[0] - before[0] - inside.shape[0],
        before[1],
        size[1] - before[1] - inside.shape[1],
        cv2.BORDER_CONSTANT,
        value=(pad_value,) * 3,
    )
    return np.asarray(padded).reshape(*size, -1)


def _normalised(pixels: Pixels, settings: ReferenceSettings) -> NDArray[np.float32]:
    if settings.color is Color.rgb:
        pixels = pixels[..., ::-1]  # OpenCV's order is BGR
    channels = pixels.shape[-1]
    values = pixels.astype(np.float32) * np.float32(settings.scale)
    values = values - np.array(settings.mean[:channels], np.float32)
    values = values / np.array(settings.std[:channels], np.float32)
    order = (0, 1, 2) if settings.channels_last else (2, 0, 1)
    return np.ascontiguousarray(values.transpose(order)[None])
