"""Frames of a video with tracks: boxes, and the ways that tracks came."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import endcap
from endcap.client import ClassScore, Detection, ImageResult, Task
from endcap.drawing import TrailDrawer, class_color, draw_detections

GRAY = 90
WIDTH, HEIGHT = 640, 480


class PixelDrawer(TrailDrawer):
    """Returns pixels."""

    def __call__(self, *arguments: Any) -> Any:
        return np.asarray(super().__call__(*arguments))


def frame(width: int = WIDTH, height: int = HEIGHT) -> NDArray[np.uint8]:
    return np.full((height, width, 3), GRAY, np.uint8)


def at(x: float, y: float, track: int | None = 3, side: float = 40) -> Detection:
    box = (x - side / 2, y - side / 2, x + side / 2, y + side / 2)
    return Detection(box, 0.9, 1, "ring", track_id=track)


def colored(picture: NDArray[np.uint8], color: tuple[int, int, int]) -> NDArray[np.bool_]:
    return np.asarray(np.all(picture == color, axis=2))


def test_a_single_frame_is_drawn_as_a_picture_is() -> None:
    detections = [at(100, 100), at(300, 200, track=None)]
    drawn = PixelDrawer()(frame(), detections)
    picture = draw_detections(Image.fromarray(frame()), detections)
    np.testing.assert_array_equal(drawn, np.asarray(picture))
    assert drawn.dtype == np.uint8


def test_a_way_goes_back_by_its_length() -> None:
    drawer = PixelDrawer(length=5)
    for step in range(20):
        picture = drawer(frame(), [at(100 + 20 * step, 300)])
    changed = np.flatnonzero(np.any(picture[300] != GRAY, axis=1))
    assert changed.min() == 100 + 20 * (19 - 5)
    assert (PixelDrawer(length=0)(frame(), []) == GRAY).all()


def test_a_track_that_is_gone_is_forgotten() -> None:
    drawer = PixelDrawer(length=8)
    for step in range(8):
        drawer(frame(), [at(100 + 20 * step, 300)])
    pictures = [drawer(frame(), []) for _ in range(9)]
    assert colored(pictures[0], class_color(3))[300, 225]
    assert (pictures[-1] == GRAY).all()
    # Seen again far away, there is no line to the place of before.
    picture = drawer(frame(), [at(600, 60)])
    assert (picture[200:] == GRAY).all()


def test_each_track_has_its_color() -> None:
    drawer = PixelDrawer()
    for step in range(10):
        picture = drawer(
            frame(), [at(100 + 20 * step, 150, track=4), at(100 + 20 * step, 400, track=5)]
        )
    assert class_color(4) != class_color(5)
    upper, lower = colored(picture, class_color(4)), colored(picture, class_color(5))
    assert upper[150, 270]
    assert lower[400, 270]
    assert not upper[260:].any()
    assert not lower[:260].any()


def test_a_way_far_outside_of_the_picture() -> None:
    drawer = PixelDrawer()
    for x, y in ((-1e9, 50), (100, 1e9), (-5000, -5000), (50, 1e30), (100, 100)):
        picture = drawer(frame(), [at(x, y)])
    assert picture.shape == (HEIGHT, WIDTH, 3)
    drawer = PixelDrawer()
    for step in range(5):
        picture = drawer(frame(), [at(-500 - step, -500)])
    assert (picture[60:] == GRAY).all()


def test_small_frames_are_all_enlarged_alike() -> None:
    drawer = PixelDrawer()
    pixels = frame(160, 120)
    empty, full = drawer(pixels, []), drawer(pixels, [at(80, 60)])
    assert empty.shape == full.shape == (240, 320, 3)
    assert colored(full, class_color(3))[120, 120]  # the left edge, at twice its place


def test_the_frame_is_not_changed() -> None:
    pixels = frame()
    for given in (pixels, Image.fromarray(pixels), Image.fromarray(pixels).convert("L")):
        drawn = TrailDrawer()(given, [at(100, 100)])
        assert drawn.mode == "RGB"
        np.testing.assert_array_equal(np.asarray(drawn), PixelDrawer()(frame(), [at(100, 100)]))
        assert (np.asarray(given) == GRAY).all()


def test_results_of_clients() -> None:
    detections = endcap.ImageDetections.from_list([at(100, 100)])
    result = ImageResult("clip.mp4", "ok", detections)
    plain = PixelDrawer()(frame(), [at(100, 100)])
    np.testing.assert_array_equal(PixelDrawer()(frame(), result), plain)
    np.testing.assert_array_equal(PixelDrawer()(frame(), detections), plain)
    failed = ImageResult("clip.mp4", "timeout", error="late")
    assert (PixelDrawer()(frame(), failed) == GRAY).all()
    classified = ImageResult(
        "clip.mp4", "ok", classes=[ClassScore(2, 0.5)], task=Task.classification
    )
    named = PixelDrawer(labels=["a", "b", "c"])(frame(), classified)
    assert colored(named, class_color(2)).sum() > 100
    assert (PixelDrawer()(frame(), classified) != named).any()  # without the name


@pytest.mark.parametrize(
    "pixels", [np.zeros((4, 4, 2), np.uint8), np.zeros((4, 4, 3)), np.zeros((0, 4, 3), np.uint8)]
)
def test_frames_that_are_refused(pixels: NDArray[np.uint8]) -> None:
    with pytest.raises(endcap.InvalidArgumentError, match=r"give .*\[H,W,3\]"):
        PixelDrawer()(pixels, [])
