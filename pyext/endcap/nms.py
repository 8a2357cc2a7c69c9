"""Non-maximum suppression of one image's boxes."""

from __future__ import annotations

from numbers import Real
from typing import Any, TypeAlias

import numpy as np

from endcap import _core
from endcap._arrays import to_array, to_class_ids
from endcap._cuda_input import borrow, device_of, refuse_cuda, upload
from endcap._device import Target, cuda_device, cuda_target, refuse_stream
from endcap.cuda_array import CudaArray
from endcap.errors import InvalidArgumentError

# Whatever NumPy makes an array of, or an array on a GPU.
Array: TypeAlias = Any


def nms(
    boxes: Array,
    scores: Array,
    iou_threshold: float,
    *,
    device: str | None = None,
    stream: object = None,
) -> Any:
    """Keep the best boxes and drop those that overlap a kept one.

    Exact greedy suppression: a box goes when its IoU with a kept box is greater than the
    threshold. Equal scores go to the lower index.

    Args:
        boxes: [N, 4] float32, x1, y1, x2, y2, any unit.
        scores: [N] float32.
        iou_threshold: 0 to 1.
        device: ``cpu``, ``cuda`` or ``cuda:N``; by default where ``boxes`` lies. From host memory
            the arrays are copied to a GPU, not the other way.
        stream: a CUDA stream, as for Preprocessor; the call waits for it, to learn M.

    Returns:
        int64 [M], the indices of the kept boxes, best score first: a NumPy array, or on a GPU a
        CudaArray.

    Raises:
        InvalidArgumentError: shapes that do not fit, a threshold outside 0 to 1, a NaN score.
        CudaError: the device cannot be used, or a CUDA call failed.
        OutOfMemoryError: the host's, or the device's.
    """
    return _run(boxes, scores, None, iou_threshold, device, stream)


def batched_nms(
    boxes: Array,
    scores: Array,
    class_ids: Array,
    iou_threshold: float,
    *,
    device: str | None = None,
    stream: object = None,
) -> Any:
    """As nms, but boxes of different classes never suppress each other.

    Args:
        boxes: [N, 4] float32, x1, y1, x2, y2, any unit.
        scores: [N] float32.
        class_ids: [N] integers. On a GPU int32 is read in place; others go by the host.
        iou_threshold: 0 to 1.
        device: as for nms.
        stream: as for nms.

    Returns:
        int64 [M], the indices of the kept boxes over all classes, best score first, as nms.

    Raises:
        InvalidArgumentError, CudaError, OutOfMemoryError: as nms.
    """
    return _run(boxes, scores, class_ids, iou_threshold, device, stream)


def _run(
    boxes: Array,
    scores: Array,
    class_ids: Array | None,
    iou_threshold: float,
    device: str | None,
    stream: object,
) -> Any:
    if not isinstance(iou_threshold, Real):
        raise InvalidArgumentError(f"iou_threshold is {iou_threshold!r}: give a number from 0 to 1")
    device_id = device_of(boxes) if device is None else cuda_device(device)
    if device_id is not None:
        target = cuda_target(device_id, stream)
        return _run_cuda(boxes, scores, class_ids, float(iou_threshold), target)
    refuse_stream(stream)
    box_array = to_array(boxes, np.float32, "boxes")
    score_array = to_array(scores, np.float32, "scores")
    count = _count(box_array.shape, score_array.shape)
    if class_ids is None:
        classes = np.empty(0, np.int32)
    else:
        refuse_cuda(class_ids, "class_ids")
        classes = to_class_ids(class_ids, count)
    return _core.nms(box_array, score_array, classes, float(iou_threshold))


def _run_cuda(
    boxes: Array, scores: Array, class_ids: Array | None, iou_threshold: float, target: Target
) -> CudaArray:
    _core.require_cuda(target.device_id)
    box_tensor = _to_floats(boxes, target, "boxes")
    score_tensor = _to_floats(scores, target, "scores")
    count = _count(tuple(box_tensor.shape), tuple(score_tensor.shape))
    classes = None if class_ids is None else _to_cuda_classes(class_ids, count, target)
    return CudaArray(
        _core.nms_cuda(
            box_tensor,
            score_tensor,
            classes,
            iou_threshold,
            target.device_id,
            target.stream,
            target.stream_owner,
        )
    )


def _count(boxes: tuple[int, ...], scores: tuple[int, ...]) -> int:
    count = scores[0] if len(scores) == 1 else -1
    if boxes != (count, 4) and not (count == 0 and 0 in boxes):
        raise InvalidArgumentError(
            f"boxes have shape {list(boxes)} and scores {list(scores)}: give [N, 4] and [N]"
        )
    return count


def _to_floats(values: Array, target: Target, name: str) -> _core.CudaTensor:
    if device_of(values) is None:
        return upload(to_array(values, np.float32, name), target)
    tensor = borrow(values, target, name)
    if tensor.type_string != "<f4" or not tensor.contiguous:
        raise InvalidArgumentError(
            f"{name} are {np.dtype(tensor.type_string)}: on a GPU give C-contiguous float32"
        )
    return tensor


def _to_cuda_classes(class_ids: Array, count: int, target: Target) -> _core.CudaTensor:
    if device_of(class_ids) is None:
        return upload(to_class_ids(class_ids, count), target)
    tensor = borrow(class_ids, target, "class_ids")
    if tensor.type_string == "<i4" and tensor.shape == [count] and tensor.contiguous:
        return tensor
    return upload(to_class_ids(tensor.to_numpy(), count), target)
