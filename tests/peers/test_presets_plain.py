"""The plain arithmetic of OpenCV and Pillow on photographs: every filter, shrinking and growing."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from pictures import WITHOUT_EXIF, pixels
from PIL import Image
from tolerances import OPENCV_RESIZE_EXACT_SHARE, OPENCV_RESIZE_STEPS

import endcap

OPENCV = {"bilinear": cv2.INTER_LINEAR, "bicubic": cv2.INTER_CUBIC, "area": cv2.INTER_AREA}
PILLOW = {
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "area": Image.Resampling.BOX,
}
# Height and width; most pictures shrink, grow along one axis, and grow along both.
TARGETS = [(224, 224), (320, 213), (300, 1000), (1111, 777)]


def resized(name: str, target: tuple[int, int], interpolation: str, **fields: bool) -> np.ndarray:
    return endcap.preprocess(
        pixels(name),
        size=target,
        fit="stretch",
        layout="nhwc",
        dtype="uint8",
        interpolation=interpolation,
        **fields,
    ).images[0]


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("interpolation", OPENCV)
@pytest.mark.parametrize("name", WITHOUT_EXIF)
def test_opencv(name: str, interpolation: str, target: tuple[int, int]) -> None:
    expected = cv2.resize(pixels(name), target[::-1], interpolation=OPENCV[interpolation])
    steps = np.abs(resized(name, target, interpolation).astype(int) - expected)
    assert steps.max() <= OPENCV_RESIZE_STEPS
    assert (steps == 0).mean() >= OPENCV_RESIZE_EXACT_SHARE


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("interpolation", PILLOW)
@pytest.mark.parametrize("name", WITHOUT_EXIF)
def test_pillow(name: str, interpolation: str, target: tuple[int, int]) -> None:
    # Columns first in any version: from 13 on, one call may take the rows first.
    method = PILLOW[interpolation]
    narrow = Image.fromarray(pixels(name)).resize((target[1], len(pixels(name))), method)
    expected = np.asarray(narrow.resize(target[::-1], method))
    actual = resized(name, target, interpolation, antialias=True)
    np.testing.assert_array_equal(actual, expected)


def off_edges(source: int, target: int) -> np.ndarray:
    """The outputs whose centre is inside a source pixel: on an edge either neighbour is nearest."""
    return np.array([(2 * i + 1) * source % (2 * target) != 0 for i in range(target)])


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("name", WITHOUT_EXIF)
def test_nearest_of_pillow(name: str, target: tuple[int, int]) -> None:
    picture = pixels(name)
    rows, columns = off_edges(picture.shape[0], target[0]), off_edges(picture.shape[1], target[1])
    assert rows.any()
    assert columns.any()
    expected = np.asarray(Image.fromarray(picture).resize(target[::-1], Image.Resampling.NEAREST))
    actual = resized(name, target, "nearest")
    np.testing.assert_array_equal(actual[rows][:, columns], expected[rows][:, columns])
