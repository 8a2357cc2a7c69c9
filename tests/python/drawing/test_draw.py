"""Boxes and labels on real pixels."""

from __future__ import annotations

import io
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from endcap.client import ClassScore, Detection
from endcap.drawing.draw import class_color, draw_class, draw_detections

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
        image = canvas(400, 320).convert(mode)
        before = image.tobytes()
        picture = draw_detections(image, [one((80.0, 120.0, 320.0, 280.0))])
        assert picture.mode == "RGB"
        assert colored(picture, 0)[200, 80]
        assert image.tobytes() == before


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


def test_the_best_detection_lies_on_top() -> None:
    box = (50.0, 50.0, 150.0, 150.0)
    weak = Detection(box=box, score=0.3, class_id=1, label="a", index=1)
    strong = Detection(box=box, score=0.9, class_id=0, label="a", index=0)
    picture = draw_detections(canvas(320, 240), [strong, weak])
    assert colored(picture, 0)[100, 50]
    assert not colored(picture, 1)[100].any()


def test_a_tiny_picture_is_enlarged_until_labels_can_be_read() -> None:
    picture = draw_detections(canvas(60, 45), [one((10.0, 20.0, 50.0, 40.0))])
    assert picture.size == (6 * 60, 6 * 45)
    mask = colored(picture, 0)
    assert mask[180, [60, 300]].all(), "the sides lie on the enlarged box"
    assert letter_pixels(picture) == letter_pixels(
        draw_detections(canvas(360, 270), [one((60.0, 120.0, 300.0, 240.0))])
    )


def test_enlarging_has_an_end() -> None:
    found = [one((1.0, 1.0, 9.0, 9.0))]
    assert draw_detections(canvas(4, 4000), found).size == (4, 4000)
    assert draw_detections(canvas(20, 1000), found).size == (80, 4000)
    assert draw_detections(canvas(240, 240), found).size == (240, 240)


@pytest.mark.parametrize("size", [(4000, 3000), (60, 45), (30, 600)])
def test_a_picture_is_scaled_to_fit(size: tuple[int, int]) -> None:
    width, height = size
    box = (0.25 * width, 0.5 * height, 0.75 * width, 0.75 * height)
    picture = draw_detections(canvas(*size), [one(box)], within=(400, 300))
    assert picture.width <= 400
    assert picture.height <= 300
    assert picture.width == 400 or picture.height == 300
    row = np.flatnonzero(colored(picture, 0)[round(0.65 * picture.height)])
    assert row[0] == pytest.approx(0.25 * picture.width, abs=1)
    assert row[-1] == pytest.approx(0.75 * picture.width, abs=1)


def test_a_class_stands_in_the_upper_left_corner() -> None:
    picture = draw_class(canvas(480, 320), ClassScore(0, 0.875, "ring"))
    mask = colored(picture, 0)
    assert mask[0, 0]
    assert letter_pixels(picture) > 20
    ys, xs = np.nonzero(mask)
    assert ys.max() < 40
    assert xs.max() < 160
    assert (np.asarray(picture)[40:] == GRAY).all()


# --- letters --------------------------------------------------------------------------------------


def drawn(name: str) -> bytes:
    return draw_class(canvas(480, 240), ClassScore(0, 0.5, name)).tobytes()


@pytest.mark.parametrize("letters", ["éèü", "ßæø", "łőş", "ếữ", "αβΩ", "жщЯ"])
def test_letters_of_latin_greek_and_cyrillic_are_drawn(letters: str) -> None:
    """Those that a font does not have are all the same box."""
    assert len({drawn(each) for each in letters}) == len(letters)


@pytest.mark.skipif(
    not shutil.which("fc-list")
    or not subprocess.run(["fc-list", ":charset=531 532"], capture_output=True, check=True).stdout,
    reason="fontconfig has no font with Armenian letters here",
)
def test_other_letters_are_drawn_by_a_font_of_the_system() -> None:
    assert drawn("\u0531") != drawn("\u0532")


def test_a_letter_that_no_font_has_is_warned_of_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # without fontconfig
    with pytest.warns(UserWarning, match=r"no font here has '\\u732b' \(\u732b\), drawn as boxes"):
        drawn("\u732b")
    drawn("\u732b 2")  # a second warning would be an error
