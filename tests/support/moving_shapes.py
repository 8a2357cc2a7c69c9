"""A scene of moving shapes, of the classes that the shipped detector knows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

Point = tuple[float, float]
Pixels = npt.NDArray[np.uint8]

FRAME_RATE = 25
WIDTH, HEIGHT = 640, 360
_FINER = 2  # shapes are drawn larger and scaled down, for smooth edges
_CORNERS_OF_A_CIRCLE = 64


@dataclass(frozen=True)
class MovingShape:
    """A shape that moves in a straight line and bounces off the edges, or along an arc.

    Attributes:
        label: One of circle, square, triangle, star, cross, ring.
        start: The centre at first, pixels.
        velocity: Pixels a second.
        radius: Pixels.
        color: RGB.
        turn: Radians a second that it turns by.
        sway: Pixels that it swings up and down.
    """

    label: str
    start: Point
    velocity: Point
    radius: float
    color: tuple[int, int, int]
    turn: float = 0.0
    sway: float = 0.0

    def centre(self, seconds: float) -> Point:
        """Return where the centre is."""
        x = _bounced(self.start[0] + self.velocity[0] * seconds, self.radius, WIDTH)
        y = self.start[1] + self.velocity[1] * seconds + self.sway * math.sin(2.2 * seconds)
        return x, _bounced(y, self.radius, HEIGHT)


# Two pairs cross: a cross behind a circle, a square behind a star.
SHAPES = (
    MovingShape("cross", (330, 80), (-22, 0), 40, (240, 240, 240), turn=0.5),
    MovingShape("circle", (65, 78), (108, 0), 38, (226, 74, 51), sway=12),
    MovingShape("square", (570, 288), (-98, 0), 40, (52, 138, 189), turn=0.6),
    MovingShape("star", (90, 276), (84, 0), 46, (255, 196, 37), turn=-0.7),
    MovingShape("ring", (250, 182), (-34, 0), 36, (142, 186, 66), sway=14),
    MovingShape("triangle", (575, 186), (-50, 0), 44, (178, 96, 214), turn=0.3),
)


def frames(
    seconds: float, *, shapes: tuple[MovingShape, ...] = SHAPES, rate: float = FRAME_RATE
) -> Iterator[tuple[float, Pixels]]:
    """Yield the times and pictures of the scene, uint8 [360,640,3] RGB."""
    ground = _ground()
    for number in range(round(seconds * rate)):
        yield number / rate, draw(number / rate, shapes, ground)


def draw(
    seconds: float, shapes: tuple[MovingShape, ...] = SHAPES, ground: Image.Image | None = None
) -> Pixels:
    """Return the picture at a time."""
    picture = (ground or _ground()).copy()
    for shape in shapes:
        _draw_shape(picture, shape, seconds)
    return np.asarray(picture)


def _ground() -> Image.Image:
    """Return a wall with uneven light: the detector has learnt pictures with a background."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    light = 70 + 28 * x / WIDTH - 18 * y / HEIGHT + 6 * np.sin(x / 37) * np.cos(y / 29)
    grain = np.random.default_rng(7).normal(0, 2.0, (HEIGHT, WIDTH))
    wall = np.clip(light + grain, 0, 255)
    return Image.fromarray(np.stack([wall * 0.95, wall, wall * 1.1], 2).clip(0, 255).astype("u1"))


def _draw_shape(picture: Image.Image, shape: MovingShape, seconds: float) -> None:
    side = math.ceil(2 * shape.radius) + 4
    x, y = shape.centre(seconds)
    left, top = math.floor(x - side / 2), math.floor(y - side / 2)
    mask = Image.new("L", (side * _FINER, side * _FINER))
    canvas = ImageDraw.Draw(mask)
    for fill, polygon in _outlines(shape, shape.turn * seconds):
        canvas.polygon(
            [((px + x - left) * _FINER, (py + y - top) * _FINER) for px, py in polygon], fill=fill
        )
    picture.paste(shape.color, (left, top), mask.resize((side, side), Image.Resampling.BOX))


def _outlines(shape: MovingShape, angle: float) -> list[tuple[int, list[Point]]]:
    """Return the polygons of a shape around the origin; one that is filled with 0 is a hole."""
    radius = shape.radius
    if shape.label == "ring":
        hole = _regular(_CORNERS_OF_A_CIRCLE, radius * 0.6, angle)
        return [(255, _regular(_CORNERS_OF_A_CIRCLE, radius, angle)), (0, hole)]
    if shape.label == "star":
        outer, inner = _regular(5, radius, angle), _regular(5, radius * 0.43, angle + math.pi / 5)
        return [(255, [point for pair in zip(outer, inner, strict=True) for point in pair])]
    if shape.label == "cross":
        arm = radius * 0.3
        bars = [(-arm, -radius, arm, radius), (-radius, -arm, radius, arm)]
        return [(255, _turned(_corners(*bar), angle)) for bar in bars]
    corners = {"circle": _CORNERS_OF_A_CIRCLE, "square": 4, "triangle": 3}[shape.label]
    return [(255, _regular(corners, radius, angle))]


def _regular(corners: int, radius: float, angle: float) -> list[Point]:
    steps = (angle + 2 * math.pi * corner / corners for corner in range(corners))
    return [(radius * math.sin(step), -radius * math.cos(step)) for step in steps]


def _corners(left: float, top: float, right: float, bottom: float) -> list[Point]:
    return [(left, top), (right, top), (right, bottom), (left, bottom)]


def _turned(points: list[Point], angle: float) -> list[Point]:
    cos, sin = math.cos(angle), math.sin(angle)
    return [(x * cos - y * sin, x * sin + y * cos) for x, y in points]


def _bounced(place: float, radius: float, length: float) -> float:
    """Return a place between the edges, by reflection at them."""
    room = length - 2 * radius
    offset = (place - radius) % (2 * room)
    return radius + min(offset, 2 * room - offset)
