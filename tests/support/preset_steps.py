"""A preset's tensor, and how far another one is from it in 8-bit steps."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import endcap
from tests.support import tolerances


def preset_tensor(preset: str, data: bytes) -> npt.NDArray[np.float32]:
    """The preset's tensor of a file, as [H, W, C]."""
    images = endcap.preprocess(data, preset).images[0]
    nhwc = endcap.Preprocessor(preset, threads=1).parameters["layout"] == "nhwc"
    return images if nhwc else images.transpose(1, 2, 0)


def steps_between(
    preset: str, actual: npt.NDArray[np.floating], expected: npt.NDArray[np.floating]
) -> npt.NDArray[np.float64]:
    """The absolute difference of two [H, W, C] tensors in 8-bit steps of the pixels."""
    assert actual.shape == expected.shape
    parameters = endcap.Preprocessor(preset, threads=1).parameters
    std = np.array([float(value) for value in parameters["std"].split(",")])
    steps: npt.NDArray[np.float64] = (
        np.abs(actual.astype(np.float64) - expected) * std / float(parameters["scale"])
    )
    return steps


def equal_within(preset: str) -> float:
    """The difference in steps up to which two pixels are equal: what float arithmetic leaves."""
    unquantized = endcap.Preprocessor(preset, threads=1).parameters["quantize"] == "none"
    return tolerances.FLOAT_RESIZE_STEPS if unquantized else tolerances.NORMALISED_STEPS


def assert_same_pixels(
    preset: str, actual: npt.NDArray[np.floating], expected: npt.NDArray[np.floating]
) -> None:
    """No pixel is more than a step away, and nearly all are equal."""
    steps = steps_between(preset, actual, expected)
    assert steps.max() <= tolerances.PRESET_STEPS + equal_within(preset)
    assert (steps <= equal_within(preset)).mean() >= tolerances.PRESET_EXACT_SHARE
