"""The preset `ultralytics` against LetterBox and the predictor's scaling, file to tensor."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ultralytics.data.augment import LetterBox
from ultralytics.utils.patches import imread

import endcap
from tests.peers.pictures import COLOR, picture
from tests.support.preset_recipes import assert_same_pixels, preset_tensor, steps_between
from tests.support.tolerances import CMYK_OPENCV_STEPS, NORMALISED_STEPS


def ultralytics_tensor(path: Path, *, scale_fill: bool = False) -> np.ndarray:
    """[H, W, C] as its predictor makes it: BGR to RGB, to float32, divided by 255."""
    letterbox = LetterBox((640, 640), auto=False, scale_fill=scale_fill)
    rgb = letterbox(image=imread(path))[..., ::-1]
    return rgb.astype(np.float32) / np.float32(255)


@pytest.fixture
def saved(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Path, bytes]:
    path = tmp_path / "picture.jpg"
    path.write_bytes(picture(request.param))
    return path, picture(request.param)


@pytest.mark.parametrize("saved", COLOR, indirect=True)
def test_letterbox(saved: tuple[Path, bytes]) -> None:
    path, data = saved
    assert_same_pixels("ultralytics", preset_tensor("ultralytics", data), ultralytics_tensor(path))


@pytest.mark.parametrize("saved", ["cmyk"], indirect=True)
def test_cmyk_is_near(saved: tuple[Path, bytes]) -> None:
    path, data = saved
    actual = preset_tensor("ultralytics", data)
    steps = steps_between("ultralytics", actual, ultralytics_tensor(path))
    assert steps.max() <= CMYK_OPENCV_STEPS + NORMALISED_STEPS


@pytest.mark.parametrize("saved", COLOR, indirect=True)
def test_its_rtdetr_stretches_without_antialias(saved: tuple[Path, bytes]) -> None:
    path, data = saved
    actual = endcap.preprocess(data, "rtdetr", antialias=False, exif="apply").images[0]
    expected = ultralytics_tensor(path, scale_fill=True)
    assert_same_pixels("rtdetr", actual.transpose(1, 2, 0), expected)
