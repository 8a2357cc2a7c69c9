"""ONNX files of heads that are sets of queries, or boxes at anchors; see family_networks."""

from __future__ import annotations

from typing import Any

import numpy as np
from family_networks import Floats, Network, Output

SIDE = 64
# Two boxes in each cell of 8x8 pixels and one in each of 16x16.
ANCHOR_GRID = "8:16x16,24x12;16:32x32"


def _logits(random: np.random.Generator, rows: int, columns: int) -> Floats:
    """Mostly far below 0, a tenth of them around 1; no two are nearer than f could tell apart."""
    logits = random.permutation(rows * columns).reshape(rows, columns) / 50
    logits = -logits - 2
    high = random.choice(rows, rows // 4, replace=False)
    logits[high, random.integers(0, columns, len(high))] = random.permutation(len(high)) / 8 - 0.9
    return logits.astype(np.float32)


def _fractions(random: np.random.Generator, rows: int) -> Floats:
    """cx, cy, w, h inside the image."""
    sizes = random.uniform(0.1, 0.4, (rows, 2))
    centres = random.uniform(sizes / 2, 1 - sizes / 2)
    return np.hstack([centres, sizes]).astype(np.float32)


def rtdetr(seed: int = 20, *, queries: int = 60, classes: int = 4, **options: Any) -> Network:
    """logits [Q, C] and pred_boxes [Q, 4], as transformers' RT-DETR gives them."""
    random = np.random.default_rng(seed)
    logits = Output(_logits(random, queries, classes), 1.0)
    return Network({"logits": logits, "pred_boxes": Output(_fractions(random, queries))}, **options)


def detr(seed: int = 21, *, queries: int = 60, classes: int = 4, **options: Any) -> Network:
    """logits [Q, C + 1], the last one for no object, and pred_boxes [Q, 4], as DETR's."""
    random = np.random.default_rng(seed)
    logits = np.hstack([_logits(random, queries, classes), np.full((queries, 1), -0.5)])
    change = np.ones_like(logits, np.float32)
    change[:, -1] = 0
    scores = Output(logits.astype(np.float32), change)
    return Network({"logits": scores, "pred_boxes": Output(_fractions(random, queries))}, **options)


def joined(
    seed: int = 22, *, queries: int = 60, classes: int = 4, raw: bool = False, **options: Any
) -> Network:
    """[Q, 4 + C], boxes first; scores from 0 to 1, or logits where they are raw."""
    random = np.random.default_rng(seed)
    logits = _logits(random, queries, classes)
    scores = logits if raw else 1 / (1 + np.exp(-logits.astype(np.float64)))
    base = np.hstack([_fractions(random, queries), scores]).astype(np.float32)
    change = np.zeros_like(base)
    change[:, 4:] = base[:, 4:] if not raw else 1
    return Network({"output0": Output(base, change)}, **options)


def grid_anchors() -> Floats:
    """cx, cy, w, h in pixels of the anchors that ANCHOR_GRID describes."""
    sizes = {8: [(16, 16), (24, 12)], 16: [(32, 32)]}
    rows = [
        ((column + 0.5) * stride, (row + 0.5) * stride, *size)
        for stride, each in sizes.items()
        for row in range(SIDE // stride)
        for column in range(SIDE // stride)
        for size in each
    ]
    return np.array(rows, np.float32)


def _background_first(random: np.random.Generator, rows: int, classes: int) -> Floats:
    """Scores [A, 1 + C] before a softmax: for no object nearly everywhere."""
    scores = random.normal(0, 0.5, (rows, 1 + classes))
    scores[:, 0] = 4
    high = random.choice(rows, rows // 12, replace=False)
    scores[high, random.integers(1, 1 + classes, len(high))] = 4 + random.permutation(len(high)) / 8
    return scores.astype(np.float32)


def ssd(seed: int = 23, *, classes: int = 3, anchors: bool = True, **options: Any) -> Network:
    """Offsets and scores [A, 1 + C] before a softmax; anchors as corners where they are given."""
    random = np.random.default_rng(seed)
    places = grid_anchors()
    scores = _background_first(random, len(places), classes)
    change = np.ones_like(scores)
    change[:, 0] = 0
    outputs = {
        "boxes": Output(random.normal(0, 1, (len(places), 4)).astype(np.float32)),
        "scores": Output(scores, change),
    }
    if anchors:
        half = places[:, 2:] / 2
        outputs["anchors"] = Output(np.hstack([places[:, :2] - half, places[:, :2] + half]))
    return Network(outputs, **options)


def decoded(seed: int = 24, *, classes: int = 3, **options: Any) -> Network:
    """Corners in pixels, and scores [A, C] from 0 to 1."""
    random = np.random.default_rng(seed)
    places = grid_anchors()
    half = places[:, 2:] / 2 * random.uniform(0.7, 1.3, (len(places), 2))
    centres = places[:, :2] + random.uniform(-2, 2, (len(places), 2))
    boxes = np.hstack([centres - half, centres + half]).astype(np.float32)
    scores = random.integers(0, 40, (len(places), classes)) / 500
    high = random.choice(len(places), 30, replace=False)
    scores[high, random.integers(0, classes, 30)] = (200 + random.permutation(250)[:30]) / 500
    outputs = {"boxes": Output(boxes), "scores": Output(scores.astype(np.float32), 1.0)}
    return Network(outputs, **options)
