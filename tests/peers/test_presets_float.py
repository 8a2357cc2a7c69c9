"""The preset `inception` and unquantized resizing against PyTorch's interpolate."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import endcap
from tests.peers.pictures import COLOR, WITHOUT_EXIF, picture, pixels
from tests.support.preset_recipes import assert_same_pixels, preset_tensor
from tests.support.tolerances import FLOAT_RESIZE_STEPS


def interpolated(name: str, side: int, mode: str, *, antialias: bool = False) -> np.ndarray:
    """[side, side, C] of float32 pixels, 0 to 255."""
    tensor = torch.from_numpy(pixels(name).copy()).permute(2, 0, 1)[None].float()
    resized = torch.nn.functional.interpolate(
        tensor, (side, side), mode=mode, align_corners=False, antialias=antialias
    )
    return resized[0].permute(1, 2, 0).numpy()


@pytest.mark.parametrize("name", [*COLOR, "cmyk"])
def test_inception_is_a_float_resize(name: str) -> None:
    expected = interpolated(name, 299, "bilinear") / 127.5 - 1
    assert_same_pixels("inception", preset_tensor("inception", picture(name)), expected)


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize("name", WITHOUT_EXIF)
def test_unquantized_is_pytorch(name: str, interpolation: str, antialias: bool) -> None:
    actual = endcap.preprocess(
        pixels(name),
        size=224,
        fit="stretch",
        layout="nhwc",
        scale=1.0,
        quantize="none",
        interpolation=interpolation,
        antialias=antialias,
    ).images[0]
    expected = interpolated(name, 224, interpolation, antialias=antialias)
    assert np.abs(actual - expected).max() <= FLOAT_RESIZE_STEPS
