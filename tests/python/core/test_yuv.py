"""Pixels in NV12 and planar YUV: the oracle's colors, bit for bit, always; and OpenCV's."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import endcap
from tests.reference import yuv
from tests.support import forced_implementations, tolerances, yuv_images
from tests.support.rois import HEIGHT, RECIPES, ROIS, WIDTH
from tests.support.yuv_images import MATRICES, RANGES, SAMPLINGS, Pixels, noise

forced_implementation = forced_implementations.on_each_implementation("preprocess")


def as_they_are(image: object, height: int, width: int, **fields: Any) -> Pixels:
    """An image's pixels [H, W, C], neither resized nor normalised."""
    result = endcap.preprocess(
        image, size=(height, width), fit="stretch", dtype="uint8", layout="nhwc", **fields
    )
    images: Pixels = result.images
    np.testing.assert_array_equal(
        result.geometry[0], [1, 1, 0, 0, width, height, 1, 0], err_msg="geometry"
    )
    return images[0]


@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("scale", RANGES)
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_colors_are_the_oracles(matrix: str, scale: str, sampling: str) -> None:
    planes = noise(HEIGHT, WIDTH, sampling)
    image = planes.image(matrix=matrix, range=scale)
    np.testing.assert_array_equal(as_they_are(image, HEIGHT, WIDTH), planes.rgb(matrix, scale))
    gray = as_they_are(image, HEIGHT, WIDTH, color="gray")
    np.testing.assert_array_equal(gray[..., 0], yuv.to_gray(planes.y, scale))


@given(
    height=st.integers(1, 40),
    width=st.integers(1, 140),
    sampling=st.sampled_from(sorted(SAMPLINGS)),
    scale=st.sampled_from(RANGES),
)
def test_colors_at_every_size(height: int, width: int, sampling: str, scale: str) -> None:
    planes = noise(height, width, sampling, seed=height * 997 + width)
    image = planes.image(matrix="bt709", range=scale)
    np.testing.assert_array_equal(as_they_are(image, height, width), planes.rgb("bt709", scale))


@pytest.mark.parametrize("scale", RANGES)
@pytest.mark.parametrize("size", [(2, 2), (36, 52), (37, 53), (1, 9), (9, 1), (1, 1)])
def test_nv12_is_its_planes(size: tuple[int, int], scale: str) -> None:
    planes = noise(*size)
    expected = yuv.to_rgb(planes.y, planes.u, planes.v, "bt2020", scale, steps=(2, 2))
    options: dict[str, Any] = {"matrix": "bt2020", "range": scale}
    pair = endcap.nv12((planes.y, planes.uv), **options)
    np.testing.assert_array_equal(as_they_are(pair, *size), expected)
    if size[0] % 2 == size[1] % 2 == 0:
        whole = endcap.nv12(planes.nv12, **options)
        np.testing.assert_array_equal(as_they_are(whole, *size), expected)


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_every_recipe(recipe: str, sampling: str) -> None:
    planes = noise(HEIGHT, WIDTH, sampling)
    result = endcap.preprocess(planes.image(), **RECIPES[recipe])
    expected = endcap.preprocess(planes.rgb(), **RECIPES[recipe])
    np.testing.assert_array_equal(result.images, expected.images)
    np.testing.assert_array_equal(result.geometry, expected.geometry)
    assert result.decoders == ("",)


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("scale", RANGES)
@pytest.mark.parametrize("color", ["rgb", "gray"])
def test_regions_are_slices_of_the_whole(sampling: str, scale: str, color: str) -> None:
    planes = noise(HEIGHT, WIDTH, sampling)
    fields: dict[str, Any] = {"size": (24, 40), "color": color}
    crops = endcap.preprocess(planes.image(range=scale), rois=ROIS, **fields)
    pixels = planes.rgb(range=scale) if color == "rgb" else yuv.to_gray(planes.y, scale)
    expected = endcap.preprocess(pixels, rois=ROIS, **fields)
    np.testing.assert_array_equal(crops.images, expected.images)
    np.testing.assert_array_equal(crops.geometry, expected.geometry)
    assert (crops.status == 0).all()


def test_rows_may_lie_apart_and_upside_down() -> None:
    planes = noise(36, 52)
    expected = endcap.preprocess(planes.image(), size=40).images
    wide = np.zeros((54, 80), np.uint8)
    wide[:, 5:57] = planes.nv12
    cut = endcap.nv12(wide[:, 5:57])
    np.testing.assert_array_equal(endcap.preprocess(cut, size=40).images, expected)
    flipped = endcap.nv12((planes.y[::-1].copy()[::-1], planes.uv[::-1].copy()[::-1]))
    np.testing.assert_array_equal(endcap.preprocess(flipped, size=40).images, expected)
    every_second = np.repeat(planes.y, 2, axis=1)[:, ::2]
    apart = endcap.planar_yuv(every_second, planes.u, planes.v)
    np.testing.assert_array_equal(endcap.preprocess(apart, size=40).images, expected)


def test_broadcast_planes_are_copied() -> None:
    y = noise(36, 52).y
    flat = np.broadcast_to(np.uint8(90), (18, 26))
    rows = np.broadcast_to(np.arange(26, dtype=np.uint8), (18, 26))
    result = as_they_are(endcap.planar_yuv(y, flat, rows), 36, 52)
    np.testing.assert_array_equal(result, yuv.to_rgb(y, flat, rows, "bt601", "limited"))


def test_a_batch_may_be_mixed() -> None:
    planes = noise(36, 52)
    images = [planes.image(), planes.rgb(), endcap.nv12(planes.nv12)]
    result = endcap.Preprocessor(size=40, threads=2)(images)
    np.testing.assert_array_equal(result.images[0], result.images[1])
    np.testing.assert_array_equal(result.images[2], result.images[1])


@pytest.mark.parametrize("u", [16, 77, 128, 240])
@pytest.mark.parametrize("v", [16, 128, 201])
def test_flat_chroma_is_opencvs(u: int, v: int) -> None:
    # Below 16 OpenCV takes luma for 16.
    y = np.random.default_rng(u * v).integers(16, 256, (64, 96), np.uint8)
    planes = yuv_images.Planes(y, np.full((32, 48), u, np.uint8), np.full((32, 48), v, np.uint8))
    i420 = np.concatenate([y, planes.u.reshape(16, 96), planes.v.reshape(16, 96)])
    for image, packed, code in (
        (endcap.nv12(planes.nv12), planes.nv12, cv2.COLOR_YUV2RGB_NV12),
        (planes.image(), i420, cv2.COLOR_YUV2RGB_I420),
    ):
        steps = as_they_are(image, 64, 96).astype(int) - cv2.cvtColor(packed, code)
        assert np.abs(steps).max() <= tolerances.YUV_OPENCV_STEPS


def zeros(*shape: int) -> Pixels:
    return np.zeros(shape, np.uint8)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (endcap.nv12(zeros(7, 4)), r"shape \[7, 4\]; give \[H\*3/2, W\]"),
        (endcap.nv12(zeros(6, 3)), r"shape \[6, 3\]; give \[H\*3/2, W\]"),
        (endcap.nv12(zeros(6, 4, 3)), r"NV12 plane has shape \[6, 4, 3\]"),
        (endcap.nv12(bytes(24)), r"NV12 plane has shape \[24\]"),
        (endcap.nv12((zeros(5, 7), zeros(2, 4, 2))), r"UV plane .* give \[3, 4, 2\]"),
        (endcap.nv12((zeros(4, 4), zeros(2, 4))), r"UV plane .* give \[H, W, 2\]"),
        (endcap.nv12(zeros(6, 4).astype(np.float32)), "float32: give uint8"),
        (endcap.nv12("frame.yuv"), "path"),
        (endcap.planar_yuv(zeros(4, 4), zeros(2, 2), zeros(2, 1)), "planes of one size"),
        (endcap.planar_yuv(zeros(4, 8), zeros(2, 2), zeros(2, 2)), "half as many rows"),
        (endcap.planar_yuv(zeros(4, 4, 1), zeros(2, 2), zeros(2, 2)), "Y plane"),
        (endcap.planar_yuv(zeros(0, 4), zeros(0, 2), zeros(0, 2)), "at least 1"),
    ],
)
def test_planes_that_do_not_fit_are_refused(image: endcap.YuvImage, message: str) -> None:
    with pytest.raises(endcap.InvalidArgumentError, match=message):
        endcap.preprocess(image, size=8)


def test_other_arguments_are_refused() -> None:
    with pytest.raises(endcap.InvalidArgumentError, match="matrix is 'bt470'"):
        endcap.nv12(zeros(6, 4), matrix="bt470")
    with pytest.raises(endcap.InvalidArgumentError, match="range is 'tv'"):
        endcap.planar_yuv(zeros(4, 4), zeros(2, 2), zeros(2, 2), range="tv")
    with pytest.raises(endcap.InvalidArgumentError, match="3 planes"):
        endcap.nv12([zeros(4, 4)] * 3)
    with pytest.raises(endcap.InvalidArgumentError, match="pixels"):
        endcap.decode(endcap.nv12(zeros(6, 4)))
    with pytest.raises(endcap.ImageLimitError, match="max_pixels"):
        endcap.preprocess(endcap.nv12(zeros(600, 400)), size=8, max_pixels=1000)
