"""Raw heads of one image with random boxes and scores, from a seed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


def random_boxes(random: np.random.Generator, count: int, *, side: float = 640) -> Floats:
    """cx, cy, w, h in pixels, float32 [count, 4]."""
    centers = random.uniform(0, side, (count, 2))
    sizes = random.uniform(1, side / 2, (count, 2))
    return np.hstack([centers, sizes]).astype(np.float32)


def yolov8_head(seed: int, *, anchors: int, num_classes: int, levels: int = 0) -> Floats:
    """float32 [4+C, A]; with `levels` scores take few values, so that ties are many."""
    random = np.random.default_rng(seed)
    scores = random.uniform(0, 1, (anchors, num_classes)) ** 3
    if levels:
        scores = np.round(scores * levels) / levels
    rows = np.hstack([random_boxes(random, anchors), scores]).astype(np.float32)
    return np.ascontiguousarray(rows.T)


def yolov5_head(seed: int, *, anchors: int, num_classes: int) -> Floats:
    random = np.random.default_rng(seed)
    scores = random.uniform(0, 1, (anchors, 1 + num_classes))
    return np.hstack([random_boxes(random, anchors), scores]).astype(np.float32)


def end2end_head(seed: int, *, rows: int, num_classes: int) -> Floats:
    random = np.random.default_rng(seed)
    corners = random.uniform(0, 300, (rows, 2))
    boxes = np.hstack([corners, corners + random.uniform(1, 300, (rows, 2))])
    scores = random.uniform(0, 1, (rows, 1))
    class_ids = random.integers(0, num_classes, (rows, 1))
    return np.hstack([boxes, scores, class_ids]).astype(np.float32)


def efficient_nms_outputs(count: int, *, rows: int = 20) -> dict[str, npt.NDArray[np.generic]]:
    head = end2end_head(4, rows=rows, num_classes=7)
    return {
        "num_detections": np.array([count], np.int32),
        "boxes": np.ascontiguousarray(head[:, :4]),
        "scores": np.ascontiguousarray(-np.sort(-head[:, 4])),
        "classes": head[:, 5].astype(np.int32),
    }
