"""Raw heads of one image -> candidates, written from the shapes that the families document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Candidate:
    """One box over the threshold: xyxy in pixels of the model's input."""

    box: Floats
    score: np.float32
    class_id: int
    index: int


def sigmoid(x: Floats) -> Floats:
    return (1.0 / (1.0 + np.exp(-x.astype(np.float64)))).astype(np.float32)


def softmax(x: Floats) -> Floats:
    powers = np.exp(x.astype(np.float64) - x.max())
    scores: Floats = (powers / powers.sum()).astype(np.float32)
    return scores


def xyxy_from_cxcywh(box: Floats) -> Floats:
    half = np.float32(0.5)
    cx, cy, w, h = box
    return np.array([cx - w * half, cy - h * half, cx + w * half, cy + h * half], np.float32)


def pick(
    box: Floats, class_scores: Floats, index: int, *, score_threshold: float, multi_label: bool
) -> list[Candidate]:
    """The best class of one anchor, or all of its classes, where over the threshold."""
    chosen = range(len(class_scores)) if multi_label else [int(np.argmax(class_scores))]
    return [
        Candidate(box, class_scores[c], c, index)
        for c in chosen
        if float(class_scores[c]) > score_threshold
    ]


def dropped_rows(
    boxes: Floats, scores: Floats, extras: Floats, over: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """The rows that `on_nan` `drop` leaves out, of tensors with one row each.

    They have a NaN in box or scores, or are over the threshold with any number of the box or the
    extra values that is not finite.
    """
    nan = np.isnan(boxes).any(1) | np.isnan(scores).any(1)
    finite = np.isfinite(boxes).all(1) & np.isfinite(extras).all(1)
    return np.flatnonzero(nan | (over & ~finite))


def best(candidates: list[Candidate], max_candidates: int) -> tuple[list[Candidate], bool]:
    """Best scores first, then lower index, then lower class; and whether some were cut off."""
    ranked = sorted(candidates, key=lambda c: (-c.score, c.index, c.class_id))
    return ranked[:max_candidates], len(ranked) > max_candidates


def filter_classes(
    candidates: list[Candidate],
    *,
    classes: Sequence[int] | None = None,
    score_thresholds: Sequence[float] | None = None,
) -> list[Candidate]:
    """Leave out other classes and scores that are not greater than their class's threshold.

    Candidates are an anchor's best class or all of its classes, over a threshold that is not
    greater than any of score_thresholds.
    """
    return [
        c
        for c in candidates
        if (classes is None or c.class_id in classes)
        and (score_thresholds is None or float(c.score) > score_thresholds[c.class_id])
    ]


def yolov8(head: Floats, *, score_threshold: float, multi_label: bool = False) -> list[Candidate]:
    """[4+C, A]: cx, cy, w, h and C class scores for each anchor."""
    found: list[Candidate] = []
    for anchor in range(head.shape[1]):
        box = xyxy_from_cxcywh(head[:4, anchor])
        found += pick(
            box, head[4:, anchor], anchor, score_threshold=score_threshold, multi_label=multi_label
        )
    return found


def yolov5(head: Floats, *, score_threshold: float, multi_label: bool = False) -> list[Candidate]:
    """[A, 5+C]: cx, cy, w, h, objectness and C class scores; score = objectness * class score."""
    found: list[Candidate] = []
    for anchor in range(head.shape[0]):
        box = xyxy_from_cxcywh(head[anchor, :4])
        scores = head[anchor, 4] * head[anchor, 5:]
        found += pick(box, scores, anchor, score_threshold=score_threshold, multi_label=multi_label)
    return found


def yolox(
    head: Floats,
    *,
    size: tuple[int, int],
    score_threshold: float,
    strides: tuple[int, ...] = (8, 16, 32),
    multi_label: bool = False,
) -> list[Candidate]:
    """[A, 5+C]: yolov5's rows, boxes relative to the cells: level by level, row by row."""
    decoded = head.copy()
    anchor = 0
    for stride in strides:
        for row in range(-(-size[0] // stride)):
            for column in range(-(-size[1] // stride)):
                x, y, w, h = head[anchor, :4].astype(np.float64)
                decoded[anchor, :2] = (x + column) * stride, (y + row) * stride
                decoded[anchor, 2:4] = np.exp(w) * stride, np.exp(h) * stride
                anchor += 1
    assert anchor == len(head)
    return yolov5(decoded, score_threshold=score_threshold, multi_label=multi_label)


def end2end(head: Floats, *, score_threshold: float) -> list[Candidate]:
    """[K, 6]: x1, y1, x2, y2, score, class."""
    return [
        Candidate(row[:4], row[4], int(row[5]), index)
        for index, row in enumerate(head)
        if float(row[4]) > score_threshold
    ]


def activated(raw: Floats, activation: str, background: str) -> Floats:
    """[N, C with the background] raw scores -> [N, C] scores of the classes."""
    with np.errstate(over="ignore"):
        scores = {
            "none": lambda: raw,
            "sigmoid": lambda: sigmoid(raw),
            "softmax": lambda: np.stack([softmax(row) for row in raw]) if len(raw) else raw,
        }[activation]()
    columns = {"none": slice(None), "first": slice(1, None), "last": slice(None, -1)}
    return scores[:, columns[background]]


def rtdetr(
    scores: Floats, boxes: Floats, *, score_threshold: float, multi_label: bool = True
) -> list[Candidate]:
    """scores [Q, C], boxes [Q, 4] as cx, cy, w, h in pixels; every class is a candidate."""
    found: list[Candidate] = []
    for query, (row, box) in enumerate(zip(scores, boxes, strict=True)):
        corners = xyxy_from_cxcywh(box)
        found += pick(corners, row, query, score_threshold=score_threshold, multi_label=multi_label)
    return found


def top_classes(scores: Floats, top_k: int) -> npt.NDArray[np.int64]:
    """Class ids by falling score; equal scores by rising class id."""
    order = sorted(range(len(scores)), key=lambda c: (-scores[c], c))
    return np.array(order[:top_k], dtype=np.int64)


def classes_over(scores: Floats, score_threshold: float, top_k: int) -> npt.NDArray[np.int64]:
    """The top classes whose scores are greater than the threshold."""
    ranked = top_classes(scores, len(scores))
    return ranked[[float(scores[c]) > score_threshold for c in ranked]][:top_k]
