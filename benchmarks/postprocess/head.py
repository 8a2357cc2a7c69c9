"""A YOLOv8 head [4 + 80, 8400] as a detector gives it on a crowded picture; always the same one.

Around an object many anchors agree on a box, more or less, with scores that fall off from the best
one, and around a weak hint they do so for a few classes with tiny scores; elsewhere boxes are
noise, and scores small but not zero, as sigmoids are. Above 0.25 there are some hundred candidates,
and above 0.001 more than 30,000 where an anchor may have many labels.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

SIDE = 640
NUM_CLASSES = 80
STRIDES = (8, 16, 32)
NUM_OBJECTS = 60
NUM_HINTS = 400
_BACKGROUND_SCORE = 2e-4  # mean of an exponential: 0.7 % of the scores are above 0.001
_ANCHORS_PER_OBJECT = 12
_ANCHORS_PER_HINT = 40
_CLASSES_PER_HINT = 3

Floats = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]


def anchors() -> tuple[Floats, Floats]:
    """Centres [8400, 2] and strides [8400] in pixels, finest grid first."""
    centres, strides = [], []
    for stride in STRIDES:
        line = (np.arange(SIDE // stride, dtype=np.float32) + 0.5) * stride
        x, y = np.meshgrid(line, line)
        centres.append(np.stack([x.ravel(), y.ravel()], axis=1))
        strides.append(np.full(x.size, stride, np.float32))
    return np.concatenate(centres), np.concatenate(strides)


def make(seed: int = 0) -> Floats:
    """Return the head: rows cx, cy, w, h in pixels, then a score for each class."""
    random = np.random.default_rng(seed)
    centres, strides = anchors()
    count = len(strides)
    boxes = np.empty((count, 4), np.float32)
    boxes[:, :2] = centres + random.normal(0, 0.5, (count, 2)) * strides[:, None]
    boxes[:, 2:] = strides[:, None] * random.lognormal(1.0, 0.5, (count, 2))
    scores = random.exponential(_BACKGROUND_SCORE, (count, NUM_CLASSES)).clip(0, 0.2)
    for _ in range(NUM_HINTS):
        near = _agree_on_a_box(random, boxes, _ANCHORS_PER_HINT, spread=0.1)
        for class_id in random.integers(NUM_CLASSES, size=_CLASSES_PER_HINT):
            scores[near, class_id] = random.lognormal(-5.5, 0.8, len(near)).clip(0, 0.2)
    for _ in range(NUM_OBJECTS):
        near = _agree_on_a_box(random, boxes, _ANCHORS_PER_OBJECT, spread=0.04)
        best = random.uniform(0.5, 0.95)
        scores[near, random.integers(NUM_CLASSES)] = best * random.uniform(0.4, 1, len(near))
    head = np.concatenate([boxes, scores.astype(np.float32)], axis=1)
    return np.ascontiguousarray(head.T)


def _agree_on_a_box(
    random: np.random.Generator, boxes: Floats, count: int, *, spread: float
) -> Ids:
    """Give the `count` nearest anchors of a fitting grid one box, but for `spread` of its size."""
    centres, strides = anchors()
    size = random.lognormal(4.0, 0.7, 2).clip(12, 400)  # width, height
    centre = random.uniform(size / 2, SIDE - size / 2)
    grid = np.flatnonzero(strides == STRIDES[int(np.clip(np.log2(size.max() / 40), 0, 2))])
    distance = np.abs(centres[grid] - centre).max(axis=1)
    near: Ids = grid[np.argsort(distance, kind="stable")[:count]]
    boxes[near, :2] = centre + random.normal(0, spread, (len(near), 2)) * size
    boxes[near, 2:] = size * random.normal(1, spread, (len(near), 2)).clip(0.7, 1.3)
    return near


def candidates(head: Floats, score_threshold: float, most: int) -> tuple[Floats, Floats, Ids]:
    """Boxes xyxy [N, 4], scores [N] and class ids int64 [N], best first, at most `most`.

    Every class over the threshold is a candidate of its own.
    """
    of_anchors = head[4:].T
    anchor, class_id = np.nonzero(of_anchors > score_threshold)
    score = head[4 + class_id, anchor]
    best = np.argsort(-score, kind="stable")[:most]
    anchor, class_id, score = anchor[best], class_id[best], score[best]
    centre, half = head[:2, anchor].T, head[2:4, anchor].T / 2
    boxes = np.concatenate([centre - half, centre + half], axis=1)
    return np.ascontiguousarray(boxes, np.float32), score, class_id
