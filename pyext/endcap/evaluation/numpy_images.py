"""Images of the reference, brought to tensors by OpenCV, Pillow and NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from endcap.errors import CorruptImageError
from endcap.evaluation import import_package

Pixels = NDArray[np.uint8] | NDArray[np.float32]
Size = tuple[int, int]  # height, width


@dataclass(frozen=True)
class Placed:
    """An image inside a tensor.

    x in the picture is (x in the tensor - left) * width / resized_width; y alike. left and top are
    negative where the image is cropped.
    """

    pixels: Pixels  # [H, W, C] of the tensor's size, before the normalisation
    left: int
    top: int
    resized: tuple[int, int]  # width, height
    source: tuple[int, int]  # width, height of the picture, after EXIF orientation

    def to_source(self, boxes_xyxy: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return boxes [N, 4] of the tensor in pixels of the picture, clipped to it."""
        shift = np.array([self.left, self.top] * 2, np.float64)
        size = np.array(self.source * 2, np.float64)
        mapped = (boxes_xyxy - shift) * size / np.array(self.resized * 2, np.float64)
        return np.asarray(np.clip(mapped, 0.0, size))


def place_image(image: Pixels, parameters: Mapping[str, str]) -> Placed:
    """Bring an image [H, W, C] or [H, W] to the tensor's size, as preprocess does."""
    height, width = map(int, parameters["size"].split(","))
    size = height, width
    if parameters["quantize"] == "none":
        image = image.astype(np.float32)
    source = image.shape[1], image.shape[0]
    resized = _find_resized_size(*source, size, parameters)
    if resized != source:
        image = _resize(image, resized, antialias=parameters["antialias"] == "true")
    left, top = _offset(resized, size, parameters)
    image = _on_canvas(image, left, top, size, int(parameters["pad_value"]))
    return Placed(image, left, top, resized, source)


def read_image(encoded: bytes, parameters: Mapping[str, str]) -> NDArray[np.uint8]:
    """Decode an image to BGR [H, W, 3], or to gray [H, W] where that is the tensor's color.

    Raises:
        CorruptImageError: OpenCV cannot read it.
    """
    cv2: Any = import_package("cv2")
    flags = cv2.IMREAD_GRAYSCALE if parameters["color"] == "gray" else cv2.IMREAD_COLOR
    if parameters["exif"] == "ignore":
        flags |= cv2.IMREAD_IGNORE_ORIENTATION
    image = cv2.imdecode(np.frombuffer(encoded, np.uint8), flags) if encoded else None
    if image is None:
        raise CorruptImageError("OpenCV cannot decode it")
    return np.asarray(image, np.uint8)


def _find_resized_size(
    width: int, height: int, size: Size, parameters: Mapping[str, str]
) -> tuple[int, int]:
    """Return width and height of the image before padding or cropping."""
    if parameters["fit"] == "stretch":
        return size[1], size[0]
    if parameters["fit"] == "center_crop":
        short, shorter = min(width, height), int(parameters["resize_shorter"])
        return shorter * width // short, shorter * height // short
    ratio = min(size[0] / height, size[1] / width)
    if parameters["upscale"] == "false":
        ratio = min(ratio, 1.0)
    return max(1, round(width * ratio)), max(1, round(height * ratio))


def _resize(image: Pixels, resized: tuple[int, int], *, antialias: bool) -> Pixels:
    if antialias:  # in two calls: from version 13 on, one call may take the rows first
        bilinear = Image.Resampling.BILINEAR
        narrow = Image.fromarray(image).resize((resized[0], image.shape[0]), bilinear)
        return np.asarray(narrow.resize(resized, bilinear))
    cv2: Any = import_package("cv2")
    return np.asarray(cv2.resize(image, resized, interpolation=cv2.INTER_LINEAR))


def _offset(resized: tuple[int, int], size: Size, parameters: Mapping[str, str]) -> tuple[int, int]:
    """Return left and top of the image in the tensor."""
    free_w, free_h = size[1] - resized[0], size[0] - resized[1]
    if parameters["fit"] == "center_crop":
        return -round(-free_w / 2), -round(-free_h / 2)
    # Half of the padding before the image; of an odd pixel, the extra one comes after it.
    return (free_w // 2, free_h // 2) if parameters["pad_align"] == "center" else (0, 0)


def _on_canvas(image: Pixels, left: int, top: int, size: Size, pad_value: int) -> Pixels:
    """Return [H, W, C] of the tensor's size: the image cropped, or with padding around it."""
    inside = image[max(0, -top) :, max(0, -left) :][: size[0], : size[1]]
    inside = inside.reshape(*inside.shape[:2], -1)
    top, left = max(0, top), max(0, left)
    canvas: Any = np.full((*size, inside.shape[2]), pad_value, image.dtype)
    canvas[top : top + inside.shape[0], left : left + inside.shape[1]] = inside
    return np.asarray(canvas)


def to_tensor(pixels: Pixels, parameters: Mapping[str, str]) -> NDArray[np.float32]:
    """Return [1, C, H, W], or [1, H, W, C] with layout nhwc, of pixels in OpenCV's order."""
    if parameters["color"] == "rgb":
        pixels = pixels[..., ::-1]  # OpenCV's order is BGR
    values = pixels.astype(np.float32) * np.float32(parameters["scale"])
    values = values - np.array(parameters["mean"].split(","), np.float32)[: pixels.shape[-1]]
    values = values / np.array(parameters["std"].split(","), np.float32)[: pixels.shape[-1]]
    order = (0, 1, 2) if parameters["layout"] == "nhwc" else (2, 0, 1)
    return np.ascontiguousarray(values.transpose(order)[None])
