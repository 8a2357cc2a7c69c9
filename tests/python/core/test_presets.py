"""Each preset, file to tensor, against its recipe done with the library that it is made of."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import endcap
from tests.support import image_files, jpegs
from tests.support.other_libraries import pillow_rgb
from tests.support.preset_recipes import RECIPES, assert_same_pixels, preset_tensor

# Landscape, portrait, odd, square, smaller than every target, and sides of one pixel.
SIZES = [(400, 600), (640, 480), (333, 517), (333, 333), (90, 121), (1, 60), (60, 1), (1, 1)]
READ_BY_OPENCV = ["ultralytics", "vgg"]
READ_BY_PILLOW = ["torchvision", "inception", "rtdetr", "rfdetr", "ssd"]


def assert_follows(preset: str, data: bytes) -> None:
    read, recipe = RECIPES[preset]
    assert_same_pixels(preset, preset_tensor(preset, data), recipe(read(data)))


@cache
def cmyk_jpeg() -> bytes:
    colors = jpegs.photo(200, 300, seed=5)
    return jpegs.encode(np.dstack([colors, jpegs.photo(200, 300, channels=1, seed=6)]))


def test_every_preset_has_a_recipe() -> None:
    assert set(RECIPES) == set(endcap.presets()) == {*READ_BY_OPENCV, *READ_BY_PILLOW}


@pytest.mark.parametrize("size", SIZES, ids=lambda s: f"{s[0]}x{s[1]}")
@pytest.mark.parametrize("preset", RECIPES)
def test_a_preset_is_its_recipe(preset: str, size: tuple[int, int]) -> None:
    assert_follows(preset, jpegs.photo_jpeg(*size, seed=7))


@pytest.mark.parametrize("preset", RECIPES)
def test_a_gray_file(preset: str) -> None:
    assert_follows(preset, jpegs.encode(jpegs.photo(211, 300, channels=1, seed=8)))


@pytest.mark.parametrize("preset", RECIPES)
def test_alpha_is_taken_as_the_library_takes_it(preset: str) -> None:
    alpha = np.random.default_rng(4).integers(0, 256, (211, 300, 1), np.uint8)
    alpha[:100] = 0
    rgba = np.concatenate([jpegs.photo(211, 300, seed=3), alpha], axis=2)
    assert_follows(preset, image_files.png(rgba, 6, 8))


@pytest.mark.parametrize("preset", RECIPES)
def test_exif_is_taken_as_the_library_takes_it(preset: str) -> None:
    assert_follows(preset, jpegs.encode(jpegs.photo(120, 201, seed=9), orientation=6))


@pytest.mark.parametrize("preset", RECIPES)
def test_cmyk_is_taken_as_pillow_takes_it(preset: str) -> None:
    rgb = pillow_rgb(cmyk_jpeg())
    pixels = rgb[..., ::-1] if preset in READ_BY_OPENCV else rgb
    recipe = RECIPES[preset][1]
    assert_same_pixels(
        preset, preset_tensor(preset, cmyk_jpeg()), recipe(np.ascontiguousarray(pixels))
    )
