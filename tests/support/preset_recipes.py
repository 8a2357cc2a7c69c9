"""The pipelines that the presets follow, file to tensor, done with OpenCV, Pillow and NumPy."""

from __future__ import annotations

import io
from collections.abc import Callable

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image

from tests.support.other_libraries import pillow_resize

Floats = npt.NDArray[np.float64]
Pixels = npt.NDArray[np.uint8]
CAFFE_MEANS = np.array([103.939, 116.779, 123.68])
IMAGENET_MEAN, IMAGENET_STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
SSD_MEAN = np.array([0.48235, 0.45882, 0.40784])


def read_opencv(data: bytes) -> Pixels:
    """BGR; EXIF is applied."""
    return cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)


def read_pillow(data: bytes) -> Pixels:
    """RGB; EXIF is ignored."""
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def shorter_to(pixels: Pixels, short: int) -> tuple[int, int]:
    """Height and width with the short side `short`, the long one rounded down."""
    height, width = pixels.shape[:2]
    side = min(height, width)
    return short * height // side, short * width // side


def center(pixels: Pixels, side: int) -> Pixels:
    top, left = round((pixels.shape[0] - side) / 2), round((pixels.shape[1] - side) / 2)
    return pixels[top : top + side, left : left + side]


def ultralytics(bgr: Pixels) -> Floats:
    height, width = bgr.shape[:2]
    ratio = min(640 / height, 640 / width)
    new_height, new_width = max(round(height * ratio), 1), max(round(width * ratio), 1)
    resized = bgr
    if (new_height, new_width) != (height, width):
        resized = cv2.resize(bgr, (new_width, new_height), interpolation=cv2.INTER_LINEAR)
    top, left = (640 - new_height) // 2, (640 - new_width) // 2
    bottom, right = 640 - new_height - top, 640 - new_width - left
    padded = cv2.copyMakeBorder(
        resized, top, bottom, left, right, cv2.BORDER_CONSTANT, value=(114, 114, 114)
    )
    return padded[..., ::-1] / 255


def vgg(bgr: Pixels) -> Floats:
    height, width = shorter_to(bgr, 256)
    resized = cv2.resize(bgr, (width, height), interpolation=cv2.INTER_LINEAR)
    return center(resized, 224) - CAFFE_MEANS


def torchvision(rgb: Pixels) -> Floats:
    crop = center(pillow_resize(rgb, *shorter_to(rgb, 256)), 224)
    return (crop / 255 - IMAGENET_MEAN) / IMAGENET_STD


def rtdetr(rgb: Pixels) -> Floats:
    return pillow_resize(rgb, 640, 640) / 255


def rfdetr(rgb: Pixels) -> Floats:
    return (float_resize(rgb, 560) / 255 - IMAGENET_MEAN) / IMAGENET_STD


def float_resize(rgb: Pixels, side: int) -> Floats:
    """Half-pixel centres, no antialias, float throughout: as TensorFlow 2 and PyTorch."""
    resized = cv2.resize(rgb.astype(np.float32), (side, side), interpolation=cv2.INTER_LINEAR)
    return resized.astype(np.float64)


def inception(rgb: Pixels) -> Floats:
    return float_resize(rgb, 299) / 127.5 - 1


def ssd(rgb: Pixels) -> Floats:
    return (float_resize(rgb, 300) / 255 - SSD_MEAN) * 255


# How each preset's library reads a file, and what it makes of the pixels: [H, W, C].
RECIPES: dict[str, tuple[Callable[[bytes], Pixels], Callable[[Pixels], Floats]]] = {
    "ultralytics": (read_opencv, ultralytics),
    "torchvision": (read_pillow, torchvision),
    "inception": (read_pillow, inception),
    "vgg": (read_opencv, vgg),
    "rtdetr": (read_pillow, rtdetr),
    "rfdetr": (read_pillow, rfdetr),
    "ssd": (read_pillow, ssd),
}
