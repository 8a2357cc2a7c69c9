"""Heads of the reference, read in NumPy: boxes, scores and classes, then suppression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.errors import InvalidArgumentError
from endcap.evaluation.errors import EvaluationError
from endcap.evaluation.reference_settings import (
    Activation,
    Background,
    BoxFormat,
    HeadName,
    ReferenceSettings,
)

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


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


_MOST_CLASSES = 5  # where nothing else is said


def activated(raw: NDArray[np.float32], settings: ReferenceSettings) -> NDArray[np.float32]:
    """Return the scores of raw numbers, the last axis being the classes."""
    activation = settings.activation
    if activation is Activation.default:
        activation = _default_activation(settings)
    if activation is Activation.none:
        return raw
    exact = raw.astype(np.float64)
    with np.errstate(over="ignore"):  # 1 / infinity is the 0 that is meant
        if activation is Activation.sigmoid:
            return (1.0 / (1.0 + np.exp(-exact))).astype(np.float32)
    powers = np.exp(exact - exact.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True), np.float32)


def _default_activation(settings: ReferenceSettings) -> Activation:
    if settings.head is HeadName.rtdetr and not settings.joined:
        return Activation.sigmoid
    is_classifier = settings.head is HeadName.classification
    return Activation.softmax if is_classifier else Activation.none


def best_classes(
    logits: NDArray[np.float32], settings: ReferenceSettings
) -> tuple[Floats, Integers]:
    """Return scores [top_k] and class ids [top_k] of logits [C], best first.

    With multi_label only those greater than score_threshold, which may be fewer. Of equal scores
    the lower class is first. Raises InvalidArgumentError for a NaN, and for a score that is not
    finite.
    """
    with np.errstate(invalid="ignore"):  # rejected below
        scores = activated(logits, settings)
    if np.isnan(logits).any() or not np.isfinite(scores).all():
        raise InvalidArgumentError(
            "the network's logits give this image a score that is not finite"
        )
    top_k = min(_MOST_CLASSES, len(scores)) if settings.top_k is None else settings.top_k
    order = np.argsort(-scores, kind="stable")[:top_k]
    if settings.multi_label:
        order = order[scores[order] > settings.score_threshold]
    return scores[order].astype(np.float64), order.astype(np.int64)


_END2END = (HeadName.end2end, HeadName.end2end_seg, HeadName.end2end_pose)
_EXPECTED = {
    HeadName.yolov8: "4 + C, A",
    HeadName.yolov8_seg: "4 + C + M, A",
    HeadName.yolov8_pose: "4 + C + 3 P, A",
    HeadName.yolov5: "A, 5 + C",
    HeadName.end2end: "K, 6",
    HeadName.end2end_seg: "K, 6 + M",
    HeadName.end2end_pose: "K, 6 + 3 P",
    HeadName.rtdetr: "Q, 4 + C",
    HeadName.classification: "C",
}


def count_classes(heads: Sequence[NDArray[Any]], settings: ReferenceSettings) -> int | None:
    """Return the classes of the heads of one image, None where their shape does not tell.

    Raises:
        EvaluationError: The shape is not the family's.
    """
    shapes = [each.shape for each in heads]
    if settings.head is HeadName.efficient_nms:
        _check_rows(shapes)
        return settings.num_classes
    if settings.head is HeadName.rtdetr:
        return _count_of_queries(shapes, settings)
    (shape,) = shapes
    if settings.head in (HeadName.yolov8_seg, HeadName.yolov8_pose):
        return _count_above_extras(shape, settings)
    if settings.head in _END2END:
        has_extras = settings.head is not HeadName.end2end
        fits = len(shape) == 2 and (shape[1] > 6 if has_extras else shape[1] == 6)
        _check(fits, shape, settings)
        return settings.num_classes
    if settings.head is HeadName.classification:
        _check(len(shape) == 1 and settings.num_classes in (None, *shape), shape, settings)
        return int(shape[0])
    _check(len(shape) == 2, shape, settings)
    rows, columns = shape
    classes, anchors = (
        (rows - 4, columns) if settings.head is HeadName.yolov8 else (columns - 5, rows)
    )
    wanted = settings.num_classes
    # Where C is not known: anchors number in the thousands, classes rarely in the hundreds, so more
    # classes than anchors are a head the other way round.
    fits = classes == wanted if wanted is not None else classes <= anchors
    _check(classes >= 1 and fits, shape, settings)
    return int(classes)


def _count_of_queries(shapes: Sequence[tuple[int, ...]], settings: ReferenceSettings) -> int:
    """Of rtdetr: a background is in the head, and no class."""
    no_class = int(settings.has_background)
    if settings.joined:
        (shape,) = shapes
        _check(len(shape) == 2, shape, settings)
        classes = shape[1] - 4 - no_class
        _check(classes >= 1 and settings.num_classes in (None, classes), shape, settings)
        return classes
    logits, boxes = shapes
    wanted = settings.num_classes
    columns = logits[-1] - no_class
    if len(logits) != 2 or boxes != (logits[0], 4) or wanted not in (None, columns) or columns < 1:
        raise EvaluationError(
            f"the network's logits and boxes have the shapes {list(logits)} and {list(boxes)}, and "
            "rtdetr has [Q, C] and [Q, 4]" + (f" with C = {wanted}" if wanted is not None else "")
        )
    return columns


def _count_above_extras(shape: tuple[int, ...], settings: ReferenceSettings) -> int:
    """Of yolov8_seg and yolov8_pose: which rows are scores, the shape does not tell."""
    if settings.num_classes is None:
        raise EvaluationError(
            f"how many classes a head {settings.head.value} has, its shape does not tell; give the "
            "repository that serves it"
        )
    _check(len(shape) == 2 and shape[0] > 4 + settings.num_classes, shape, settings)
    return settings.num_classes


def _check(fits: bool, shape: tuple[int, ...], settings: ReferenceSettings) -> None:
    if not fits:
        wanted = settings.num_classes
        raise EvaluationError(
            f"the network's head has the shape {list(shape)}, and {settings.head.value} has "
            f"[{_EXPECTED[settings.head]}]"
            + (f" with C = {wanted}" if wanted is not None else "; name another family with --head")
        )


def _check_rows(shapes: Sequence[tuple[int, ...]]) -> None:
    count, boxes, scores, classes = shapes
    if count not in ((1,), ()) or scores != classes or len(scores) != 1 or boxes != (*scores, 4):
        raise EvaluationError(
            "the network's num_detections, boxes, scores and classes have the shapes "
            f"{', '.join(str(list(each)) for each in shapes)}, and efficient_nms has [1], [K, 4], "
            "[K] and [K]"
        )


Head = NDArray[np.float32]
Candidates = tuple[Floats, Floats, Integers]

_YOLOV8 = (HeadName.yolov8, HeadName.yolov8_seg, HeadName.yolov8_pose)
# Whose boxes overlap: what the others give was suppressed in the network, or never overlapped.
SUPPRESSED_HERE = (*_YOLOV8, HeadName.yolov5)
# Which have a row for each detection, not a score for each class.
_LISTED = (*_END2END, HeadName.efficient_nms)


def read_head(head: Head | Sequence[NDArray[Any]], settings: ReferenceSettings) -> Candidates:
    """Return boxes xyxy [N, 4] in pixels of the tensor, scores [N], class ids [N], best first.

    Args:
        head: Without the batch dimension, [4 + C, A] of yolov8 (with more rows below of yolov8_seg
            and yolov8_pose), [A, 5 + C] of yolov5, [K, 6] of end2end (with more columns behind of
            end2end_seg and end2end_pose) or [Q, 4 + C] of joined rtdetr; else of rtdetr logits
            [Q, C] and boxes [Q, 4], of efficient_nms num_detections [1], boxes [K, 4], scores [K]
            and classes [K].
        settings: The head's family, thresholds and layout.

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
