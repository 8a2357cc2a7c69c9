"""ONNX files of YOLO heads with more than boxes and scores; see family_networks."""

from __future__ import annotations

from typing import Any

import numpy as np
from family_networks import Floats, Network, Output, grid_rows

MASKS, PROTOTYPE_SIDE = 32, 16
KEYPOINTS = 5


def _network(
    boxes: Floats, scores: Floats, more: Floats, others: dict[str, Output], **options: Any
) -> Network:
    """The head [4 + C + E, A], of which the scores follow the image."""
    base = np.ascontiguousarray(np.hstack([boxes, scores, more]).T.astype(np.float32))
    change = np.zeros_like(base)
    change[4 : 4 + scores.shape[1]] = 1
    return Network({"output0": Output(base, change), **others}, **options)


def seg(seed: int = 10, *, classes: int = 3, **options: Any) -> Network:
    """Prototypes [32, 16, 16] are waves that make blobs of some pixels."""
    random = np.random.default_rng(seed)
    boxes, scores = grid_rows(seed, classes=classes)
    weights = random.normal(0, 1, (len(boxes), MASKS))
    rows, columns = np.mgrid[:PROTOTYPE_SIDE, :PROTOTYPE_SIDE] / 4
    phases = random.uniform(0, 6, (3, MASKS))[..., None, None]
    waves = np.sin(rows * (1 + phases[0] / 6) + phases[1]) * np.cos(columns + phases[2])
    prototypes = {"output1": Output(waves.astype(np.float32))}
    return _network(boxes, scores, weights, prototypes, **options)


def pose(seed: int = 11, *, classes: int = 2, values: int = 3, **options: Any) -> Network:
    """Keypoints all over the image, with a visibility from 0 to 1 where `values` is 3."""
    random = np.random.default_rng(seed)
    boxes, scores = grid_rows(seed, classes=classes)
    points = random.uniform(-4, 68, (len(boxes), KEYPOINTS, values))
    points[..., 2:] = random.uniform(0, 1, points[..., 2:].shape)
    return _network(boxes, scores, points.reshape(len(boxes), -1), {}, **options)


def obb(seed: int = 12, *, classes: int = 3, **options: Any) -> Network:
    """Angles from -45 to 135 degrees, as Ultralytics' networks have them."""
    random = np.random.default_rng(seed)
    boxes, scores = grid_rows(seed, classes=classes)
    angles = random.uniform(-np.pi / 4, 3 * np.pi / 4, (len(boxes), 1))
    return _network(boxes, scores, angles, {}, **options)
