"""A scene of moving shapes, of the classes that the shipped detector knows."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

Point = tuple[float, float]

FRAME_RATE = 25
WIDTH, HEIGHT = 640, 360
_FINER = 2  # shapes are drawn larger and scaled down, for smooth edges
_ROUND = 64  # corners of a circle

# Shape, first centre, pixels a second, radius, colour, radians a second, pixels that it swings by.
# They bounce off the edges. Two pairs cross: a cross behind a circle, a square behind a star.
_Shape = tuple[str, Point, float, float, tuple[int, int, int], float, float]
SHAPES: tuple[_Shape, ...] = (
    ("cross", (330, 80), -22, 40, (240, 240, 240), 0.5, 0),
    ("circle", (65, 78), 108, 38, (226, 74, 51), 0, 12),
    ("square", (570, 288), -98, 40, (52, 138, 189), 0.6, 0),
    ("star", (90, 276), 84, 46, (255, 196, 37), -0.7, 0),
    ("ring", (250, 182), -34, 36, (142, 186, 66), 0, 14),
    ("triangle", (575, 186), -50, 44, (178, 96, 214), 0.3, 0),
)


def frames(
    seconds: float, *, rate: float = FRAME_RATE
) -> Iterator[tuple[float, NDArray[np.uint8]]]:
    """The times and pictures of the scene, uint8 [360,640,3] RGB."""
    ground = _ground()
    for number in range(round(seconds * rate)):
        picture = ground.copy()
        for shape in SHAPES:
            _draw(picture, shape, number / rate)
        yield number / rate, np.asarray(picture)


def _ground() -> Image.Image:
    """A wall with uneven light: the detector has learnt pictures with a background."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    light = 70 + 28 * x / WIDTH - 18 * y / HEIGHT + 6 * np.sin(x / 37) * np.cos(y / 29)
    grain = np.random.default_rng(7).normal(0, 2.0, (HEIGHT, WIDTH))
    wall = np.clip(light + grain, 0, 255)
    return Image.fromarray(np.stack([wall * 0.95, wall, wall * 1.1], 2).clip(0, 255).astype("u1"))


def _draw(picture: Image.Image, shape: _Shape, seconds: float) -> None:
    name, (x, y), velocity, radius, color, turn, sway = shape
    x = _bounced(x + velocity * seconds, radius, WIDTH)
    y = _bounced(y + sway * math.sin(2.2 * seconds), radius, HEIGHT)
    side = math.ceil(2 * radius) + 4
    left, top = math.floor(x - side / 2), math.floor(y - side / 2)
    mask = Image.new("L", (side * _FINER, side * _FINER))
    canvas = ImageDraw.Draw(mask)
    for fill, polygon in _outlines(name, radius, turn * seconds):
        canvas.polygon(
            [((px + x - left) * _FINER, (py + y - top) * _FINER) for px, py in polygon], fill=fill
        )
    picture.paste(color, (left, top), mask.resize((side, side), Image.Resampling.BOX))


def _outlines(name: str, radius: float, angle: float) -> list[tuple[int, list[Point]]]:
    """The polygons of a shape around the origin; one that is filled with 0 is a hole."""
    if name == "ring":
        return [(255, _regular(_ROUND, radius, angle)), (0, _regular(_ROUND, radius * 0.6, angle))]
    if name == "star":
        outer, inner = _regular(5, radius, angle), _regular(5, radius * 0.43, angle + math.pi / 5)
        return [(255, [point for pair in zip(outer, inner, strict=True) for point in pair])]
    if name == "cross":
        arm, cos, sin = radius * 0.3, math.cos(angle), math.sin(angle)
        bars = ((arm, radius), (radius, arm))
        signs = ((-1, -1), (1, -1), (1, 1), (-1, 1))
        corners = [[(w * sx, h * sy) for sx, sy in signs] for w, h in bars]
        return [(255, [(x * cos - y * sin, x * sin + y * cos) for x, y in bar]) for bar in corners]
    corners_of = {"circle": _ROUND, "square": 4, "triangle": 3}
    return [(255, _regular(corners_of[name], radius, angle))]


def _regular(corners: int, radius: float, angle: float) -> list[Point]:
    steps = (angle + 2 * math.pi * corner / corners for corner in range(corners))
    return [(radius * math.sin(step), -radius * math.cos(step)) for step in steps]


def _bounced(place: float, radius: float, length: float) -> float:
    """A place between the edges, by reflection at them."""
    room = length - 2 * radius
    offset = (place - radius) % (2 * room)
    return radius + min(offset, 2 * room - offset)
