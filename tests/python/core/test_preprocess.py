"""Resizing and placing: OpenCV's, Pillow's and the definitions' pixels; and the geometry."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import endcap
from tests.reference.orientation import oriented
from tests.reference.placement import Placement, center_crop, letterbox, on_canvas, stretch
from tests.reference.resize import resize_nearest
from tests.support import jpegs, tolerances
from tests.support.jpegs import Pixels
from tests.support.other_libraries import (
    assert_near_opencv,
    opencv_resize,
    opencv_rgb,
    pillow_resize,
)

# Source heights and widths against a tensor of 96 x 160: shrinking, growing, halves, odd pads.
SOURCES = [(1, 1), (2, 300), (300, 2), (50, 70), (96, 160), (192, 320), (191, 333), (480, 641)]
HEIGHT, WIDTH = 96, 160

SAMPLES = Path(__file__).parents[3] / "model_repository/detect/samples"


def hwc(images: np.ndarray, index: int = 0) -> np.ndarray:
    return np.transpose(images[index], (1, 2, 0))


@pytest.mark.parametrize("upscale", [True, False])
@pytest.mark.parametrize(("pad_align", "pad_value"), [("center", 114), ("top_left", 7)])
@pytest.mark.parametrize("source", SOURCES, ids=lambda s: f"{s[0]}x{s[1]}")
def test_letterbox_equals_opencv(
    source: tuple[int, int], pad_align: str, pad_value: int, upscale: bool
) -> None:
    data = jpegs.photo_jpeg(*source)
    place = letterbox(*source, HEIGHT, WIDTH, upscale=upscale, pad_align=pad_align)
    resized = opencv_resize(opencv_rgb(data), place.new_h, place.new_w)
    options = {"upscale": upscale, "pad_align": pad_align, "dtype": "uint8"}
    if pad_value != 114:  # the default
        options["pad_value"] = pad_value
    result = endcap.preprocess(data, size=(HEIGHT, WIDTH), **options)
    expected = on_canvas(resized, place, HEIGHT, WIDTH, pad_value=pad_value)
    assert_near_opencv(hwc(result.images), expected)
    np.testing.assert_array_equal(result.geometry, [place.geometry(*source)])
    assert result.status.tolist() == [endcap.Status.OK]


@pytest.mark.parametrize("fit", ["letterbox", "stretch"])
@given(st.integers(1, 3000), st.integers(1, 3000), st.integers(1, 64), st.integers(1, 64))
def test_geometry(fit: str, image_h: int, image_w: int, height: int, width: int) -> None:
    pixels = np.zeros((image_h, image_w), np.uint8)
    place = stretch(height, width)
    if fit == "letterbox":
        place = letterbox(image_h, image_w, height, width, upscale=True, pad_align="center")
    options = {"size": (height, width), "color": "gray", "interpolation": "nearest"}
    result = endcap.preprocess(pixels, fit=fit, **options)
    np.testing.assert_array_equal(result.geometry[0], place.geometry(image_h, image_w))


def crop(resized: Pixels, place: Placement, height: int, width: int) -> Pixels:
    return resized[-place.pad_y : height - place.pad_y, -place.pad_x : width - place.pad_x]


@pytest.mark.parametrize("shorter", [96, 97, 128, 131])
@pytest.mark.parametrize("source", [(50, 70), (70, 50), (300, 301), (301, 200), (131, 400)])
@pytest.mark.parametrize("antialias", [True, False])
def test_center_crop(source: tuple[int, int], shorter: int, antialias: bool) -> None:
    pixels = jpegs.photo(*source)
    place = center_crop(*source, 96, 83, resize_shorter=shorter)
    resize = pillow_resize if antialias else opencv_resize
    expected = crop(resize(pixels, place.new_h, place.new_w), place, 96, 83)
    result = endcap.preprocess(
        pixels,
        size=(96, 83),
        fit="center_crop",
        resize_shorter=shorter,
        antialias=antialias,
        dtype="uint8",
    )
    if antialias:
        np.testing.assert_array_equal(hwc(result.images), expected)
    else:
        assert_near_opencv(hwc(result.images), expected)
    np.testing.assert_array_equal(result.geometry[0], place.geometry(*source))


@pytest.mark.parametrize("source", SOURCES, ids=lambda s: f"{s[0]}x{s[1]}")
@pytest.mark.parametrize("quantize", ["uint8", "none"])
def test_nearest(source: tuple[int, int], quantize: str) -> None:
    pixels = jpegs.photo(*source)
    result = endcap.preprocess(
        pixels,
        size=(HEIGHT, WIDTH),
        fit="stretch",
        interpolation="nearest",
        quantize=quantize,
        dtype="uint8",
    )
    np.testing.assert_array_equal(hwc(result.images), resize_nearest(pixels, HEIGHT, WIDTH))
    pillow = Image.fromarray(pixels).resize((WIDTH, HEIGHT), Image.Resampling.NEAREST)
    np.testing.assert_array_equal(hwc(result.images), np.asarray(pillow))


@pytest.mark.parametrize(("source", "target"), [(2, 49), (6, 47), (8, 98), (3, 2), (700, 500)])
def test_nearest_at_an_edge_takes_the_pixel_after_it(source: int, target: int) -> None:
    # Here the centre of a target pixel falls on the edge between two source pixels, exactly.
    pixels = np.random.default_rng(source).integers(0, 256, (source, source), np.uint8)
    result = endcap.preprocess(
        pixels,
        size=(target, target),
        fit="stretch",
        interpolation="nearest",
        color="gray",
        dtype="uint8",
    )
    expected = resize_nearest(pixels[..., None], target, target)
    np.testing.assert_array_equal(hwc(result.images), expected)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("fit", ["letterbox", "stretch", "center_crop"])
def test_orientation_is_applied_before_placing(fit: str, orientation: int) -> None:
    data = jpegs.encode(jpegs.photo(40, 64), orientation=orientation)
    options = {"size": (24, 32), "fit": fit, "resize_shorter": 40, "dtype": "uint8"}
    rotated = oriented(endcap.decode(data, exif="ignore"), orientation)
    applied = endcap.preprocess(data, **options)
    expected = endcap.preprocess(rotated, **options)
    np.testing.assert_array_equal(applied.images, expected.images)
    np.testing.assert_array_equal(applied.geometry[0, :6], expected.geometry[0, :6])
    assert applied.geometry[0, 6] == orientation

    ignored = endcap.preprocess(data, exif="ignore", **options)
    assert ignored.geometry[0, 4:7].tolist() == [64, 40, 1]
    np.testing.assert_array_equal(
        ignored.images, endcap.preprocess(endcap.decode(data, exif="ignore"), **options).images
    )


def test_fast_decode_keeps_the_documented_psnr() -> None:
    names = ["shapes_1411x1411_progressive", "shapes_1920x1080", "shapes_4000x3000"]
    for name in names:
        file = (SAMPLES / f"{name}.jpg").read_bytes()
        exact = endcap.preprocess(file, dtype="uint8").images.astype(float)
        fast = endcap.preprocess(file, dtype="uint8", decode="fast").images.astype(float)
        error = ((fast - exact) ** 2).mean()
        assert error > 0, name
        assert 10 * np.log10(255**2 / error) >= tolerances.FAST_DECODE_PSNR_DB, name


def test_fast_decode_of_a_picture_not_shrunk_is_exact() -> None:
    data = jpegs.photo_jpeg(90, 120)
    exact = endcap.preprocess(data, size=(96, 160))
    fast = endcap.preprocess(data, size=(96, 160), decode="fast")
    np.testing.assert_array_equal(fast.images, exact.images)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_batch_in_one_array_is_as_many_images(threads: int) -> None:
    batch = np.stack([jpegs.photo(40, 60, seed=seed) for seed in range(5)])
    processor = endcap.Preprocessor(size=64, threads=threads)
    for images in (batch, batch[::2], batch[:, ::-1], batch[:, :, 10:50], batch[:0]):
        result, expected = processor(images), processor(list(images))
        np.testing.assert_array_equal(result.images, expected.images)
        np.testing.assert_array_equal(result.geometry, expected.geometry)
        assert len(result.status) == len(images)
    with pytest.raises(endcap.InvalidArgumentError, match="5 images were given: give one"):
        processor(batch, rois=[[0, 0, 9, 9]])
    with pytest.raises(endcap.InvalidArgumentError, match="not 4-D"):
        processor([batch, batch])
