"""Each preset, file to tensor, against its recipe done with the library that it is made of."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import image_files
import jpegs
import numpy as np
import pytest
from preset_recipes import RECIPES, read_pillow
from preset_steps import assert_same_pixels, preset_tensor

import endcap
from endcap.cli.files import SAMPLES, find_repository

# Landscape, portrait, odd, square, smaller than every target, and sides of one pixel.
SIZES = [(400, 600), (640, 480), (333, 517), (333, 333), (90, 121), (1, 60), (60, 1), (1, 1)]
SAMPLE_FILES = sorted((find_repository() / SAMPLES).glob("*.jpg"))
READ_BY_OPENCV = ["ultralytics", "vgg"]
READ_BY_PILLOW = ["torchvision", "inception", "rtdetr", "rfdetr", "ssd"]


def assert_follows(preset: str, data: bytes) -> None:
    read, recipe = RECIPES[preset]
    assert_same_pixels(preset, preset_tensor(preset, data), recipe(read(data)))


@cache
def cmyk_jpeg() -> bytes:
    colors = jpegs.photo(200, 300, seed=5)
    return jpegs.encode(np.dstack([colors, jpegs.photo(200, 300, channels=1, seed=6)]))


def test_every_preset_has_a_recipe_and_there_are_samples() -> None:
    assert SAMPLE_FILES
    assert set(RECIPES) == set(endcap.presets()) == {*READ_BY_OPENCV, *READ_BY_PILLOW}


@pytest.mark.parametrize("size", SIZES, ids=lambda s: f"{s[0]}x{s[1]}")
@pytest.mark.parametrize("preset", RECIPES)
def test_a_preset_is_its_recipe(preset: str, size: tuple[int, int]) -> None:
    assert_follows(preset, jpegs.photo_jpeg(*size, seed=7))


@pytest.mark.parametrize("sample", SAMPLE_FILES, ids=lambda f: f.stem)
@pytest.mark.parametrize("preset", RECIPES)
def test_the_sample_pictures(preset: str, sample: Path) -> None:
    assert_follows(preset, sample.read_bytes())


@pytest.mark.parametrize("preset", RECIPES)
def test_a_gray_file(preset: str) -> None:
    assert_follows(preset, jpegs.encode(jpegs.photo(211, 300, channels=1, seed=8)))


@pytest.mark.parametrize("preset", RECIPES)
def test_alpha_is_taken_as_the_library_takes_it(preset: str) -> None:
    alpha = np.random.default_rng(4).integers(0, 256, (211, 300, 1), np.uint8)
    alpha[:100] = 0
    rgba = np.concatenate([jpegs.photo(211, 300, seed=3), alpha], axis=2)
    assert_follows(preset, image_files.png(rgba, 6, 8))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("preset", RECIPES)
def test_exif_is_taken_as_the_library_takes_it(preset: str, orientation: int) -> None:
    assert_follows(preset, jpegs.encode(jpegs.photo(120, 201, seed=9), orientation=orientation))


@pytest.mark.parametrize("preset", RECIPES)
def test_cmyk_is_taken_as_pillow_takes_it(preset: str) -> None:
    rgb = read_pillow(cmyk_jpeg())
    pixels = rgb[..., ::-1] if preset in READ_BY_OPENCV else rgb
    recipe = RECIPES[preset][1]
    assert_same_pixels(
        preset, preset_tensor(preset, cmyk_jpeg()), recipe(np.ascontiguousarray(pixels))
    )
