"""Regions of interest: each is, bit for bit, its slice of the decoded image preprocessed alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import endcap
from tests.support import forced_implementations, jpegs
from tests.support.rois import HEIGHT, RECIPES, ROIS, WIDTH

forced_implementation = forced_implementations.on_each_implementation("decode", "preprocess")


def cut(pixels: npt.NDArray[np.uint8], roi: list[float]) -> npt.NDArray[np.uint8]:
    """The whole pixels that a region touches."""
    x1, y1, x2, y2 = np.array(roi, np.float32)
    left, top = max(int(np.floor(x1)), 0), max(int(np.floor(y1)), 0)
    return pixels[top : int(np.ceil(y2)), left : int(np.ceil(x2))]


def expect_slices(image: object, rois: list[list[float]], **fields: object) -> None:
    """Compares with the definition: decode, slice, preprocess the slice."""
    encoded = isinstance(image, bytes)
    pixels = endcap.decode(image) if encoded else np.asarray(image)
    result = endcap.preprocess(image, rois=rois, **fields)
    assert len(result.images) == len(result.geometry) == len(result.status) == len(rois)
    assert (result.status == 0).all()
    assert result.decoders == (("cpu" if encoded else ""),) * len(rois)
    for i, roi in enumerate(rois):
        alone = endcap.preprocess(cut(pixels, roi), **fields)
        np.testing.assert_array_equal(result.images[i], alone.images[0], err_msg=str(roi))


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe(recipe: str) -> None:
    expect_slices(jpegs.photo_jpeg(HEIGHT, WIDTH), ROIS, **RECIPES[recipe])


FILES: dict[str, dict[str, Any]] = {
    **{
        f"{sampling}, progressive {each}": {"subsampling": sampling, "progressive": each}
        for sampling in ("4:2:0", "4:2:2", "4:4:4")
        for each in (False, True)
    },
    "gray": {"channels": 1},
    "CMYK": {"channels": 4},
    "stored as RGB": {"keep_rgb": True},
}


@pytest.mark.parametrize("name", FILES)
def test_every_kind_of_file(name: str) -> None:
    options = dict(FILES[name])
    pixels = jpegs.photo(HEIGHT, WIDTH, channels=options.pop("channels", 3))
    expect_slices(jpegs.encode(pixels, **options), ROIS, size=64)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_regions_lie_in_the_upright_image(orientation: int) -> None:
    file = jpegs.encode(jpegs.photo(HEIGHT, WIDTH), orientation=orientation)
    rois = [[20.0, 30, 90, 70], [100, 110, 160, 170], [0, 0, 3, 3]]
    expect_slices(file, rois, size=64)
    result = endcap.preprocess(file, rois=rois, size=64)
    assert (result.geometry[:, 6] == orientation).all()
    stored = endcap.preprocess(file, rois=rois, size=64, exif="ignore")
    as_stored = endcap.decode(file, exif="ignore")
    alone = endcap.preprocess(cut(as_stored, rois[0]), size=64)
    np.testing.assert_array_equal(stored.images[0], alone.images[0])


def test_pixels() -> None:
    pixels = jpegs.photo(HEIGHT, WIDTH)
    expect_slices(pixels, ROIS, size=64)
    expect_slices(pixels[::-1], ROIS, size=64)  # rows stored bottom up
    expect_slices(pixels[..., 0], ROIS, size=64)
    expect_slices(pixels, ROIS, size=64, pixel_format="bgr")
    expect_slices(pixels, ROIS, size=64, color="gray")


edges = st.floats(-20, 230, width=32)


@given(st.lists(st.tuples(edges, edges, edges, edges), min_size=1, max_size=12))
def test_any_regions(quadruples: list[tuple[float, float, float, float]]) -> None:
    file = jpegs.photo_jpeg(HEIGHT, WIDTH)
    pixels = endcap.decode(file)
    preprocessor = endcap.Preprocessor(size=40, on_error="blank")
    result = preprocessor(file, rois=quadruples)
    for i, (x1, y1, x2, y2) in enumerate(quadruples):
        if x1 < x2 and y1 < y2 and min(x2, y2) > 0 and x1 < WIDTH and y1 < HEIGHT:
            alone = preprocessor(cut(pixels, [x1, y1, x2, y2]))
            assert result.status[i] == 0
            np.testing.assert_array_equal(result.images[i], alone.images[0])
        else:
            assert result.status[i] == endcap.Status.INVALID_ARGUMENT
            assert not result.images[i].any()


def test_decode_fast_does_not_apply() -> None:
    file = jpegs.photo_jpeg(HEIGHT, WIDTH)
    exact = endcap.preprocess(file, size=16, rois=ROIS)
    fast = endcap.preprocess(file, size=16, rois=ROIS, decode="fast")
    np.testing.assert_array_equal(fast.images, exact.images)


@pytest.mark.parametrize("fit", ["letterbox", "stretch", "center_crop"])
def test_geometry_maps_to_the_whole_image(fit: str) -> None:
    file = jpegs.photo_jpeg(HEIGHT, WIDTH)
    fields = {"size": 64, "fit": fit, "resize_shorter": 80}
    result = endcap.preprocess(file, rois=ROIS, **fields)
    pixels = endcap.decode(file)
    for geometry, roi in zip(result.geometry, ROIS, strict=True):
        part = cut(pixels, roi)
        alone = endcap.preprocess(part, **fields).geometry[0]
        left, top = max(np.floor(roi[0]), 0), max(np.floor(roi[1]), 0)
        expected = alone.copy()
        expected[2] = np.float32(alone[2] - np.float64(alone[0]) * left)
        expected[3] = np.float32(alone[3] - np.float64(alone[1]) * top)
        expected[4:6] = WIDTH, HEIGHT
        np.testing.assert_array_equal(geometry, expected)
        assert geometry[7] == 0
