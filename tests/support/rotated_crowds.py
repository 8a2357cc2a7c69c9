"""Rotated boxes for tests, and thresholds that no pair of them is near to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

THRESHOLDS = [0.1, 0.3, 0.45, 0.7]


@dataclass(frozen=True)
class Crowd:
    """boxes float32 [N, 5] cx, cy, w, h, angle; scores float32 [N], no two equal; class_ids [N]."""

    boxes: np.ndarray
    scores: np.ndarray
    class_ids: np.ndarray


def scattered(count: int, seed: int = 0, num_classes: int = 1) -> Crowd:
    """Boxes of any shape anywhere, crowded enough that many overlap."""
    random = np.random.default_rng(seed)
    centres = random.uniform(0, 40 * np.sqrt(count) + 40, (count, 2))
    sizes = random.uniform(10, 120, (count, 2))
    return _crowd(random, centres, sizes, random.uniform(-np.pi, np.pi, count), num_classes)


def clustered(count: int, seed: int = 0, num_classes: int = 1) -> Crowd:
    """What a detector gives: some objects, and around each of them many boxes nearly its own."""
    random = np.random.default_rng(seed)
    objects = scattered(max(1, count // 20), seed).boxes
    boxes = objects[random.integers(0, len(objects), count)]
    side = np.sqrt(boxes[:, 2:3] * boxes[:, 3:4])
    centres = boxes[:, :2] + random.normal(0, 0.08, (count, 2)) * side
    sizes = boxes[:, 2:4] * np.exp(random.normal(0, 0.1, (count, 2)))
    return _crowd(random, centres, sizes, boxes[:, 4] + random.normal(0, 0.1, count), num_classes)


def moored(count: int, seed: int = 0, num_classes: int = 1) -> Crowd:
    """Ship side by side in a harbour of an aerial picture: long boxes at nearly one angle."""
    random = np.random.default_rng(seed)
    places = np.arange(count) // 4  # four candidates for each ship
    row, column = np.divmod(places, 25)
    along = np.stack([row * 130.0, column * 26.0], axis=1) + random.normal(0, 3, (count, 2))
    angle = 0.7 + random.normal(0, 0.05, count)
    cos, sin = np.cos(0.7), np.sin(0.7)
    centres = along @ np.array([[cos, sin], [-sin, cos]]) + 1000
    sizes = np.stack([random.uniform(90, 130, count), random.uniform(18, 26, count)], axis=1)
    return _crowd(random, centres, sizes, angle, num_classes)


CROWDS = {"scattered": scattered, "clustered": clustered, "moored": moored}


def clear_threshold(ious: np.ndarray, near: float, margin: float) -> float:
    """A threshold within 0.05 of `near` from which every IoU is further away than `margin`."""
    around = ious[np.abs(ious - near) <= 0.05].astype(np.float64)
    edges = np.sort(np.concatenate([[near - 0.05], around, [near + 0.05]]))
    widest = int(np.argmax(np.diff(edges)))
    assert edges[widest + 1] - edges[widest] > 2 * margin, "no threshold is clear of all pairs"
    return float((edges[widest] + edges[widest + 1]) / 2)


def _crowd(
    random: np.random.Generator,
    centres: np.ndarray,
    sizes: np.ndarray,
    angles: np.ndarray,
    num_classes: int,
) -> Crowd:
    count = len(centres)
    boxes = np.hstack([centres, sizes, angles[:, None]]).astype(np.float32)
    scores = (random.permutation(count) + 1).astype(np.float32) / np.float32(count)
    return Crowd(boxes, scores, random.integers(0, num_classes, count))
