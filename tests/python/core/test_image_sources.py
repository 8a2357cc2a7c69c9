"""What may be given as an image beside bytes and arrays: paths and Pillow images."""

from __future__ import annotations

import os
from pathlib import Path

import jpegs
import numpy as np
import pytest
from PIL import Image

import endcap
from endcap.errors import ImageLimitError, InvalidArgumentError

PIXELS = jpegs.photo(40, 60, seed=1)
FILE = jpegs.encode(PIXELS, orientation=6)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "a.jpg"
    file.write_bytes(FILE)
    return file


@pytest.mark.parametrize("kind", [str, Path])
def test_a_path_is_the_file_s_bytes(path: Path, kind: type) -> None:
    expected = endcap.preprocess([FILE, PIXELS], size=64)
    given = endcap.preprocess([kind(path), PIXELS], size=64)
    np.testing.assert_array_equal(given.images, expected.images)
    np.testing.assert_array_equal(given.geometry, expected.geometry)
    np.testing.assert_array_equal(endcap.decode(kind(path)), endcap.decode(FILE))
    rois = [[1, 2, 20, 30]]
    np.testing.assert_array_equal(
        endcap.preprocess(kind(path), size=32, rois=rois).images,
        endcap.preprocess(FILE, size=32, rois=rois).images,
    )


def test_a_file_beyond_the_limit_is_not_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "large.jpg"
    file.write_bytes(FILE)
    os.truncate(file, 1 << 40)  # sparse: nothing could read it whole
    with pytest.raises(ImageLimitError):
        endcap.preprocess(file, size=32, max_bytes=1000)
    with pytest.raises(ImageLimitError):
        endcap.decode(file, max_bytes=1000)
    blank = endcap.preprocess([file, FILE], size=32, max_bytes=100_000, on_error="blank")
    assert blank.status.tolist() == [endcap.Status.IMAGE_LIMIT, 0]


def test_paths_of_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(InvalidArgumentError, match="is no file: give the path of an image"):
            endcap.preprocess(tmp_path / name)
    with pytest.raises(FileNotFoundError, match=r"missing\.jpg"):
        endcap.preprocess(tmp_path / "missing.jpg")


@pytest.mark.parametrize("pixel_format", ["rgb", "bgr"])
def test_a_pillow_image_tells_its_channels(pixel_format: str) -> None:
    expected = endcap.preprocess(PIXELS, size=64)
    given = endcap.preprocess(Image.fromarray(PIXELS), size=64, pixel_format=pixel_format)
    np.testing.assert_array_equal(given.images, expected.images)


@pytest.mark.parametrize("mode", ["L", "1", "P", "RGBA", "CMYK"])
def test_modes_are_converted_as_pillow_does(mode: str) -> None:
    image = Image.fromarray(PIXELS).convert(mode)
    expected = endcap.preprocess(np.asarray(image.convert("RGB")), size=64)
    np.testing.assert_array_equal(endcap.preprocess(image, size=64).images, expected.images)


@pytest.mark.parametrize("mode", ["I", "F", "I;16"])
def test_modes_of_more_than_8_bits_are_refused(mode: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"the mode {mode}, of more than 8 bits"):
        endcap.preprocess(Image.new(mode, (8, 8)))
