"""Seeded scenes of shapes over procedural backgrounds, with their boxes and classes.

    python -m training.scenes --count 8 --output /tmp/scenes

writes annotated pictures to look at.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from .backgrounds import Plane, background
from .painting import paint_distractor, paint_shape
from .photograph import JpegKind, decode, photograph
from .shapes import CLASS_NAMES, outline

# Two objects may overlap by this share of the smaller box.
MAX_OVERLAP = 0.3
# An object whose box is cut by the picture's edge keeps at least this share of it.
MIN_INSIDE = 0.6
# The smallest object, as a share of the picture's long side: 32 pixels of a 640-pixel input.
MIN_DIAMETER = 0.05
# Smallest and largest long side of measured scenes, in pixels.
LONG_SIDE = (200, 4000)
GRID_CELL = 480  # pixels of a scene of `make_grid`


@dataclass(frozen=True)
class Scene:
    """A picture with the boxes of its objects.

    Attributes:
        jpeg: The JPEG file.
        image: uint8 [H, W, 3] RGB.
        boxes: float32 [N, 4], x1, y1, x2, y2 in pixels of the image.
        class_ids: int64 [N].
    """

    jpeg: bytes
    image: npt.NDArray[np.uint8]
    boxes: npt.NDArray[np.float32]
    class_ids: npt.NDArray[np.int64]


def make_scene(
    seed: int | list[int],
    *,
    size: tuple[int, int] | None = None,
    long_side: tuple[int, int] = LONG_SIDE,
    max_objects: int = 12,
    max_distractors: int = 3,
    grayscale: bool | None = None,
    kind: JpegKind | None = None,
) -> Scene:
    """Draw the scene that belongs to a seed.

    Args:
        seed: equal seeds give equal scenes (with the same versions of NumPy and OpenCV).
        size: height and width in pixels; None draws them at random.
        long_side: smallest and largest long side in pixels when `size` is None; the short side
            is never below 200 unless the long side's own lower bound is.
        max_objects: most objects to place; those that find no room are left out.
        max_distractors: most curves, bars and blobs of no class to paint before the objects.
        grayscale: whether the scene has no colour; None means one scene in ten.
        kind: how the JPEG is written; None draws it at random.

    Returns:
        The scene with 0 to `max_objects` objects.
    """
    rng = np.random.default_rng(seed)
    height, width = size if size is not None else _random_size(rng, long_side)
    gray = bool(rng.random() < 0.1) if grayscale is None else grayscale
    picture = background(rng, height, width)
    for _ in range(int(rng.integers(0, max_distractors + 1))):
        paint_distractor(rng, picture)
    boxes, class_ids = _place_objects(rng, picture, gray=gray, max_objects=max_objects)
    jpeg = photograph(rng, picture, gray=gray, kind=kind)
    return Scene(jpeg, decode(jpeg), boxes, class_ids)


def make_grid(seed: list[int], grid: int) -> Scene:
    """Return a picture of grid x grid scenes, whose objects are small in it."""
    cells = [
        make_scene([*seed, n], size=(GRID_CELL, GRID_CELL), grayscale=False)
        for n in range(grid * grid)
    ]
    rows = [
        np.hstack([each.image for each in cells[n : n + grid]]) for n in range(0, len(cells), grid)
    ]
    image = np.vstack(rows)
    corners = [
        np.array([n % grid, n // grid] * 2, np.float32) * GRID_CELL for n in range(len(cells))
    ]
    _, jpeg = cv2.imencode(".jpg", image[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 92])
    return Scene(
        jpeg.tobytes(),
        decode(jpeg.tobytes()),
        np.vstack([each.boxes + corner for each, corner in zip(cells, corners, strict=True)]),
        np.concatenate([each.class_ids for each in cells]),
    )


def _random_size(rng: np.random.Generator, long_side: tuple[int, int]) -> tuple[int, int]:
    longest = int(np.exp(rng.uniform(np.log(long_side[0]), np.log(long_side[1]))))
    aspect = float(rng.choice([1.0, 4 / 3, 3 / 2, 16 / 9, rng.uniform(1.0, 2.2)]))
    shortest = max(min(200, longest), round(longest / aspect))
    return (shortest, longest) if rng.random() < 0.6 else (longest, shortest)


def _place_objects(
    rng: np.random.Generator, picture: Plane, *, gray: bool, max_objects: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    height, width = picture.shape[:2]
    boxes: list[npt.NDArray[np.float64]] = []
    class_ids: list[int] = []
    wanted = 0 if rng.random() < 0.03 else int(rng.integers(1, max_objects + 1))
    smallest = np.log(0.5 * MIN_DIAMETER * max(height, width))
    largest = np.log(max(0.26 * min(height, width), 0.04 * max(height, width)))
    for _ in range(wanted):
        class_id = int(rng.integers(len(CLASS_NAMES)))
        radius = float(np.exp(rng.uniform(smallest, largest)))
        centre = rng.uniform([0.0, 0.0], [width, height])
        polygons = [polygon * radius + centre for polygon in outline(rng, class_id)]
        box = _visible_box(polygons[0], width, height)
        if box is None or any(_overlap(box, other) > MAX_OVERLAP for other in boxes):
            continue
        if paint_shape(rng, picture, polygons, gray=gray):
            boxes.append(box)
            class_ids.append(class_id)
    return (
        np.array(boxes, np.float32).reshape(-1, 4),
        np.array(class_ids, np.int64),
    )


def _visible_box(
    polygon: npt.NDArray[np.float64], width: int, height: int
) -> npt.NDArray[np.float64] | None:
    """Return the polygon's box cut to the picture, or None where too little of it is left."""
    whole = np.concatenate([polygon.min(axis=0), polygon.max(axis=0)])
    box = np.clip(whole, 0.0, [width, height, width, height])
    return box if _area(box) >= MIN_INSIDE * _area(whole) else None


def _area(box: npt.NDArray[np.float64]) -> float:
    return float(max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1]))


def _overlap(first: npt.NDArray[np.float64], second: npt.NDArray[np.float64]) -> float:
    shared = np.concatenate([np.maximum(first[:2], second[:2]), np.minimum(first[2:], second[2:])])
    return _area(shared) / min(_area(first), _area(second))


def draw_boxes(
    image: npt.NDArray[np.uint8],
    boxes: npt.NDArray[np.float32],
    labels: list[str],
    *,
    colour: tuple[int, int, int] = (255, 255, 0),
) -> npt.NDArray[np.uint8]:
    """Return a copy of an RGB image with xyxy boxes and their labels."""
    drawn = np.ascontiguousarray(image).copy()
    line = max(1, max(drawn.shape) // 500)
    for box, label in zip(boxes, labels, strict=True):
        left, top, right, bottom = (round(float(value)) for value in box)
        cv2.rectangle(drawn, (left, top), (right, bottom), colour, line)
        at = (left + 2, max(top - 4, 14 * line))
        cv2.putText(drawn, label, at, cv2.FONT_HERSHEY_SIMPLEX, 0.45 * line, colour, line)
    return drawn


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Writes scenes with their boxes, to look at.")
    parser.add_argument("--count", type=int, default=8, help="number of scenes (8)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first scene (0)")
    parser.add_argument("--output", type=Path, required=True, help="folder for the pictures")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    for seed in range(options.seed, options.seed + options.count):
        scene = make_scene(seed)
        labels = [CLASS_NAMES[class_id] for class_id in scene.class_ids]
        path = options.output / f"scene_{seed}.jpg"
        cv2.imwrite(str(path), draw_boxes(scene.image, scene.boxes, labels)[..., ::-1])
        print(f"{path}: {scene.image.shape[1]}x{scene.image.shape[0]}, {', '.join(labels)}")


if __name__ == "__main__":
    main()
