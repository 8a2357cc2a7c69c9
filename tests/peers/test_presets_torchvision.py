"""The presets `torchvision`, `rtdetr` and `ssd` against torchvision, file to tensor."""

from __future__ import annotations

import numpy as np
import PIL
import pytest
import torch
from torchvision import models
from torchvision.models.detection import ssd300_vgg16
from torchvision.transforms import v2

import endcap
from tests.peers.pictures import COLOR, picture, pillow
from tests.support.preset_recipes import (
    assert_same_pixels,
    equal_within,
    preset_tensor,
    steps_between,
)
from tests.support.tolerances import PILLOW_ROWS_FIRST_STEPS

NAMES = [*COLOR, "cmyk"]
RESIZE_RTDETR = v2.Resize([640, 640])


def takes_rows_first(image: PIL.Image.Image, height: int, width: int) -> bool:
    """Whether the installed Pillow resizes the rows before the columns, as 13 does for some."""
    lost_h, lost_w = image.height - height, image.width - width
    return int(PIL.__version__.split(".")[0]) >= 13 and lost_h > max(0, 2 * lost_w)


def channels_last(tensor: torch.Tensor) -> np.ndarray:
    return tensor.numpy().transpose(1, 2, 0)


def assert_follows(preset: str, name: str, expected: np.ndarray, *, rows_first: bool) -> None:
    actual = preset_tensor(preset, picture(name))
    if rows_first:
        steps = steps_between(preset, actual, expected)
        assert steps.max() <= PILLOW_ROWS_FIRST_STEPS + equal_within(preset)
    else:
        assert_same_pixels(preset, actual, expected)


@pytest.mark.parametrize("name", NAMES)
def test_torchvision(name: str) -> None:
    image = pillow(picture(name))
    short = min(image.size)
    rows_first = takes_rows_first(image, 256 * image.height // short, 256 * image.width // short)
    expected = channels_last(models.ResNet50_Weights.IMAGENET1K_V1.transforms()(image))
    assert_follows("torchvision", name, expected, rows_first=rows_first)


@pytest.mark.parametrize(
    "weights",
    [
        models.ResNet50_Weights.IMAGENET1K_V2,
        models.Inception_V3_Weights.DEFAULT,
        models.EfficientNet_B3_Weights.DEFAULT,
        models.ViT_B_16_Weights.IMAGENET1K_SWAG_E2E_V1,
    ],
    ids=str,
)
def test_the_options_of_other_weights(weights: models.WeightsEnum) -> None:
    """docs/exports.md names them."""
    recipe = weights.transforms()
    image = pillow(picture("bus"))
    options = {
        "resize_shorter": recipe.resize_size[0],
        "interpolation": recipe.interpolation.value,
        "mean": tuple(recipe.mean),
        "std": tuple(recipe.std),
    }
    images = endcap.preprocess(
        picture("bus"), "torchvision", size=recipe.crop_size[0], **options
    ).images
    expected = channels_last(recipe(image))
    assert_same_pixels("torchvision", images[0].transpose(1, 2, 0), expected)


@pytest.mark.parametrize("name", NAMES)
def test_rtdetr(name: str) -> None:
    image = pillow(picture(name))
    to_tensor = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
    expected = channels_last(to_tensor(RESIZE_RTDETR(image)))
    rows_first = takes_rows_first(image, 640, 640)
    assert_follows("rtdetr", name, expected, rows_first=rows_first)
    if rows_first:
        columns_first = RESIZE_RTDETR(v2.Resize([image.height, 640])(image))
        expected = channels_last(to_tensor(columns_first))
        assert_follows("rtdetr", name, expected, rows_first=False)


@pytest.fixture(scope="module")
def ssd_transform() -> torch.nn.Module:
    return ssd300_vgg16(weights=None, weights_backbone=None).eval().transform


@pytest.mark.parametrize("name", NAMES)
def test_ssd(name: str, ssd_transform: torch.nn.Module) -> None:
    tensor = v2.functional.pil_to_tensor(pillow(picture(name))).float() / 255
    images, _ = ssd_transform([tensor])
    assert_follows("ssd", name, channels_last(images.tensors[0]), rows_first=False)
