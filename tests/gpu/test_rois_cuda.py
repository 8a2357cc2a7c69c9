"""Regions with device="cuda": the CPU's tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import endcap
from tests.support import jpegs
from tests.support.cuda_inputs import HOLDERS, on_gpu
from tests.support.rois import HEIGHT, RECIPES, ROIS, WIDTH
from tests.support.yuv_images import noise

FILE = jpegs.photo_jpeg(HEIGHT, WIDTH)
PIXELS = jpegs.photo(HEIGHT, WIDTH)
NONE = [[500, 500, 600, 600], [9, 9, 9, 9], [0, 0, np.nan, 5]]


def expect_the_cpus(
    image: object, rois: Any, held: object | None = None, **fields: Any
) -> endcap.PreprocessResult:
    """Compares; `held` is the image on a GPU. Returns the CPU's."""
    expected = endcap.preprocess(image, rois=rois, **fields)
    given = image if held is None else held
    actual = endcap.preprocess(given, rois=rois, device="cuda", **fields)
    assert isinstance(actual.images, endcap.CudaArray)
    np.testing.assert_array_equal(actual.images.to_numpy(), expected.images)
    np.testing.assert_array_equal(actual.geometry, expected.geometry)
    np.testing.assert_array_equal(actual.status, expected.status)
    assert actual.decoders == expected.decoders
    return expected


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe(recipe: str) -> None:
    expect_the_cpus(FILE, ROIS, **RECIPES[recipe])


@pytest.mark.parametrize("color", ["rgb", "gray"])
@pytest.mark.parametrize("pixel_format", ["rgb", "bgr"])
def test_pixels_wherever_they_lie(pixel_format: str, color: str) -> None:
    fields: dict[str, Any] = {"size": 64, "pixel_format": pixel_format, "color": color}
    for pixels in (PIXELS, PIXELS[::-1], PIXELS[..., 0]):
        expect_the_cpus(pixels, ROIS, **fields)
    for hold in HOLDERS:
        expect_the_cpus(PIXELS, ROIS, hold(PIXELS), **fields)
        gray = np.ascontiguousarray(PIXELS[..., 0])
        expect_the_cpus(gray, ROIS, hold(gray), **fields)


def test_tiles() -> None:
    for image, held in ((FILE, FILE), (PIXELS, on_gpu(PIXELS))):
        expect_the_cpus(image, None, held, size=32, tile=64)
    blank = {"size": 32, "tile": 64, "on_error": "blank"}
    expect_the_cpus(FILE[: len(FILE) // 2], None, **blank)
    expect_the_cpus(b"no picture", None, **blank)
    with pytest.raises(endcap.UnsupportedError, match="merge is for the CPU"):
        endcap.Postprocessor(device="cuda", merge="nms")


def test_yuv() -> None:
    planes = noise(36, 52)
    rois = [[1, 1, 30, 20], [0, 0, 52, 36], [51, 35, 52, 36]]
    expect_the_cpus(planes.image(), rois, size=32)
    on_device = endcap.nv12(on_gpu(planes.nv12))
    with pytest.raises(endcap.UnsupportedError, match="give it in CPU memory, or RGB"):
        endcap.preprocess(on_device, rois=rois, size=32, device="cuda")


def test_bad_regions_are_blank_and_touch_no_other() -> None:
    rois = [ROIS[0], *NONE, ROIS[1]]
    result = expect_the_cpus(FILE, rois, size=40, on_error="blank")
    assert [code != 0 for code in result.status] == [False, True, True, True, False]
    for part in (NONE, np.zeros((0, 4), np.float32)):
        expect_the_cpus(FILE, part, size=40, on_error="blank")
    with pytest.raises(endcap.InvalidArgumentError, match="roi index 1 of 5 is"):
        endcap.preprocess(FILE, rois=rois, size=40, device="cuda")


def test_bad_images() -> None:
    damaged = FILE[: len(FILE) // 3]
    for file in (damaged, b"none", b""):
        expect_the_cpus(file, ROIS, size=40, on_error="blank")
        with pytest.raises(endcap.EndcapError) as on_cpu:
            endcap.preprocess(file, rois=ROIS, size=40)
        with pytest.raises(type(on_cpu.value)) as on_device:
            endcap.preprocess(file, rois=ROIS, size=40, device="cuda")
        assert str(on_device.value) == str(on_cpu.value)
    with pytest.raises(endcap.InvalidArgumentError, match="max_rois allows 2"):
        endcap.Preprocessor(max_rois=2, device="cuda")(FILE, rois=ROIS)


def test_many_regions_in_memory_of_the_callers() -> None:
    random = np.random.default_rng(3)
    corners = random.uniform(0, 140, (300, 2))
    rois = np.hstack([corners, corners + random.uniform(1, 60, (300, 2))])
    expected = endcap.preprocess(FILE, rois=rois, size=16, dtype="uint8")
    out = on_gpu(np.full(expected.images.shape, 7, np.uint8))
    preprocessor = endcap.Preprocessor(size=16, dtype="uint8", device="cuda")
    for _ in range(3):  # memory is used again
        result = preprocessor(FILE, rois=rois, out=out)
    assert result.images is out
    np.testing.assert_array_equal(out.to_numpy(), expected.images)
