"""Each preset's pixels against its recipe, done with the library that the recipe is made of."""

from __future__ import annotations

import cv2
import jpegs
import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image
from tolerances import FLOAT_RESIZE_STEPS

import endcap
from reference.resize import resize_linear

# Landscape, portrait, square, and smaller than every target.
SIZES = [(400, 600), (640, 480), (333, 333), (90, 120)]
Floats = npt.NDArray[np.float64]


def run(preset: str, data: bytes) -> npt.NDArray[np.float32]:
    """The preset's tensor as [H, W, C]."""
    images = endcap.Preprocessor(preset)(data).images[0]
    return images if preset == "inception" else images.transpose(1, 2, 0)


def rtdetr(pixels: npt.NDArray[np.uint8]) -> Floats:
    # Columns first, then rows: Pillow itself orders its two passes by the shapes.
    wide = np.asarray(Image.fromarray(pixels).resize((640, pixels.shape[0]), Image.BILINEAR))
    resized = Image.fromarray(wide).resize((640, 640), Image.BILINEAR)
    return np.asarray(resized).astype(np.float64) / 255


def vgg(pixels: npt.NDArray[np.uint8]) -> Floats:
    height, width = pixels.shape[:2]
    short = min(height, width)
    height, width = 256 * height // short, 256 * width // short
    resized = cv2.resize(pixels, (width, height), interpolation=cv2.INTER_LINEAR)
    top, left = round((height - 224) / 2), round((width - 224) / 2)
    crop = resized[top : top + 224, left : left + 224, ::-1].astype(np.float64)
    return crop - np.array([103.939, 116.779, 123.68])


def ssd(pixels: npt.NDArray[np.uint8]) -> Floats:
    mean = np.array([0.48235, 0.45882, 0.40784])
    return resize_linear(pixels, 300, 300) - mean * 255


def inception(pixels: npt.NDArray[np.uint8]) -> Floats:
    return resize_linear(pixels, 299, 299) / 127.5 - 1


@pytest.mark.parametrize("size", SIZES, ids=lambda s: f"{s[0]}x{s[1]}")
@pytest.mark.parametrize(
    ("recipe", "steps"),
    [
        (rtdetr, 0.0),
        (vgg, 0.0),
        (ssd, FLOAT_RESIZE_STEPS),
        (inception, FLOAT_RESIZE_STEPS / 127.5),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_preset_is_its_recipe(recipe: object, steps: float, size: tuple[int, int]) -> None:
    assert callable(recipe)
    data = jpegs.photo_jpeg(*size, seed=7)
    expected = recipe(endcap.decode(data))
    actual = run(recipe.__name__, data)
    assert actual.shape == expected.shape
    ulps = np.spacing(np.abs(expected).astype(np.float32) + np.float32(1e-3))
    assert (np.abs(actual - expected) <= steps + ulps).all()


@pytest.mark.parametrize("preset", ["torchvision", "inception", "rtdetr", "ssd"])
def test_presets_of_libraries_that_ignore_exif(preset: str) -> None:
    plain = jpegs.photo_jpeg(120, 200)
    turned = jpegs.with_exif(plain, jpegs.exif_segment(6))
    np.testing.assert_array_equal(run(preset, turned), run(preset, plain))
    assert not np.array_equal(run("vgg", turned), run("vgg", plain))
