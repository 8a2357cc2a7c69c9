"""Heads of the reference, read in NumPy: boxes, scores and classes, then suppression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.errors import InvalidArgumentError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Head = NDArray[np.float32]
Candidates = tuple[Floats, Floats, Integers]

_YOLOV8 = ("yolov8", "yolov8_seg", "yolov8_pose")
_END2END = ("end2end", "end2end_seg", "end2end_pose")
# The heads that the reference reads; of those with more than boxes the boxes.
HEADS = (*_YOLOV8, "yolov5", *_END2END, "rtdetr", "efficient_nms", "classification")
# Those whose boxes overlap: the others were suppressed in the network, or never overlapped.
SUPPRESSED_HERE = (*_YOLOV8, "yolov5")
# Those with a row for each detection, not a score for each class.
_LISTED = (*_END2END, "efficient_nms")


def suppress(
    boxes_xyxy: Floats, class_ids: Integers, *, iou_threshold: float, max_detections: int
) -> Integers:
    """Return the positions of the boxes that stay, in order, at most `max_detections`.

    A box is suppressed when its IoU with a better one that stays, of the same class, is greater
    than the threshold.

    Args:
        boxes_xyxy: [N, 4], best first.
        class_ids: [N].
        iou_threshold: 0 to 1.
        max_detections: The most boxes that stay.
    """
    rows_of = {class_id: np.flatnonzero(class_ids == class_id) for class_id in np.unique(class_ids)}
    boxes_of = {class_id: boxes_xyxy[rows] for class_id, rows in rows_of.items()}
    stays = np.ones(len(boxes_xyxy), bool)
    kept: list[int] = []
    for row, class_id in enumerate(class_ids.tolist()):
        if len(kept) == max_detections:
            break
        if stays[row]:
            kept.append(row)
            overlapping = box_iou(boxes_xyxy[row], boxes_of[class_id]) > iou_threshold
            stays[rows_of[class_id][overlapping]] = False  # better ones are decided already
    return np.array(kept, np.int64)


def box_iou(box: Floats, others: Floats) -> Floats:
    """Return the IoU [N] of a box [4] with others [N, 4], all xyxy; 0 where both are empty."""
    width = np.minimum(box[2], others[:, 2]) - np.maximum(box[0], others[:, 0])
    height = np.minimum(box[3], others[:, 3]) - np.maximum(box[1], others[:, 1])
    shared = np.maximum(width, 0.0) * np.maximum(height, 0.0)
    areas = (others[:, 2] - others[:, 0]) * (others[:, 3] - others[:, 1])
    union = (box[2] - box[0]) * (box[3] - box[1]) + areas - shared
    iou: Floats = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    return iou


def best_classes(logits: Head, parameters: Mapping[str, str]) -> tuple[Floats, Integers]:
    """Return scores [top_k] and class ids [top_k] of logits [C], best first.

    With multi_label only those greater than score_threshold, which may be fewer. Of equal scores
    the lower class is first.

    Raises:
        InvalidArgumentError: For a NaN, and for a score that is not finite.
    """
    with np.errstate(invalid="ignore"):  # rejected below
        scores = _activate(logits, parameters)
    if np.isnan(logits).any() or not np.isfinite(scores).all():
        raise InvalidArgumentError(
            "the network's logits give this image a score that is not finite"
        )
    order = np.argsort(-scores, kind="stable")[: int(parameters["top_k"])]
    if parameters["multi_label"] == "true":
        order = order[scores[order] > float(parameters["score_threshold"])]
    return scores[order].astype(np.float64), order.astype(np.int64)


def read_head(tensors: Sequence[NDArray[Any]], parameters: Mapping[str, str]) -> Candidates:
    """Return boxes xyxy [N, 4] in pixels of the tensor, scores [N], class ids [N], best first.

    Args:
        tensors: Of one image, in the order of postprocess' inputs, without prototypes of masks.
        parameters: All of postprocess.

    Raises:
        InvalidArgumentError: For a candidate whose box or score is not finite.
    """
    threshold = float(parameters["score_threshold"])
    with np.errstate(over="ignore", invalid="ignore"):  # rejected below
        if parameters["head"] not in _LISTED:
            boxes, scores = _boxes_and_scores(tensors, parameters)
            if parameters["multi_label"] == "true":
                rows, class_ids = np.nonzero(scores > threshold)
            else:
                best = scores.argmax(axis=1)
                rows = np.flatnonzero(scores[np.arange(len(best)), best] > threshold)
                class_ids = best[rows]
            kept = scores[rows, class_ids]
        else:
            boxes, scores, classes = _read_listed(tensors, parameters)
            rows = np.flatnonzero(scores > threshold)
            class_ids, kept = classes[rows], scores[rows]
        order = np.lexsort((class_ids, rows, -kept))[: int(parameters["max_candidates"])]
        corners = _in_pixels(boxes[rows[order]], parameters)
    if not (np.isfinite(corners).all() and np.isfinite(kept[order]).all()):
        raise InvalidArgumentError(
            "the network's head has a candidate for this image whose box or score is not finite"
        )
    return corners.astype(np.float64), kept[order], class_ids[order].astype(np.int64)


def _activate(raw: Head, parameters: Mapping[str, str]) -> Head:
    """Return the scores of raw numbers, the last axis being the classes."""
    activation = parameters["activation"]
    if activation == "default":
        is_split = parameters["head"] == "rtdetr" and parameters["joined"] == "false"
        is_classifier = parameters["head"] == "classification"
        activation = "sigmoid" if is_split else "softmax" if is_classifier else "none"
    if activation == "none":
        return raw
    exact = raw.astype(np.float64)
    if activation == "sigmoid":
        with np.errstate(over="ignore"):  # 1 / infinity is the 0 that is meant
            return (1.0 / (1.0 + np.exp(-exact))).astype(np.float32)
    powers = np.exp(exact - exact.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True), np.float32)


def _boxes_and_scores(
    tensors: Sequence[NDArray[Any]], parameters: Mapping[str, str]
) -> tuple[Head, Floats]:
    """Return boxes [A, 4], and scores [A, C] in float64 for an exact threshold."""
    head = tensors[0]
    if parameters["head"] in _YOLOV8:
        scores = _activate(head[4 : 4 + int(parameters["num_classes"])].T, parameters)
        return head[:4].T, scores.astype(np.float64)
    if parameters["head"] == "rtdetr":
        is_joined = parameters["joined"] == "true"
        logits, boxes = (head[:, 4:], head[:, :4]) if is_joined else tensors
        scores = _activate(logits, parameters)
        classes = {"first": slice(1, None), "last": slice(-1)}.get(parameters["background"])
        return boxes, scores[:, classes or slice(None)].astype(np.float64)
    numbers = _activate(head[:, 4:], parameters)
    return head[:, :4], (numbers[:, :1] * numbers[:, 1:]).astype(np.float64)


def _read_listed(
    tensors: Sequence[NDArray[Any]], parameters: Mapping[str, str]
) -> tuple[Head, Floats, NDArray[Any]]:
    """Return boxes [K, 4], scores [K] and classes [K] of a network that has suppressed."""
    if parameters["head"] == "efficient_nms":
        count, boxes, scores, classes = tensors
        boxes, scores, classes = (each[: int(count.flat[0])] for each in (boxes, scores, classes))
        return boxes, scores.astype(np.float64), classes
    head = tensors[0]
    return head[:, :4], _activate(head[:, 4], parameters).astype(np.float64), head[:, 5]


def _in_pixels(boxes: Head, parameters: Mapping[str, str]) -> Head:
    """Return boxes [N, 4] of a head as corners in pixels of the tensor."""
    head, unit = parameters["head"], parameters["box_unit"]
    form = parameters["box_format"]
    if form == "cxcywh" or (form == "default" and head not in _LISTED):
        centre, half = boxes[:, :2], boxes[:, 2:] / 2
        boxes = np.concatenate([centre - half, centre + half], axis=1)
    if unit == "normalized" or (unit == "default" and head == "rtdetr"):
        height, width = map(int, parameters["input_size"].split(","))
        return boxes * np.array([width, height] * 2, np.float32)
    return boxes
