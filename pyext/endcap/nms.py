"""Non-maximum suppression of one image's boxes."""

from __future__ import annotations

from numbers import Real

import numpy as np
import numpy.typing as npt

from endcap import _core
from endcap._arrays import to_array
from endcap.errors import InvalidArgumentError


def nms(boxes: npt.ArrayLike, scores: npt.ArrayLike, iou_threshold: float) -> npt.NDArray[np.int64]:
    """Keep the best boxes and drop those that overlap a kept one.

    Exact greedy suppression: a box goes when its IoU with a kept box is greater than the
    threshold. Equal scores go to the lower index.

    Args:
        boxes: [N, 4] float32, x1, y1, x2, y2, any unit.
        scores: [N] float32.
        iou_threshold: 0 to 1.

    Returns:
        int64 [M], the indices of the kept boxes, best score first.

    Raises:
        InvalidArgumentError: shapes that do not fit, a threshold outside 0 to 1, a NaN score.
    """
    return _run(boxes, scores, None, iou_threshold)


def batched_nms(
    boxes: npt.ArrayLike,
    scores: npt.ArrayLike,
    class_ids: npt.ArrayLike,
    iou_threshold: float,
) -> npt.NDArray[np.int64]:
    """As nms, but boxes of different classes never suppress each other.

    Args:
        boxes: [N, 4] float32, x1, y1, x2, y2, any unit.
        scores: [N] float32.
        class_ids: [N] integers.
        iou_threshold: 0 to 1.

    Returns:
        int64 [M], the indices of the kept boxes over all classes, best score first.

    Raises:
        InvalidArgumentError: as nms.
    """
    return _run(boxes, scores, class_ids, iou_threshold)


def _run(
    boxes: npt.ArrayLike,
    scores: npt.ArrayLike,
    class_ids: npt.ArrayLike | None,
    iou_threshold: float,
) -> npt.NDArray[np.int64]:
    box_array = to_array(boxes, np.float32, "boxes")
    score_array = to_array(scores, np.float32, "scores")
    count = len(score_array) if score_array.ndim == 1 else -1
    if box_array.shape != (count, 4) and not (count == 0 and box_array.size == 0):
        raise InvalidArgumentError(
            f"boxes have shape {list(box_array.shape)} and scores {list(score_array.shape)}: "
            "give [N, 4] and [N]"
        )
    if not isinstance(iou_threshold, Real):
        raise InvalidArgumentError(f"iou_threshold is {iou_threshold!r}: give a number from 0 to 1")
    classes = np.empty(0, np.int32) if class_ids is None else _to_classes(class_ids, count)
    return _core.nms(box_array, score_array, classes, float(iou_threshold))


def _to_classes(class_ids: npt.ArrayLike, count: int) -> npt.NDArray[np.int32]:
    array = np.asarray(class_ids)
    if array.shape != (count,):
        raise InvalidArgumentError(
            f"class_ids have shape {list(array.shape)}: give [{count}], one for each score"
        )
    if array.dtype.kind not in "iu" and array.size > 0:
        raise InvalidArgumentError(f"class_ids are {array.dtype}: give integers")
    limits = np.iinfo(np.int32)
    if array.size > 0 and (array.min() < limits.min or array.max() > limits.max):
        # Only equality matters, so ids that are too wide become their rank.
        array = np.unique(array, return_inverse=True)[1]
    return np.ascontiguousarray(array, np.int32)
