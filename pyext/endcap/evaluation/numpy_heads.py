"""From a network's raw head to candidates in NumPy, for the reference."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from endcap.errors import InvalidArgumentError
from endcap.evaluation.arrays import Floats, Integers
from endcap.evaluation.errors import EvaluationError
from endcap.evaluation.reference_settings import HeadName, ReferenceSettings


def read_head(
    head: NDArray[np.float32], settings: ReferenceSettings
) -> tuple[Floats, Floats, Integers]:
    """Returns boxes xyxy [N, 4] in pixels of the tensor, scores [N], class ids [N], best first.

    head: [4 + C, A] or [A, 5 + C], without the batch dimension; boxes as centre and size.

    Raises InvalidArgumentError for a NaN, and for a candidate whose box or score is infinite.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # told in a sentence
        boxes, scores = _boxes_and_scores(head, settings)
    if np.isnan(head).any() or np.isnan(scores).any():  # infinity times 0 is NaN as well
        raise InvalidArgumentError("the network's head has a value for this image that is NaN")
    if settings.multi_label:
        anchors, class_ids = np.nonzero(scores > settings.score_threshold)
    else:
        best = scores.argmax(axis=1)
        anchors = np.flatnonzero(scores[np.arange(len(best)), best] > settings.score_threshold)
        class_ids = best[anchors]
    kept = scores[anchors, class_ids]
    order = np.lexsort((class_ids, anchors, -kept))[: settings.max_candidates]
    centre, half = boxes[anchors[order], :2], boxes[anchors[order], 2:] / 2
    with np.errstate(over="ignore", invalid="ignore"):
        corners = np.concatenate([centre - half, centre + half], axis=1)
    if not (np.isfinite(corners).all() and np.isfinite(kept[order]).all()):
        raise InvalidArgumentError(
            "the network's head has a candidate for this image whose box or score is not finite"
        )
    return corners.astype(np.float64), kept[order], class_ids[order].astype(np.int64)


def _boxes_and_scores(
    head: NDArray[np.float32], settings: ReferenceSettings
) -> tuple[NDArray[np.float32], Floats]:
    """Boxes cxcywh [A, 4], and scores [A, C] in float64 for an exact threshold."""
    if settings.head is HeadName.yolov8:
        return head[:4].T, head[4:].T.astype(np.float64)
    return head[:, :4], (head[:, 4:5] * head[:, 5:]).astype(np.float64)


def count_classes(head: NDArray[np.float32], settings: ReferenceSettings) -> int:
    """Returns the classes of a head; EvaluationError when its shape is not the family's."""
    rows, columns = head.shape
    if settings.head is HeadName.yolov8:
        classes, anchors, expected = rows - 4, columns, "4 + C, A"
    else:
        classes, anchors, expected = columns - 5, rows, "A, 5 + C"
    wanted = settings.num_classes
    # Where C is not known: anchors number in the thousands, classes rarely in the hundreds, so more
    # classes than anchors are a head the other way round.
    if classes < 1 or (classes != wanted if wanted is not None else classes > anchors):
        raise EvaluationError(
            f"the network's head has the shape {list(head.shape)}, and {settings.head.value} has "
            f"[{expected}]"
            + (f" with C = {wanted}" if wanted is not None else "; name another family with --head")
        )
    return classes
