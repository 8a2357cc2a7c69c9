"""From resized pixels to the tensor: colour, normalisation, dtype and layout; kinds of input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import endcap
from tests.reference.normalise import normalise
from tests.reference.resize import resize_linear
from tests.support import jpegs, tolerances

IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
SIZE = (48, 64)


def same_size(pixels: np.ndarray, **fields: Any) -> np.ndarray:
    """The tensor [3, H, W] of a picture that already has the tensor's size."""
    return endcap.preprocess(pixels, size=pixels.shape[:2], **fields).images[0]


@pytest.mark.parametrize("color", ["rgb", "bgr", "gray"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "int8"])
@pytest.mark.parametrize(
    ("scale", "mean", "std"),
    [
        (None, (0, 0, 0), (1, 1, 1)),
        (1 / 255, *IMAGENET.values()),
        (1 / 127.5, (1, 1, 1), (1, 1, 1)),
        (1.0, (103.939, 116.779, 123.68), (1, 1, 1)),
        (0.5, (0, 0, 0), (1, 1, 1)),  # every odd pixel is a tie
        (3.0, (128, 200, 0), (1, -1, 2)),  # runs out of the integers' range on both sides
    ],
)
def test_pixels_become_the_definitions_numbers(
    scale: float | None, mean: tuple[float, ...], std: tuple[float, ...], dtype: str, color: str
) -> None:
    pixels = np.repeat(np.arange(256, dtype=np.uint8).reshape(16, 16, 1), 3, axis=2)
    pixels[..., 1:] = jpegs.photo(16, 16)[..., 1:]
    if color == "gray":
        mean, std = mean[:1], std[:1]
    fields = {"mean": mean, "std": std, "dtype": dtype, "color": color}
    fields |= {} if scale is None else {"scale": scale}
    tensor = same_size(pixels, **fields)
    ordered = pixels[..., ::-1] if color == "bgr" else pixels
    if color == "gray":  # luma of BT.601 in 16 bits
        sums = pixels.astype(np.int64) @ np.array([19595, 38470, 7471])
        ordered = (sums[..., None] + 32768) >> 16
    default = 1.0 if dtype == "uint8" else 1 / 255
    expected = normalise(ordered, scale=scale or default, mean=mean, std=std, dtype=dtype)
    assert tensor.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(tensor, np.transpose(expected, (2, 0, 1)))
    rows = endcap.preprocess(pixels, size=16, layout="nhwc", **fields).images[0]
    np.testing.assert_array_equal(rows, expected)


def test_normalisation_of_unquantized_pixels() -> None:
    pixels = jpegs.photo(50, 70)
    tensor = endcap.preprocess(
        pixels, size=(96, 160), fit="stretch", quantize="none", scale=1 / 255, **IMAGENET
    ).images[0]
    resized = resize_linear(pixels, 96, 160)
    expected = np.transpose((resized / 255 - IMAGENET["mean"]) / IMAGENET["std"], (2, 0, 1))
    atol = tolerances.FLOAT_RESIZE_STEPS / 255 / min(IMAGENET["std"])
    np.testing.assert_allclose(tensor, expected, rtol=tolerances.FLOAT_NORMALISE_RTOL, atol=atol)


def test_padding_is_normalised_like_pixels() -> None:
    pixels = jpegs.photo(20, 64)
    result = endcap.preprocess(pixels, size=SIZE, pad_value=100, scale=1 / 255, **IMAGENET)
    expected = normalise(
        np.full((1, 1, 3), 100, np.uint8),
        scale=1 / 255,
        dtype="float32",
        **IMAGENET,
    )[0, 0]
    np.testing.assert_array_equal(result.images[0, :, 0, 0], expected)
    np.testing.assert_array_equal(result.images[0, :, -1, -1], expected)


def test_kinds_of_pixels_agree() -> None:
    pixels = jpegs.photo(50, 70)
    expected = endcap.preprocess(pixels, size=SIZE).images
    bgr = np.ascontiguousarray(pixels[..., ::-1])
    np.testing.assert_array_equal(
        endcap.preprocess(bgr, size=SIZE, pixel_format="bgr").images, expected
    )
    gray = jpegs.photo(50, 70, channels=1)
    expected = endcap.preprocess(np.repeat(gray, 3, axis=2), size=SIZE).images
    np.testing.assert_array_equal(endcap.preprocess(gray[..., 0], size=SIZE).images, expected)
    np.testing.assert_array_equal(
        endcap.preprocess(gray, size=SIZE, pixel_format="gray").images, expected
    )
