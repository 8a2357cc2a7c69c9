"""Non-maximum suppression of one image's rotated boxes."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from endcap import _core
from endcap._arrays import empty, to_array
from endcap._cuda_input import device_of
from endcap._device import cuda_target, refuse_stream
from endcap._nms_arguments import Array, CudaBoxes, HostBoxes, device_to_use, require_threshold
from endcap.cuda_array import CudaArray
from endcap.errors import InvalidArgumentError

Method: TypeAlias = Literal["polygon", "probiou", "probiou_fast"]


def nms_rotated(
    boxes: Array,
    scores: Array,
    iou_threshold: float,
    *,
    class_ids: Array | None = None,
    method: Method = "polygon",
    max_detections: int | None = None,
    device: str | None = None,
    stream: object = None,
) -> Any:
    """Keep the best rotated boxes and drop those that overlap a better one.

    Equal scores go to the lower index. A box goes when an IoU is greater than the threshold; which,
    the method says:

    * ``polygon``: the exact IoU of the rectangles with a kept box.
    * ``probiou``: the probabilistic IoU (arXiv 2106.06072, ultralytics' ``batch_probiou``) with a
      kept box.
    * ``probiou_fast``: the same with any better box of its class, also one that went itself, as
      ultralytics suppresses rotated boxes.

    Args:
        boxes: [N, 5] float32: centre x, centre y, width, height in pixels, and the angle in
            radians, any value, from the x axis towards the y axis to the side that the width
            measures. A box without a positive width and height neither drops a box nor is dropped
            by ``polygon``; of such boxes the other methods make what ultralytics does.
        scores: [N] float32.
        iou_threshold: 0 to 1.
        class_ids: [N] integers; boxes of different classes do not drop each other. By default all
            boxes are of one class.
        method: ``polygon``, ``probiou`` or ``probiou_fast``.
        max_detections: stop after so many kept boxes; by default there is no limit.
        device: as for nms.
        stream: as for nms.

    Returns:
        int64 [M], the indices of the kept boxes, best score first: a NumPy array, or on a GPU a
        CudaArray.

    Raises:
        InvalidArgumentError: shapes that do not fit, a threshold outside 0 to 1, a NaN score, an
            unknown method.
        CudaError: the device cannot be used, or a CUDA call failed.
        OutOfMemoryError: the host's, or the device's.
    """
    threshold = require_threshold(iou_threshold)
    limit = _to_limit(max_detections)
    device_id = device_to_use(boxes, device)
    if device_id is None:
        refuse_stream(stream)
        host = HostBoxes.take(boxes, scores, class_ids, 5)
        return _core.nms_rotated(
            host.boxes, host.scores, host.class_ids, threshold, str(method), limit
        )
    target = cuda_target(device_id, stream)
    gpu = CudaBoxes.take(boxes, scores, class_ids, 5, target)
    return CudaArray(
        _core.nms_rotated_cuda(
            gpu.boxes,
            gpu.scores,
            gpu.class_ids,
            threshold,
            str(method),
            limit,
            target.device_id,
            target.stream,
            target.stream_owner,
        )
    )


def rotated_iou(
    boxes_a: Array, boxes_b: Array, method: Method = "polygon"
) -> npt.NDArray[np.float32]:
    """Return the IoU of every box with every other, as nms_rotated computes it.

    Args:
        boxes_a: [N, 5] float32, as for nms_rotated.
        boxes_b: [M, 5] float32.
        method: as for nms_rotated; ``probiou`` and ``probiou_fast`` are the same here.

    Returns:
        float32 [N, M]. By ``polygon``, 0 where one of two boxes lacks a positive width or height,
        and NaN where both do or a number is not finite.

    Raises:
        InvalidArgumentError: shapes that do not fit, an unknown method, an array on a GPU.
        OutOfMemoryError: there is no room for the result.
    """
    first = _to_boxes(boxes_a, "boxes_a")
    second = _to_boxes(boxes_b, "boxes_b")
    iou = empty((len(first), len(second)), np.dtype(np.float32))
    _core.rotated_iou(first, second, str(method), iou)
    return iou


def _to_boxes(boxes: Array, name: str) -> npt.NDArray[np.float32]:
    device_id = device_of(boxes)
    if device_id is not None:
        raise InvalidArgumentError(
            f"{name} lies on cuda:{device_id}, and these IoUs are the CPU's: copy it to the host"
        )
    array = to_array(boxes, np.float32, name)
    if array.shape == (0,):  # what an empty list becomes
        array = array.reshape(0, 5)
    if array.ndim != 2 or array.shape[1] != 5:
        raise InvalidArgumentError(
            f"{name} have shape {list(array.shape)}: give [N, 5], centre x, centre y, width, "
            "height and angle"
        )
    return array


def _to_limit(max_detections: int | None) -> int:
    if max_detections is None:
        return -1
    if isinstance(max_detections, bool) or not isinstance(max_detections, (int, np.integer)):
        raise InvalidArgumentError(
            f"max_detections is {max_detections!r}: give a whole number from 0 on, or None"
        )
    if max_detections < 0:
        raise InvalidArgumentError(
            f"max_detections is {max_detections}: give a whole number from 0 on, or None"
        )
    return min(int(max_detections), np.iinfo(np.int64).max)
