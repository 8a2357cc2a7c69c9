"""Whether a network's head has the shape of the family that it is said to be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from endcap.evaluation.errors import EvaluationError
from endcap.evaluation.reference_settings import HeadName, ReferenceSettings

_EXPECTED = {
    HeadName.yolov8: "4 + C, A",
    HeadName.yolov8_seg: "4 + C + M, A",
    HeadName.yolov8_pose: "4 + C + 3 P, A",
    HeadName.yolov5: "A, 5 + C",
    HeadName.end2end: "K, 6",
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
    if settings.head is HeadName.end2end:
        _check(len(shape) == 2 and shape[1] == 6, shape, settings)
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
