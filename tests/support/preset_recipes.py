"""The pipelines that the presets follow, file to tensor, done with OpenCV, Pillow and NumPy.

And how far a preset's tensor is from another one, in 8-bit steps.
"""

from __future__ import annotations

from collections.abc import Callable

import cv2
import numpy as np
import numpy.typing as npt

import endcap
from tests.support import tolerances
from tests.support.other_libraries import opencv_resize, pillow_resize, pillow_rgb

Floats = npt.NDArray[np.float64]
Pixels = npt.NDArray[np.uint8]
CAFFE_MEANS = np.array([103.939, 116.779, 123.68])
IMAGENET_MEAN, IMAGENET_STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
SSD_MEAN = np.array([0.48235, 0.45882, 0.40784])


def read_opencv(data: bytes) -> Pixels:
    """BGR; EXIF is applied."""
    return cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)


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
    resized = opencv_resize(bgr, new_height, new_width)
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
    "torchvision": (pillow_rgb, torchvision),
    "inception": (pillow_rgb, inception),
    "vgg": (read_opencv, vgg),
    "rtdetr": (pillow_rgb, rtdetr),
    "rfdetr": (pillow_rgb, rfdetr),
    "ssd": (pillow_rgb, ssd),
}


def preset_tensor(preset: str, data: bytes) -> npt.NDArray[np.float32]:
    """The preset's tensor of a file, as [H, W, C]."""
    images = endcap.preprocess(data, preset).images[0]
    nhwc = endcap.Preprocessor(preset, threads=1).parameters["layout"] == "nhwc"
    return images if nhwc else images.transpose(1, 2, 0)


def steps_between(
    preset: str, actual: npt.NDArray[np.floating], expected: npt.NDArray[np.floating]
) -> npt.NDArray[np.float64]:
    """The absolute difference of two [H, W, C] tensors in 8-bit steps of the pixels."""
    assert actual.shape == expected.shape
    parameters = endcap.Preprocessor(preset, threads=1).parameters
    std = np.array([float(value) for value in parameters["std"].split(",")])
    steps: npt.NDArray[np.float64] = (
        np.abs(actual.astype(np.float64) - expected) * std / float(parameters["scale"])
    )
    return steps


def equal_within(preset: str) -> float:
    """The difference in steps up to which two pixels are equal: what float arithmetic leaves."""
    unquantized = endcap.Preprocessor(preset, threads=1).parameters["quantize"] == "none"
    return tolerances.FLOAT_RESIZE_STEPS if unquantized else tolerances.NORMALISED_STEPS


def assert_same_pixels(
    preset: str, actual: npt.NDArray[np.floating], expected: npt.NDArray[np.floating]
) -> None:
    """No pixel is more than a step away, and nearly all are equal."""
    steps = steps_between(preset, actual, expected)
    assert steps.max() <= tolerances.PRESET_STEPS + equal_within(preset)
    assert (steps <= equal_within(preset)).mean() >= tolerances.PRESET_EXACT_SHARE
