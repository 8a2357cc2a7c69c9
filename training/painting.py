"""Paints shapes, their shadows and shapes of no class into a picture."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

from .backgrounds import Plane, fractal_noise

Points = npt.NDArray[np.float64]
Colour = npt.NDArray[np.float64]

# Fractional bits of polygon coordinates given to OpenCV.
_SHIFT = 4
# Least distance between a shape and what lies behind it: RGB distance, and luma for gray scenes.
_MIN_CONTRAST = 0.3
_MIN_LUMA_CONTRAST = 0.16
_LUMA = np.array([0.299, 0.587, 0.114])


def paint_shape(
    rng: np.random.Generator, picture: Plane, polygons: list[Points], *, gray: bool
) -> bool:
    """Paint one shape in a colour that stands out.

    Args:
        rng: source of colour, finish and shadow.
        picture: float32 [H, W, 3] RGB in 0..1; painted in place.
        polygons: float64 [P, 2] (x, y) in pixels, outline and optional hole.
        gray: whether the contrast must remain without colour.

    Returns:
        False, with the picture unchanged, where no colour with enough contrast was found.
    """
    radius = float(np.ptp(polygons[0], axis=0).max()) / 2.0
    window = _window(picture, polygons[0], margin=0.35 * radius + 4.0)
    patch = picture[window]
    mask = _mask(polygons, window)
    colour = _contrasting_colour(rng, patch, gray=gray)
    if colour is None:
        return False
    if rng.random() < 0.5:
        _cast_shadow(rng, patch, mask, radius)
    finish = _finish(rng, colour, mask, polygons, window, radius)
    softness = rng.uniform(0.3, 0.9) * max(1.0, max(picture.shape) / 900)
    alpha = cv2.GaussianBlur(mask, (0, 0), softness)[..., None] * np.float32(rng.uniform(0.9, 1.0))
    patch += alpha * (finish - patch)
    return True


def paint_distractor(rng: np.random.Generator, picture: Plane) -> None:
    """Paint a curve, a long bar or a ragged blob: things that belong to no class."""
    height, width = picture.shape[:2]
    start = rng.uniform([0.0, 0.0], [width, height])
    draw = (_curve, _bar, _blob)[int(rng.integers(3))]
    placed = draw(rng) * min(height, width) * rng.uniform(0.06, 0.3) + start
    window = _window(picture, placed, margin=4.0)
    patch = picture[window]
    if patch.size:
        alpha = cv2.GaussianBlur(_mask([placed], window), (0, 0), 0.7)[..., None]
        patch += alpha * (rng.uniform(0.0, 1.0, 3).astype(np.float32) - patch)


def _curve(rng: np.random.Generator) -> Points:
    steps = rng.normal(0.0, 0.25, (12, 2)).cumsum(axis=0)
    return np.asarray(np.concatenate([steps, steps[::-1] + 0.03]))


def _bar(rng: np.random.Generator) -> Points:
    angle, half_width = rng.uniform(0.0, np.pi), rng.uniform(0.04, 0.18)
    corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * np.array([1.0, half_width])
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return np.asarray(corners @ turn.T)


def _blob(rng: np.random.Generator) -> Points:
    angle = np.linspace(0.0, 2.0 * np.pi, 40, endpoint=False)
    distance = np.full(40, 0.6)
    for waves in (2, 3, 5):
        phase = rng.uniform(0.0, 2.0 * np.pi)
        distance += rng.uniform(0.18, 0.34) * np.sin(waves * angle + phase)
    points = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return np.asarray(points * distance[:, None])


def _window(picture: Plane, polygon: Points, *, margin: float) -> tuple[slice, slice]:
    height, width = picture.shape[:2]
    left, top = np.floor(polygon.min(axis=0) - margin).astype(int)
    right, bottom = np.ceil(polygon.max(axis=0) + margin).astype(int)
    return (
        slice(min(max(0, top), height), max(0, min(height, bottom))),
        slice(min(max(0, left), width), max(0, min(width, right))),
    )


def _mask(polygons: list[Points], window: tuple[slice, slice]) -> Plane:
    """Coverage 0..1 of each pixel of the window; pixel (x, y) covers x..x+1."""
    shape = (window[0].stop - window[0].start, window[1].stop - window[1].start)
    origin = np.array([window[1].start, window[0].start]) + 0.5
    fixed = [np.rint((polygon - origin) * 2**_SHIFT).astype(np.int32) for polygon in polygons]
    mask = np.zeros(shape, np.uint8)
    if mask.size:
        cv2.fillPoly(mask, fixed, (255.0,), lineType=cv2.LINE_AA, shift=_SHIFT)
    return mask.astype(np.float32) / np.float32(255.0)


def _contrasting_colour(rng: np.random.Generator, patch: Plane, *, gray: bool) -> Colour | None:
    behind = patch.reshape(-1, 3).mean(axis=0)
    for _ in range(12):
        hue, saturation, value = rng.random(), rng.uniform(0.2, 1.0), rng.uniform(0.1, 1.0)
        wheel = np.clip(np.abs((hue * 6.0 + np.array([0.0, 4.0, 2.0])) % 6.0 - 3.0) - 1.0, 0, 1)
        colour = value * (1.0 - saturation * (1.0 - wheel))
        if np.linalg.norm(colour - behind) < _MIN_CONTRAST:
            continue
        if not gray or abs(float(_LUMA @ (colour - behind))) >= _MIN_LUMA_CONTRAST:
            return np.asarray(colour)
    return None


def _cast_shadow(rng: np.random.Generator, patch: Plane, mask: Plane, radius: float) -> None:
    shift = rng.uniform(-0.2, 0.2, 2) * radius
    move = np.array([[1.0, 0.0, shift[0]], [0.0, 1.0, shift[1]]])
    moved = cv2.warpAffine(mask, move, mask.shape[::-1])
    soft = cv2.GaussianBlur(moved, (0, 0), max(0.5, rng.uniform(0.02, 0.12) * radius))
    patch *= 1.0 - np.float32(rng.uniform(0.2, 0.55)) * soft[..., None]


def _finish(
    rng: np.random.Generator,
    colour: Colour,
    mask: Plane,
    polygons: list[Points],
    window: tuple[slice, slice],
    radius: float,
) -> Plane:
    """Paint the shape's surface: plain, graded, textured, and perhaps with a border."""
    rows, columns = mask.shape
    shade = np.zeros((rows, columns), np.float32)
    if rng.random() < 0.6:
        y = np.linspace(-1.0, 1.0, rows, dtype=np.float32)[:, None]
        x = np.linspace(-1.0, 1.0, columns, dtype=np.float32)[None, :]
        shade = shade + rng.uniform(-0.15, 0.15) * x + rng.uniform(-0.15, 0.15) * y
    if rng.random() < 0.4:
        cells = rng.uniform(2.0, 12.0)
        texture = fractal_noise(rng, rows, columns, cells=cells, octaves=3) - 0.5
        shade = shade + rng.uniform(0.05, 0.25) * texture
    surface = colour.astype(np.float32) * (1.0 + 2.0 * shade[..., None])
    if rng.random() < 0.25:
        origin = np.array([window[1].start, window[0].start]) + 0.5
        fixed = [np.rint((polygon - origin) * 2**_SHIFT).astype(np.int32) for polygon in polygons]
        border = np.zeros((rows, columns), np.uint8)
        thickness = max(1, round(radius * rng.uniform(0.04, 0.12)))
        cv2.polylines(border, fixed, True, (255.0,), thickness, cv2.LINE_AA, _SHIFT)
        edge = border.astype(np.float32)[..., None] / np.float32(255.0)
        tone = np.float32(rng.choice([0.35, 0.6, 1.5]))
        surface = surface * (1.0 + edge * (tone - 1.0))
    return np.clip(surface, 0.0, 1.0).astype(np.float32)
