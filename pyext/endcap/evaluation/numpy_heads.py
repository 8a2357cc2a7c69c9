"""From a detector's raw head to candidates in NumPy, for the reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.errors import InvalidArgumentError
from endcap.evaluation.arrays import Floats, Integers
from endcap.evaluation.numpy_scores import activated
from endcap.evaluation.reference_settings import (
    Background,
    BoxFormat,
    HeadName,
    ReferenceSettings,
)

Head = NDArray[np.float32]
Candidates = tuple[Floats, Floats, Integers]

_YOLOV8 = (HeadName.yolov8, HeadName.yolov8_seg, HeadName.yolov8_pose)
# Whose boxes overlap: what the others give was suppressed in the network, or never overlapped.
SUPPRESSED_HERE = (*_YOLOV8, HeadName.yolov5)
# Which have a row for each detection, not a score for each class.
_LISTED = (HeadName.end2end, HeadName.efficient_nms)


def read_head(head: Head | Sequence[NDArray[Any]], settings: ReferenceSettings) -> Candidates:
    """Return boxes xyxy [N, 4] in pixels of the tensor, scores [N], class ids [N], best first.

    Args:
        head: Without the batch dimension, [4 + C, A] of yolov8 (with more rows below of yolov8_seg
            and yolov8_pose), [A, 5 + C] of yolov5, [K, 6] of end2end or [Q, 4 + C] of joined
            rtdetr; else of rtdetr logits [Q, C] and boxes [Q, 4], of efficient_nms num_detections
            [1], boxes [K, 4], scores [K] and classes [K].

    Raises:
        InvalidArgumentError: For a NaN, a candidate whose box or score is infinite, and a row whose
            class there is not.
    """
    tensors = [head] if isinstance(head, np.ndarray) else list(head)
    if settings.head is HeadName.efficient_nms:
        tensors = _rows_that_count(*tensors)
    _refuse_nan(*tensors)
    with np.errstate(over="ignore", invalid="ignore"):  # rejected below
        if settings.head not in _LISTED:
            boxes, scores = _boxes_and_scores(tensors, settings)
            _refuse_nan(scores)  # infinity times 0
            rows, class_ids = _classes_over(scores, settings)
            kept = scores[rows, class_ids]
        else:
            boxes, scores, classes = _listed(tensors, settings)
            rows = np.flatnonzero(scores > settings.score_threshold)
            class_ids, kept = _checked(classes[rows], settings), scores[rows]
        order = np.lexsort((class_ids, rows, -kept))[: settings.max_candidates]
        corners = _in_pixels(boxes[rows[order]], settings)
    if not (np.isfinite(corners).all() and np.isfinite(kept[order]).all()):
        raise InvalidArgumentError(
            "the network's head has a candidate for this image whose box or score is not finite"
        )
    return corners.astype(np.float64), kept[order], class_ids[order].astype(np.int64)


def _boxes_and_scores(
    tensors: Sequence[NDArray[Any]], settings: ReferenceSettings
) -> tuple[Head, Floats]:
    """Boxes [A, 4], and scores [A, C] in float64 for an exact threshold."""
    head = tensors[0]
    if settings.head in _YOLOV8:
        end = None if settings.num_classes is None else 4 + settings.num_classes
        return head[:4].T, activated(head[4:end].T, settings).astype(np.float64)
    if settings.head is HeadName.rtdetr:
        logits, boxes = (head[:, 4:], head[:, :4]) if settings.joined else tensors
        return boxes, _without_background(activated(logits, settings), settings)
    numbers = activated(head[:, 4:], settings)
    return head[:, :4], (numbers[:, :1] * numbers[:, 1:]).astype(np.float64)


def _without_background(scores: Head, settings: ReferenceSettings) -> Floats:
    if settings.has_background:
        scores = scores[:, 1:] if settings.background is Background.first else scores[:, :-1]
    return scores.astype(np.float64)


def _classes_over(scores: Floats, settings: ReferenceSettings) -> tuple[Integers, Integers]:
    """Anchors and classes of the candidates."""
    if settings.multi_label:
        anchors, class_ids = np.nonzero(scores > settings.score_threshold)
        return anchors, class_ids
    best = scores.argmax(axis=1)
    anchors = np.flatnonzero(scores[np.arange(len(best)), best] > settings.score_threshold)
    return anchors, best[anchors]


def _listed(
    tensors: Sequence[NDArray[Any]], settings: ReferenceSettings
) -> tuple[Head, Floats, NDArray[Any]]:
    """Boxes [K, 4], scores [K] and classes [K] of a network that has suppressed."""
    if settings.head is HeadName.efficient_nms:
        boxes, scores, classes = tensors
        return boxes, scores.astype(np.float64), classes
    (head,) = tensors
    return head[:, :4], activated(head[:, 4], settings).astype(np.float64), head[:, 5]


def _rows_that_count(count: NDArray[Any], *tensors: NDArray[Any]) -> list[NDArray[Any]]:
    rows = int(count.flat[0])
    held = min(len(tensor) for tensor in tensors)
    if not 0 <= rows <= held:
        raise InvalidArgumentError(
            f"the network's num_detections is {rows} for this image, and its outputs hold {held}"
        )
    return [tensor[:rows] for tensor in tensors]


def _checked(classes: NDArray[Any], settings: ReferenceSettings) -> Integers:
    limit = np.inf if settings.num_classes is None else settings.num_classes
    wrong = (classes < 0) | (classes >= limit) | (classes != np.floor(classes))
    if wrong.any():
        raise InvalidArgumentError(
            f"the network's head has class {classes[wrong][0]} for this image, and num_classes is "
            f"{settings.num_classes}"
        )
    return classes.astype(np.int64)


def _in_pixels(boxes: Head, settings: ReferenceSettings) -> Head:
    """Boxes [N, 4] of a head as corners in pixels of the tensor."""
    centred = settings.box_format is BoxFormat.cxcywh or (
        settings.box_format is BoxFormat.default and settings.head not in _LISTED
    )
    if centred:
        centre, half = boxes[:, :2], boxes[:, 2:] / 2
        boxes = np.concatenate([centre - half, centre + half], axis=1)
    if settings.box_side is None:
        return boxes
    return boxes * np.array(settings.box_side[::-1] * 2, np.float32)


def _refuse_nan(*tensors: NDArray[Any]) -> None:
    if any(np.isnan(tensor).any() for tensor in tensors):
        raise InvalidArgumentError("the network's head has a value for this image that is NaN")
