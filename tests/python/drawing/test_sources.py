"""The images that results are drawn on."""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import endcap
from endcap.client import ClassScore, Detection, ImageDetections, ImageResult, Task
from endcap.drawing import draw_class, draw_detections
from tests.support import jpegs


def detections(number: int, label: str | None = "bus") -> ImageDetections:
    return ImageDetections.from_list(
        Detection((8, 6, 40.25, 30), 0.9 - n / 1000, n, label) for n in range(number)
    )


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    path = tmp_path / "photo.jpg"
    path.write_bytes(jpegs.photo_jpeg(300, 400))
    return path


def test_every_kind_of_image_is_drawn_on(photo: Path) -> None:
    found = detections(1)
    with Image.open(photo) as opened:
        expected = np.asarray(draw_detections(opened, found))
        pixels = np.asarray(opened)
        for image in (photo, str(photo), photo.read_bytes(), pixels, opened):
            assert (np.asarray(found.draw(image)) == expected).all()
        gray = found.draw(pixels[..., 0].copy())
    assert (gray.size, gray.mode) == (opened.size, "RGB")
    encoded = np.frombuffer(photo.read_bytes(), np.uint8)
    assert (np.asarray(found.draw(encoded)) == expected).all()
    assert found.draw(photo, within=(80, 80)).size == (80, 60)
    assert photo.read_bytes().startswith(b"\xff\xd8"), "the file is left alone"


def test_the_orientation_of_a_file_is_applied_unless_boxes_ignore_it(photo: Path) -> None:
    rotated = jpegs.with_exif(photo.read_bytes(), jpegs.exif_segment(6))
    width, height = Image.open(io.BytesIO(rotated)).size
    assert detections(1).draw(rotated).size == (height, width)
    assert detections(1).draw(rotated, upright=False).size == (width, height)
    photo.write_bytes(rotated)
    assert ImageResult(str(photo), "ok").draw().size == (height, width)
    assert ImageResult(str(photo), "ok", upright=False).draw().size == (width, height)


@pytest.mark.parametrize(
    ("image", "error", "message"),
    [
        (b"none", endcap.CorruptImageError, "cannot be read by Pillow"),
        (b"", endcap.CorruptImageError, "cannot be read by Pillow"),
        (np.zeros((4, 4, 3), np.float32), endcap.InvalidArgumentError, "float32"),
        (np.zeros((4, 4, 2), np.uint8), endcap.InvalidArgumentError, "[4, 4, 2]"),
        (np.zeros((0, 4, 3), np.uint8), endcap.InvalidArgumentError, "[0, 4, 3]"),
        (7, endcap.InvalidArgumentError, "of type int"),
        ("no/file.jpg", FileNotFoundError, "No such file"),
    ],
)
def test_what_cannot_be_drawn_on(image: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        detections(1).draw(image)


def test_yuv_cannot_be_drawn_on() -> None:
    frame = endcap.nv12(np.zeros((6, 4), np.uint8))
    with pytest.raises(endcap.InvalidArgumentError, match="in YUV cannot be drawn on"):
        detections(1).draw(frame)


def test_a_result_draws_its_own_file(photo: Path) -> None:
    result = ImageResult(str(photo), "ok", detections(2))
    assert (np.asarray(result.draw()) == np.asarray(result.detections.draw(photo))).all()
    best = ClassScore(1, 0.5, "bus")
    classified = ImageResult(str(photo), "ok", classes=[best], task=Task.classification)
    with Image.open(photo) as opened:
        assert (np.asarray(classified.draw()) == np.asarray(draw_class(opened, best))).all()
    in_memory = ImageResult("image 0", "ok", detections(1))
    with pytest.raises(
        endcap.InvalidArgumentError, match=r"image 0 is not a file: .*draw\(image\)"
    ):
        in_memory.draw()
    assert in_memory.draw(photo).size == (400, 300)
    with pytest.raises(endcap.InvalidArgumentError, match=r"failed .corrupt_image: bad.; look at"):
        ImageResult(str(photo), "corrupt_image", error="bad").draw()
