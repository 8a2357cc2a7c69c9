"""Every interpolation against the installed OpenCV and Pillow."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import endcap
from tests.support import jpegs, tolerances
from tests.support.jpegs import Pixels
from tests.support.other_libraries import (
    OPENCV,
    PILLOW,
    assert_near_opencv,
    opencv_resize,
    pillow_resize,
)

# Source and target: ratios that are whole and not, one axis shrinking and one growing, growing
# both, sides of one to four pixels, the same size.
SIZES = [
    ((480, 640), (96, 160)),
    ((427, 641), (100, 150)),
    ((200, 300), (100, 150)),
    ((192, 320), (64, 80)),
    ((99, 320), (33, 320)),
    ((300, 200), (299, 199)),
    ((50, 200), (80, 60)),
    ((200, 50), (60, 80)),
    ((60, 80), (123, 161)),
    ((40, 40), (80, 120)),
    ((1, 1), (6, 9)),
    ((1, 60), (20, 31)),
    ((60, 3), (31, 20)),
    ((4, 4), (31, 20)),
    ((71, 53), (71, 53)),
]


def resized(
    pixels: Pixels, height: int, width: int, interpolation: str, **fields: object
) -> np.ndarray:
    """[height, width, C] of a picture [H, W, C] stretched."""
    gray = pixels.shape[2] == 1
    options = {
        "fit": "stretch",
        "layout": "nhwc",
        "color": "gray" if gray else "rgb",
        "scale": 1.0,
        **fields,
    }
    given_pixels = pixels[..., 0] if gray else pixels
    return endcap.preprocess(
        given_pixels, size=(height, width), interpolation=interpolation, **options
    ).images[0]


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("interpolation", OPENCV)
@pytest.mark.parametrize(("source", "target"), SIZES, ids=str)
def test_equals_opencv_and_with_antialias_pillow(
    source: tuple[int, int], target: tuple[int, int], interpolation: str, channels: int
) -> None:
    pixels = jpegs.photo(*source, channels=channels, seed=3)
    actual = resized(pixels, *target, interpolation, dtype="uint8")
    assert_near_opencv(actual, opencv_resize(pixels, *target, interpolation))
    actual = resized(pixels, *target, interpolation, antialias=True, dtype="uint8")
    np.testing.assert_array_equal(actual, pillow_resize(pixels, *target, interpolation))


sides = st.integers(1, 70)


@given(height=sides, width=sides, out_height=sides, out_width=sides, seed=st.integers(0, 9))
@pytest.mark.parametrize("interpolation", OPENCV)
def test_any_shape_is_a_step_from_opencv_and_equals_pillow(
    interpolation: str, height: int, width: int, out_height: int, out_width: int, seed: int
) -> None:
    # Noise, whose bicubic runs over both ends of the 8 bits.
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    size = (out_height, out_width)
    plain = resized(pixels, *size, interpolation, dtype="uint8")
    steps = np.abs(plain.astype(int) - opencv_resize(pixels, *size, interpolation))
    assert steps.max() <= tolerances.OPENCV_RESIZE_STEPS
    smooth = resized(pixels, *size, interpolation, antialias=True, dtype="uint8")
    np.testing.assert_array_equal(smooth, pillow_resize(pixels, *size, interpolation))


@pytest.mark.parametrize("interpolation", OPENCV)
@pytest.mark.parametrize(("source", "target"), SIZES, ids=str)
def test_unquantized_is_a_float_resize(
    source: tuple[int, int], target: tuple[int, int], interpolation: str
) -> None:
    pixels = jpegs.photo(*source, seed=5)
    plain = resized(pixels, *target, interpolation, quantize="none")
    expected = opencv_resize(pixels.astype(np.float32), *target, interpolation)
    assert np.abs(plain - expected).max() <= tolerances.FLOAT_RESIZE_STEPS
    for c in range(3):
        smooth = resized(
            pixels[..., c : c + 1], *target, interpolation, quantize="none", antialias=True
        )
        channel = Image.fromarray(pixels[..., c].astype(np.float32))
        expected = np.asarray(channel.resize(target[::-1], PILLOW[interpolation]))[..., None]
        assert np.abs(smooth - expected).max() <= tolerances.FLOAT_RESIZE_STEPS


@pytest.mark.parametrize("side", [1000, 999, 700])
def test_area_of_nearly_the_same_size(side: int) -> None:
    pixels = jpegs.photo(1001, 1001, channels=1, seed=7)
    exact = resized(pixels, side, side, "area", dtype="uint8")
    np.testing.assert_array_equal(exact, opencv_resize(pixels, side, side, "area"))
    actual = resized(pixels, side, side, "area", quantize="none")
    expected = opencv_resize(pixels.astype(np.float32), side, side, "area")
    assert np.abs(actual - expected).max() <= tolerances.FLOAT_RESIZE_STEPS


@pytest.mark.parametrize("interpolation", ["bicubic", "area"])
@pytest.mark.parametrize("antialias", [False, True])
def test_a_crop_is_a_part_of_the_whole(interpolation: str, antialias: bool) -> None:
    pixels = jpegs.photo(121, 173)
    fields = {"antialias": antialias, "dtype": "uint8"}
    whole = resized(pixels, 60, 85, interpolation, **fields)
    cut = resized(pixels, 40, 50, interpolation, fit="center_crop", resize_shorter=60, **fields)
    np.testing.assert_array_equal(cut, whole[10:50, 18:68])


@pytest.mark.parametrize(
    ("interpolation", "antialias"),
    [("nearest", False), *itertools.product(["bilinear", "bicubic", "area"], [False, True])],
)
@pytest.mark.parametrize("orientation", [1, 6])
def test_a_crop_of_an_image_that_has_its_size_is_cut_out(
    interpolation: str, antialias: bool, orientation: int
) -> None:
    file = jpegs.encode(jpegs.photo(70, 64), orientation=orientation)
    whole = endcap.decode(file)
    top, left = (whole.shape[0] - 48) // 2, (whole.shape[1] - 48) // 2
    cut = endcap.preprocess(
        file,
        fit="center_crop",
        size=48,
        resize_shorter=64,
        interpolation=interpolation,
        antialias=antialias,
        dtype="uint8",
        layout="nhwc",
    ).images[0]
    np.testing.assert_array_equal(cut, whole[top : top + 48, left : left + 48])


@pytest.mark.parametrize("interpolation", ["bicubic", "area"])
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("size", [(60, 85), (300, 90), (333, 400)], ids=str)
def test_a_file_gives_what_its_pixels_give(
    size: tuple[int, int], interpolation: str, antialias: bool
) -> None:
    # A file arrives in bands of rows, pixels in one piece.
    data = jpegs.photo_jpeg(241, 317)
    fields = {"fit": "stretch", "interpolation": interpolation, "antialias": antialias}
    from_file = endcap.preprocess(data, size=size, **fields).images
    from_pixels = endcap.preprocess(endcap.decode(data), size=size, **fields).images
    np.testing.assert_array_equal(from_file, from_pixels)
