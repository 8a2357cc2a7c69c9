"""Training scenes: drawn once into a cache on disk, then varied for every batch."""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np
import numpy.typing as npt

from endcap import Preprocessor
from endcap.evaluation.numpy_images import place_image

from .scenes import make_scene

Boxes = npt.NDArray[np.float32]
CANVAS_SIDE = 640
# As the detector is served.
PREPROCESS = Preprocessor("ultralytics", size=CANVAS_SIDE, threads=1).parameters
PAD_VALUE = int(PREPROCESS["pad_value"])
# Every other scene holds more objects than measured ones, so that each picture teaches more; the
# others leave room for large ones. All hold more things of no class.
MANY_OBJECTS, FEW_OBJECTS = 40, 12
MAX_DISTRACTORS = 10
# Three scenes in four are quick to draw; the fourth shows what shrinking a large one does to it.
SMALL_SCENE, LARGE_SCENE = (200, 900), (900, 4000)
# A box cut by a crop stays a target while this share of it is left.
MIN_LEFT = 0.5
# Seeds of training scenes are [TRAINING_STREAM, seed, index]; no other program uses the stream.
TRAINING_STREAM = 1


class SceneCache:
    """`count` letterboxed training scenes, uint8 [count, 640, 640, 3] in a memory-mapped file."""

    def __init__(self, folder: Path, count: int, seed: int, *, workers: int):
        self._stem = folder / f"scenes_{count}_seed{seed}"
        self._seed = seed
        self._count = count
        folder.mkdir(parents=True, exist_ok=True)
        if not self._stem.with_suffix(".npz").exists():
            self._fill(workers)
        stored = np.load(self._stem.with_suffix(".npz"))
        self._images = self._open_images("r")
        self._boxes, self._class_ids = stored["boxes"], stored["class_ids"]
        self._start = np.concatenate([[0], np.cumsum(stored["counts"])])

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> tuple[npt.NDArray[np.uint8], Boxes, npt.NDArray[np.int64]]:
        rows = slice(self._start[index], self._start[index + 1])
        return self._images[index], self._boxes[rows], self._class_ids[rows]

    def _open_images(self, mode: Literal["r", "w+"]) -> np.memmap[Any, np.dtype[np.uint8]]:
        shape = (self._count, CANVAS_SIDE, CANVAS_SIDE, 3)
        return np.memmap(self._stem.with_suffix(".raw"), np.uint8, mode, shape=shape)

    def _fill(self, workers: int) -> None:
        images, started = self._open_images("w+"), time.monotonic()
        boxes, class_ids = [], []
        seeds = [(self._seed, index) for index in range(self._count)]
        # Spawned workers inherit no thread or lock of the training process.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(workers, mp_context=context) as pool:
            drawn = pool.map(_draw, seeds, chunksize=16)
            for index, (image, scene_boxes, scene_ids) in enumerate(drawn):
                images[index] = image
                boxes.append(scene_boxes)
                class_ids.append(scene_ids)
                if (index + 1) % 100 == 0 or index + 1 == self._count:
                    print(f"\rscenes {index + 1}/{self._count}", end="", flush=True)
        print(f"\ndrew {self._count} scenes in {(time.monotonic() - started) / 60.0:.1f} min")
        images.flush()
        np.savez(
            self._stem.with_suffix(".npz"),
            boxes=np.concatenate(boxes),
            class_ids=np.concatenate(class_ids),
            counts=np.array([len(item) for item in boxes]),
        )


def _draw(seed: tuple[int, int]) -> tuple[npt.NDArray[np.uint8], Boxes, npt.NDArray[np.int64]]:
    """One letterboxed training scene; `seed` is the training's seed and the scene's index."""
    cv2.setNumThreads(1)
    index = seed[1]
    scene = make_scene(
        [TRAINING_STREAM, *seed],
        long_side=LARGE_SCENE if index % 4 == 0 else SMALL_SCENE,
        max_objects=MANY_OBJECTS if index // 4 % 2 == 0 else FEW_OBJECTS,
        max_distractors=MAX_DISTRACTORS,
    )
    placed = place_image(scene.image, PREPROCESS)
    scale = np.array(np.divide(placed.resized, placed.source).tolist() * 2, np.float32)
    pad = np.array([placed.left, placed.top] * 2, np.float32)
    return placed.pixels.astype(np.uint8), scene.boxes * scale + pad, scene.class_ids


def vary(
    rng: np.random.Generator, image: npt.NDArray[np.uint8], boxes: Boxes, side: int
) -> tuple[npt.NDArray[np.uint8], Boxes, npt.NDArray[np.bool_]]:
    """One variation of a square scene: crop or shrink to `side`, turn, mirror, mix channels.

    No class changes under a quarter turn, a mirror or other colours.

    Returns:
        uint8 [side, side, 3], all boxes float32 [N, 4] xyxy in it, and which of them remain.
    """
    whole = image.shape[0]
    window = whole if rng.random() < 0.4 else int(rng.uniform(0.5, 1.0) * whole)
    left, top = (int(value) for value in rng.integers(0, whole - window + 1, 2))
    crop = image[top : top + window, left : left + window]
    if window != side:
        shrunk = cv2.resize(crop, (side, side), interpolation=cv2.INTER_LINEAR)
        crop = shrunk.astype(np.uint8, copy=False)
    moved = (boxes - np.array([left, top, left, top], np.float32)) * np.float32(side / window)
    cut = np.clip(moved, 0.0, side)
    keep = _area(cut) >= MIN_LEFT * _area(moved)
    rotated, cut = _turn(crop, cut, turns=int(rng.integers(4)), mirror=bool(rng.integers(2)))
    return _recolour(rng, rotated), cut, keep


def _area(boxes: Boxes) -> npt.NDArray[np.float32]:
    size = np.maximum(boxes[:, 2:] - boxes[:, :2], 0.0)
    return np.asarray(size[:, 0] * size[:, 1])


def _turn(
    image: npt.NDArray[np.uint8], boxes: Boxes, *, turns: int, mirror: bool
) -> tuple[npt.NDArray[np.uint8], Boxes]:
    side = np.float32(image.shape[0])
    for _ in range(turns):
        image = image.transpose(1, 0, 2)[::-1]
        left, top, right, bottom = boxes.T
        boxes = np.stack([top, side - right, bottom, side - left], axis=1)
    if mirror:
        image = image[:, ::-1]
        left, top, right, bottom = boxes.T
        boxes = np.stack([side - right, top, side - left, bottom], axis=1)
    return np.ascontiguousarray(image), boxes


def _recolour(rng: np.random.Generator, image: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Mix channels and moves brightness; the letterbox bars keep their value."""
    bars = np.all(image == PAD_VALUE, axis=2)
    channels = rng.permutation(3) if rng.random() < 0.7 else np.arange(3)
    gain, offset = rng.uniform(0.75, 1.25), rng.uniform(-25.0, 25.0)
    table = np.clip(np.arange(256) * gain + offset, 0, 255).astype(np.uint8)
    if rng.random() < 0.2:
        table = table[::-1]
    changed = np.ascontiguousarray(cv2.LUT(image, table)[..., channels])
    changed[bars] = PAD_VALUE
    return changed
