"""Masks, rotated boxes and keypoints on real pixels."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from endcap.client import Detection, Mask
from endcap.drawing.draw import class_color, draw_detections, draw_keypoints
from endcap.errors import InvalidArgumentError
from endcap.masks import encode_rle
from endcap.predictions import Keypoint

GRAY = (128, 128, 128)
WIDTH, HEIGHT = 480, 360
WHOLE = (0.0, 0.0, WIDTH - 1.0, HEIGHT - 1.0)


def canvas(width: int = WIDTH, height: int = HEIGHT) -> Image.Image:
    return Image.new("RGB", (width, height), GRAY)


def coco(mask: NDArray[np.bool_]) -> Mask:
    return {"size": list(mask.shape), "counts": encode_rle(mask).decode()}


def block(top: int, bottom: int, left: int, right: int) -> NDArray[np.bool_]:
    mask = np.zeros((HEIGHT, WIDTH), bool)
    mask[top:bottom, left:right] = True
    return mask


def found(class_id: int = 0, score: float = 0.5, **extras: object) -> Detection:
    box = extras.pop("box", WHOLE)
    return Detection(box, score, class_id, "x", 0, **extras)  # type: ignore[arg-type]


def changed(picture: Image.Image) -> NDArray[np.bool_]:
    return np.asarray((np.asarray(picture) != GRAY).any(axis=2))


def inner(picture: Image.Image) -> NDArray[np.bool_]:
    """What is drawn inside of the box and right of the label."""
    return changed(picture)[20:-10, 80:-10]


# --- masks ----------------------------------------------------------------------------------------


def test_a_mask_tints_its_own_pixels_and_no_others() -> None:
    mask = block(100, 200, 150, 300) & (np.indices((HEIGHT, WIDTH)).sum(axis=0) % 7 < 5)
    picture = draw_detections(canvas(), [found(mask=coco(mask))])
    assert (inner(picture) == mask[20:-10, 80:-10]).all()
    (tint,) = np.unique(np.asarray(picture)[mask], axis=0)
    for side, (old, color) in zip(tint, zip(GRAY, class_color(0), strict=True), strict=True):
        assert min(old, color) < side < max(old, color)


def test_the_best_mask_lies_on_top() -> None:
    weak, strong = (
        found(1, 0.2, mask=coco(block(100, 200, 150, 300))),
        found(0, 0.9, mask=coco(block(150, 250, 200, 350))),
    )
    once, both = (
        np.asarray(draw_detections(canvas(), found))[175, 250].astype(int)
        for found in ([weak], [strong, weak])
    )
    assert np.abs(both - class_color(0)).sum() < np.abs(once - class_color(0)).sum()
    assert both.tolist() == np.asarray(draw_detections(canvas(), [weak, strong]))[175, 250].tolist()


@pytest.mark.parametrize("size", [(120, 90), (960, 720), (200, 400)])
def test_a_mask_is_scaled_with_its_picture(size: tuple[int, int]) -> None:
    mask = block(90, 180, 120, 360)
    detection = found(box=(0.0, 0.0, 9.0, 9.0), mask=coco(mask))
    picture = draw_detections(canvas(), [detection], within=size)
    scale = picture.width / WIDTH
    row = np.flatnonzero(changed(picture)[round(160 * scale)])
    assert row[0] == pytest.approx(120 * scale, abs=1)
    assert row[-1] == pytest.approx(360 * scale, abs=1)


def test_a_mask_of_another_size_is_left_out() -> None:
    """As is one of the rotated picture's."""
    for shape in ((160, 160), (WIDTH, HEIGHT)):
        picture = draw_detections(canvas(), [found(mask=coco(np.ones(shape, bool)))])
        assert picture.tobytes() == draw_detections(canvas(), [found()]).tobytes()


def test_invalid_rle_is_refused() -> None:
    with pytest.raises(InvalidArgumentError):
        draw_detections(canvas(), [found(mask={"size": [HEIGHT, WIDTH], "counts": "~"})])


def test_one_large_mask_is_in_memory_at_a_time() -> None:
    width, height, count = 2400, 1800, 12
    mask = np.zeros((height, width), bool)
    mask[100:1700, 100:2300] = True
    detections = [
        Detection((0.0, 0.0, 99.0, 99.0), 0.5, 0, "x", 0, mask=coco(mask)) for _ in range(count)
    ]
    tracemalloc.start()
    draw_detections(canvas(width, height), detections)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert width * height / 2 < peak < count / 3 * width * height


# --- rotated boxes --------------------------------------------------------------------------------


def test_a_quarter_turn_is_the_box_of_swapped_sides() -> None:
    box = (200.0, 150.0, 280.0, 170.0)
    picture = draw_detections(canvas(), [found(box=box, angle=math.pi / 2)])
    drawn = changed(picture)
    for x, y in ((230, 160), (250, 160), (240, 120), (240, 200)):
        assert drawn[y - 1 : y + 2, x - 1 : x + 2].any(), f"edge at {x}, {y}"
    assert not drawn[125:195, 234:246].any()
    assert not drawn[150:170, 200:225].any(), "where the box was"


def test_an_angle_turns_clockwise() -> None:
    box = (140.0, 170.0, 340.0, 190.0)
    drawn = changed(draw_detections(canvas(), [found(box=box, angle=math.pi / 6)]))
    x, y = 240 + 100 * math.cos(math.pi / 6), 180 + 100 * math.sin(math.pi / 6)
    there, mirrored = (
        drawn[round(y) - 3 : round(y) + 4, round(each) - 3 : round(each) + 4].any()
        for each in (x, 480 - x)
    )
    assert there, "the right end goes down"
    assert not mirrored


@pytest.mark.parametrize("far", [1e3, 1e9, 1e30])
def test_a_rotated_box_may_lie_far_beyond_the_picture(far: float) -> None:
    picture = draw_detections(canvas(), [found(box=(-far, -far, far, far), angle=0.1)])
    assert picture.size == (WIDTH, HEIGHT)
    assert changed(picture).any(), "the label"


# --- keypoints ------------------------------------------------------------------------------------


def drawn_points(keypoints: list[Keypoint]) -> NDArray[np.bool_]:
    picture = canvas()
    draw_keypoints(ImageDraw.Draw(picture), keypoints, picture.size, class_color(0), line_width=2)
    return changed(picture)


def test_dots_lie_on_the_points_that_are_seen() -> None:
    points = [(100.0, 100.0, 0.5), (200.0, 150.0, 0.499), (300.0, 200.0, 1.0)]
    picture = draw_detections(canvas(), [found(keypoints=points)])
    drawn = changed(picture)
    assert drawn[100, 100] and drawn[200, 300]  # noqa: PT018
    assert not drawn[140:160, 190:210].any()
    assert drawn[85:215, 85:315].sum() < 200, "dots, and no lines between them"


def test_17_points_are_a_person() -> None:
    person = [(40.0 + 20 * each, 100.0 + 60 * (each % 2), 1.0) for each in range(17)]
    drawn = drawn_points(person)
    shoulders, hips = (5, 6), (11, 12)
    for begin, end in (shoulders, hips, (15, 13), (0, 1)):
        x, y = (round((person[begin][axis] + person[end][axis]) / 2) for axis in (0, 1))
        assert drawn[y, x], f"line {begin} to {end}"
    hidden = [(x, y, 0.4 if each == 6 else 1.0) for each, (x, y, _) in enumerate(person)]
    x, y = (round((person[5][axis] + person[6][axis]) / 2) for axis in (0, 1))
    assert not drawn_points(hidden)[y - 3 : y + 4, x - 3 : x + 4].any(), "no line to a hidden point"
    fewer = drawn_points(person[:16])
    assert fewer.sum() < drawn.sum() / 2, "other keypoints have no skeleton"


@pytest.mark.parametrize("point", [(-1.0, 50.0), (WIDTH + 1.0, 50.0), (50.0, 1e30)])
def test_points_beyond_the_picture_are_left_out(point: tuple[float, float]) -> None:
    assert not drawn_points([(*point, 1.0)]).any()
