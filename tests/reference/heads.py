"""Raw heads of one image -> candidates, written from the shapes that the families document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.reference import anchors as anchor

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


def xyxy_from_cxcywh(boxes: Floats) -> Floats:
    half = boxes[:, 2:] * np.float32(0.5)
    return np.hstack([boxes[:, :2] - half, boxes[:, :2] + half])


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


def activated(raw: Floats, activation: str, background: str = "none") -> Floats:
    """[N, C with the background] raw scores -> [N, C] scores of the classes."""
    with np.errstate(over="ignore"):
        scores = {
            "none": lambda: raw,
            "sigmoid": lambda: sigmoid(raw),
            "softmax": lambda: np.stack([softmax(row) for row in raw]) if len(raw) else raw,
        }[activation]()
    columns = {"none": slice(None), "first": slice(1, None), "last": slice(None, -1)}
    return scores[:, columns[background]]


def read_rows(
    family: str,
    tensors: Mapping[str, npt.NDArray[Any]],
    *,
    num_classes: int,
    activation: str = "default",
    background: str = "default",
    box_format: str = "default",
    box_unit: str = "default",
    input_size: tuple[int, int] = (640, 640),
    joined: bool = False,
    anchors: str = "input",
    anchor_grid: str = "8:8x8;16:16x16;32:32x32",
    anchor_offset: float = 0.5,
    variances: Sequence[float] = (0.1, 0.1, 0.2, 0.2),
) -> tuple[Floats, Floats]:
    """The boxes [A, 4] in pixels of the input, x1, y1, x2, y2, and the class scores [A, C]."""
    defaults = DEFAULTS[family.split("_")[0]]
    background = defaults[1] if background == "default" else background
    if activation == "default":
        activation = "sigmoid" if (family, background) == ("ssd", "none") else defaults[0]
    sides = np.array([input_size[1], input_size[0]] * 2, np.float64)
    if "head" in tensors:
        head = tensors["head"].T if family.startswith("yolov8") else tensors["head"]
        before = 5 if family in ("yolov5", "yolox") else 4
        columns = num_classes + (background != "none")
        boxes, scores = head[:, :4], head[:, before : before + columns]
        scores = activated(scores, activation, background)
        if before == 5:
            scores = activated(head[:, 4:5], activation) * scores
    else:
        boxes = tensors["boxes"]
        raw = tensors["logits" if family.startswith("rtdetr") else "scores"]
        scores = activated(raw, activation, background)
    box_format = defaults[2] if box_format == "default" else box_format
    levels = anchor.parse(anchor_grid)
    if family == "ssd" and anchors != "none":
        if anchors == "grid":
            centres = anchor.grid(levels, *input_size, offset=anchor_offset)
        elif box_format == "xyxy":
            centres = anchor.centres(tensors["anchors"].astype(np.float64))
        else:
            centres = tensors["anchors"] * (sides if box_unit == "normalized" else 1.0)
        return anchor.decode(boxes, centres, variances).astype(np.float32), scores
    if family == "yolox":
        cells = anchor.grid(levels, *input_size, offset=0)
        centres = boxes[:, :2] * cells[:, 2:] + cells[:, :2]
        boxes = np.hstack([centres, np.exp(boxes[:, 2:].astype(np.float64)) * cells[:, 2:]])
    if (defaults[3] if box_unit == "default" else box_unit) == "normalized":
        boxes = boxes * sides
    boxes = boxes.astype(np.float32)
    return boxes if box_format == "xyxy" else xyxy_from_cxcywh(boxes), scores


# Activation, background, format and unit of boxes where none is given.
DEFAULTS = {
    "yolov5": ("none", "none", "cxcywh", "pixel"),
    "yolov8": ("none", "none", "cxcywh", "pixel"),
    "yolox": ("none", "none", "cxcywh", "pixel"),
    "rtdetr": ("sigmoid", "none", "cxcywh", "normalized"),
    "ssd": ("softmax", "first", "xyxy", "pixel"),
}


def read_finished(
    family: str,
    tensors: Mapping[str, npt.NDArray[Any]],
    *,
    background: str = "default",
    box_unit: str = "pixel",
    input_size: tuple[int, int] = (640, 640),
) -> list[Candidate]:
    """The rows of a network that suppresses boxes: box, score and class, some for no object."""
    if family.startswith("end2end"):
        head = tensors["head"]
        boxes = head[:, :4]
        if box_unit == "normalized":
            boxes = (boxes * np.float64([*input_size[::-1]] * 2)).astype(np.float32)
        boxes = xyxy_from_cxcywh(boxes) if family == "end2end_obb" else boxes
        columns = boxes, head[:, 4], head[:, 5]
    else:
        columns = tensors["boxes"], tensors["scores"], tensors["classes"]
    count = int(tensors.get("num_detections", [len(columns[0])])[0])
    rows = zip(*(column[:count] for column in columns), range(count), strict=True)
    found = [Candidate(box, score, int(class_id), i) for box, score, class_id, i in rows]
    if background == "first":
        return [replace(c, class_id=c.class_id - 1) for c in found if c.class_id]
    return found


def candidates(
    family: str,
    tensors: Mapping[str, npt.NDArray[Any]],
    *,
    num_classes: int,
    score_threshold: float = 0.25,
    multi_label: bool | None = None,
    **options: Any,
) -> list[Candidate]:
    """The candidates of a head of one image, in the order of its rows."""
    if family.split("_")[0] not in DEFAULTS:
        found = read_finished(family, tensors, **options)
        return [c for c in found if float(c.score) > score_threshold and c.class_id < num_classes]
    boxes, scores = read_rows(family, tensors, num_classes=num_classes, **options)
    if multi_label is None:
        multi_label = family.startswith(("rtdetr", "ssd"))
    return [
        Candidate(box, row[class_id], int(class_id), index)
        for index, (box, row) in enumerate(zip(boxes, scores, strict=True))
        for class_id in (range(len(row)) if multi_label else [np.argmax(row)])
        if float(row[class_id]) > score_threshold
    ]


def top_classes(scores: Floats, top_k: int) -> npt.NDArray[np.int64]:
    """Class ids by falling score; equal scores by rising class id."""
    order = sorted(range(len(scores)), key=lambda c: (-scores[c], c))
    return np.array(order[:top_k], dtype=np.int64)


def classes_over(scores: Floats, score_threshold: float, top_k: int) -> npt.NDArray[np.int64]:
    """The top classes whose scores are greater than the threshold."""
    ranked = top_classes(scores, len(scores))
    return ranked[[float(scores[c]) > score_threshold for c in ranked]][:top_k]
