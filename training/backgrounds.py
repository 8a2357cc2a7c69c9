"""Procedural backgrounds with the statistics of photographs: no object of any class in them."""

from __future__ import annotations

from collections.abc import Callable

import cv2
import numpy as np
import numpy.typing as npt

Plane = npt.NDArray[np.float32]

# Backgrounds are drawn on a canvas of at most this many pixels a side and then enlarged.
CANVAS_SIDE = 400


def background(rng: np.random.Generator, height: int, width: int) -> Plane:
    """One random background, float32 [height, width, 3] RGB in 0..1."""
    shrink = min(1.0, CANVAS_SIDE / max(height, width))
    rows, columns = max(8, round(height * shrink)), max(8, round(width * shrink))
    draw = _KINDS[int(rng.integers(len(_KINDS)))]
    canvas = _light(rng, draw(rng, rows, columns))
    if rng.random() < 0.5:
        cv2.GaussianBlur(canvas, (0, 0), rng.uniform(0.6, 4.0), dst=canvas)
    enlarged = cv2.resize(canvas, (width, height), interpolation=cv2.INTER_CUBIC)
    return np.clip(enlarged, 0.0, 1.0).astype(np.float32, copy=False)


def fractal_noise(
    rng: np.random.Generator, rows: int, columns: int, *, cells: float = 3.0, octaves: int = 5
) -> Plane:
    """Octaves of smooth noise, float32 [rows, columns] in 0..1; `cells` across the long side."""
    total = np.zeros((rows, columns), np.float32)
    weight, decay = 1.0, rng.uniform(0.4, 0.65)
    for _ in range(octaves):
        unit = max(rows, columns) / cells
        grid = rng.random((int(rows / unit) + 3, int(columns / unit) + 3), dtype=np.float32)
        total += weight * cv2.resize(grid, (columns, rows), interpolation=cv2.INTER_CUBIC)
        weight *= decay
        cells *= 2.0
    low, high = float(total.min()), float(total.max())
    return (total - low) / max(high - low, 1e-6)


def _palette(rng: np.random.Generator, values: Plane, *, stops: int = 4) -> Plane:
    """Colour a plane in 0..1 by a random gradient of related colours."""
    colours = np.stack([_muted_colour(rng, spread=rng.uniform(0.05, 0.3)) for _ in range(stops)])
    colours = np.clip(0.5 * colours + 0.5 * _muted_colour(rng, spread=0.3), 0.0, 1.0)
    at, steps = np.linspace(0.0, 1.0, stops), np.linspace(0.0, 1.0, 1024)
    ramp = np.stack([np.interp(steps, at, channel) for channel in colours.T], axis=-1)
    index = (np.clip(values, 0.0, 1.0) * 1023.0).astype(np.intp)
    return ramp.astype(np.float32)[index]


def _muted_colour(rng: np.random.Generator, *, spread: float) -> npt.NDArray[np.float64]:
    """Return a colour near gray, as most of a photograph is; now and then a vivid one."""
    vivid = rng.uniform(0.2, 0.9) if rng.random() < 0.2 else rng.uniform(0.05, 0.3)
    tint = rng.uniform(-1.0, 1.0, 3)
    gray = rng.uniform(0.05, 0.95) + spread * rng.normal()
    return np.asarray(gray + 0.7 * vivid * (tint - tint.mean()), np.float64)


def _clouds(rng: np.random.Generator, rows: int, columns: int) -> Plane:
    return _palette(rng, fractal_noise(rng, rows, columns, cells=rng.uniform(1.5, 8.0)))


def _wall(rng: np.random.Generator, rows: int, columns: int) -> Plane:
    noise = fractal_noise(rng, rows, columns, cells=rng.uniform(8.0, 40.0), octaves=4)
    colour = np.clip(_muted_colour(rng, spread=0.1), 0.05, 0.95).astype(np.float32)
    return np.clip(colour + rng.uniform(0.03, 0.25) * (noise[..., None] - 0.5), 0.0, 1.0)


def _grain(rng: np.random.Generator, rows: int, columns: int) -> Plane:
    """Warped stripes, like wood, cloth or dunes."""
    x, y = np.meshgrid(np.arange(columns, dtype=np.float32), np.arange(rows, dtype=np.float32))
    angle, stripes = rng.uniform(0.0, np.pi), rng.uniform(4.0, 40.0)
    along = (x * np.cos(angle) + y * np.sin(angle)) * (stripes / max(rows, columns))
    warp = fractal_noise(rng, rows, columns, cells=rng.uniform(1.0, 4.0)) * rng.uniform(0.5, 6.0)
    wave = 0.5 + 0.5 * np.sin(2.0 * np.pi * (along + warp))
    fine = fractal_noise(rng, rows, columns, cells=20.0, octaves=3)
    return _palette(rng, (0.7 * wave + 0.3 * fine).astype(np.float32))


def _bricks(rng: np.random.Generator, rows: int, columns: int) -> Plane:
    """Long bricks or planks, each of its own tone; never near square."""
    height = rng.uniform(0.04, 0.2) * rows
    length = height * rng.uniform(2.5, 6.0)
    y, x = np.mgrid[0:rows, 0:columns].astype(np.float32)
    row = np.floor(y / height)
    shifted = x / length + 0.5 * (row % 2)
    column = np.floor(shifted)
    tone = rng.random((int(row.max()) + 1, int(column.max()) + 1), dtype=np.float32)
    values = 0.5 * tone[row.astype(int), column.astype(int)]
    values += 0.5 * fractal_noise(rng, rows, columns, cells=12.0)
    joint = ((y / height - row) * height < 1.5) | ((shifted - column) * length < 1.5)
    picture = _palette(rng, values)
    picture[joint] *= rng.uniform(0.4, 1.5)
    return np.clip(picture, 0.0, 1.0)


def _landscape(rng: np.random.Generator, rows: int, columns: int) -> Plane:
    """Paint a graded sky behind a few ridges."""
    height = np.linspace(0.0, 1.0, rows, dtype=np.float32)[:, None] * np.ones((1, columns), "f4")
    picture = _palette(rng, height, stops=3)
    at = np.arange(rows, dtype=np.float32)[:, None]
    for level in np.sort(rng.uniform(0.25, 1.0, int(rng.integers(1, 5)))):
        ridge = fractal_noise(rng, 8, columns, cells=rng.uniform(2.0, 8.0))[4]
        below = at > rows * (level + 0.25 * (ridge[None, :] - 0.5))
        ground = _palette(rng, fractal_noise(rng, rows, columns, cells=rng.uniform(4.0, 24.0)))
        picture[below] = ground[below]
    return picture


def _foliage(rng: np.random.Generator, rows: int, columns: int) -> Plane:
    """Hard-edged patches over each other, from coarse to fine."""
    picture = _clouds(rng, rows, columns)
    for cells in (4.0, 8.0, 16.0):
        noise = fractal_noise(rng, rows, columns, cells=cells * rng.uniform(0.8, 1.6), octaves=3)
        patch = _palette(rng, fractal_noise(rng, rows, columns, cells=20.0, octaves=3))
        covered = noise > rng.uniform(0.5, 0.7)
        picture[covered] = patch[covered]
    return picture


def _light(rng: np.random.Generator, picture: Plane) -> Plane:
    """Uneven light: a slope, a soft spot and a vignette."""
    rows, columns = picture.shape[:2]
    y = np.linspace(-1.0, 1.0, rows, dtype=np.float32)[:, None]
    x = np.linspace(-1.0, 1.0, columns, dtype=np.float32)[None, :]
    slope = rng.uniform(-0.25, 0.25) * x + rng.uniform(-0.25, 0.25) * y
    centre_x, centre_y, reach = rng.uniform(-1, 1), rng.uniform(-1, 1), rng.uniform(0.3, 1.5)
    spot = np.exp(-((x - centre_x) ** 2 + (y - centre_y) ** 2) / reach) * rng.uniform(-0.3, 0.5)
    vignette = -rng.uniform(0.0, 0.2) * (x**2 + y**2)
    gain = np.clip(1.0 + slope + spot + vignette, 0.25, 1.8)
    lit = np.clip(picture * gain[..., None], 0.0, 1.0)
    return np.asarray(lit, np.float32)


_KINDS: tuple[Callable[[np.random.Generator, int, int], Plane], ...] = (
    _clouds,
    _wall,
    _grain,
    _bricks,
    _landscape,
    _foliage,
)
