"""Boxes and labels on real pixels."""

from __future__ import annotations

import io
import itertools

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from endcap.client import Detection
from endcap.draw import class_color, draw_detections

GRAY = (128, 128, 128)


def canvas(width: int, height: int, color: tuple[int, int, int] = GRAY) -> Image.Image:
    return Image.new("RGB", (width, height), color)


def one(
    box: tuple[float, float, float, float], class_id: int = 0, label: str | None = "ring"
) -> Detection:
    return Detection(box=box, score=0.875, class_id=class_id, label=label, index=0)


def colored(picture: Image.Image, class_id: int) -> NDArray[np.bool_]:
    """Which pixels have a class's colour, [H,W]."""
    return np.asarray(np.all(np.asarray(picture) == class_color(class_id), axis=2))


def letter_pixels(picture: Image.Image) -> int:
    """Pixels of dark letters on a bright label, on a gray picture."""
    return int((np.asarray(picture).max(axis=2) < 110).sum())


def test_the_outline_lies_on_the_box_and_the_inside_is_untouched() -> None:
    picture = draw_detections(canvas(480, 480), [one((100.0, 200.0, 300.0, 400.0))])
    mask = colored(picture, 0)
    for x, y in ((100, 300), (300, 300), (200, 400), (250, 200)):
        assert mask[y, x], f"edge at {x}, {y}"
    assert np.asarray(picture)[230:390, 110:290].tolist() == [[list(GRAY)] * 180] * 160
    assert not mask[:, 302:].any()
    assert not mask[402:].any()


def test_the_label_stands_above_the_box_on_the_color_of_the_class() -> None:
    picture = draw_detections(canvas(480, 480), [one((100.0, 200.0, 300.0, 400.0), class_id=1)])
    label = np.asarray(picture)[184:199, 102:140]
    assert (label == class_color(1)).all(axis=2).sum() > 100, "background"
    assert (label == (255, 255, 255)).all(axis=2).any(), "white letters on a dark colour"


@pytest.mark.parametrize(
    "box",
    [(0.0, 0.0, 60.0, 60.0), (300.0, 0.0, 319.0, 239.0), (-50.0, 230.0, 400.0, 500.0)],
    ids=["top left", "right", "beyond"],
)
def test_the_label_is_never_cut_off(box: tuple[float, float, float, float]) -> None:
    inside = draw_detections(canvas(320, 240), [one((100.0, 100.0, 200.0, 200.0))])
    at_edge = draw_detections(canvas(320, 240), [one(box)])
    assert letter_pixels(inside) == letter_pixels(at_edge) > 20


def test_lines_and_letters_grow_with_the_picture() -> None:
    small = draw_detections(canvas(320, 240), [one((100.0, 100.0, 200.0, 200.0))])
    large = draw_detections(canvas(3200, 2400), [one((1000.0, 1000.0, 2000.0, 2000.0))])
    row_small, row_large = colored(small, 0)[150], colored(large, 0)[1500]
    assert row_small.sum() == 2 * 2
    assert row_large.sum() == 2 * 10
    assert letter_pixels(large) > 20 * letter_pixels(small)


def test_exif_orientation_is_applied_before_boxes_are_drawn() -> None:
    stored = canvas(400, 300)
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees
    file = io.BytesIO()
    stored.save(file, "JPEG", exif=exif)
    with Image.open(file) as image:
        picture = draw_detections(image, [one((10.0, 320.0, 290.0, 390.0))])
    assert picture.size == (300, 400)
    assert picture.getexif().get(0x0112) is None
    assert colored(picture, 0)[355, [10, 290]].all()


def test_the_given_image_is_not_changed_and_any_mode_is_taken() -> None:
    for mode in ("L", "CMYK", "P", "RGBA"):
        image = canvas(100, 80).convert(mode)
        before = image.tobytes()
        picture = draw_detections(image, [one((20.0, 30.0, 80.0, 70.0))])
        assert picture.mode == "RGB"
        assert colored(picture, 0)[50, 20]
        assert image.tobytes() == before


def test_nothing_found_leaves_the_picture_as_it_is() -> None:
    noise = np.random.default_rng(7).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    assert np.array_equal(np.asarray(draw_detections(Image.fromarray(noise), [])), noise)


def test_names_come_from_the_detection_then_from_the_list_then_from_the_id() -> None:
    def drawn(detection: Detection, labels: list[str] | None) -> bytes:
        return draw_detections(canvas(320, 240), [detection], labels).tobytes()

    box = (50.0, 50.0, 200.0, 200.0)
    named = drawn(one(box, label="ring"), ["cross"])
    assert drawn(one(box, label=None), ["ring"]) == named
    assert drawn(one(box, label=None), None) == drawn(one(box, label="class 0"), None) != named
    assert drawn(one(box, class_id=5, label=None), ["ring"]) == drawn(
        one(box, class_id=5, label="class 5"), None
    )


def test_colors_of_neighbouring_classes_are_far_apart() -> None:
    colors = np.array([class_color(class_id) for class_id in range(8)])
    distances = [np.abs(a - b).sum() for a, b in itertools.combinations(colors, 2)]
    assert min(distances) > 60
    assert class_color(3) == class_color(3)


def test_the_best_detection_lies_on_top() -> None:
    box = (50.0, 50.0, 150.0, 150.0)
    weak = Detection(box=box, score=0.3, class_id=1, label="a", index=1)
    strong = Detection(box=box, score=0.9, class_id=0, label="a", index=0)
    picture = draw_detections(canvas(320, 240), [strong, weak])
    assert colored(picture, 0)[100, 50]
    assert not colored(picture, 1)[100].any()
