"""Non-maximum suppression of one image's boxes, axis-aligned or rotated."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from numbers import Real
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

import endcap._core as _core
from endcap._arrays import empty, find_device, require_host, to_array
from endcap.cuda_array import CudaArray, Target, choose_target, cuda_device
from endcap.errors import InvalidArgumentError

# Whatever NumPy makes an array of, or an array on a GPU.
Array: TypeAlias = Any
Method: TypeAlias = Literal["polygon", "probiou", "probiou_fast"]

_COLUMNS = {4: "x1, y1, x2, y2", 5: "centre x, centre y, width, height and angle"}


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
    threshold. Equal scores go to the lower index. IoU is computed in float32.

    Args:
        boxes: [N, 4] numbers, x1, y1, x2, y2, any unit; other types than float32 are rounded to it.
        scores: [N] numbers of any real type, in which they are ordered.
        iou_threshold: a number from 0 on, mostly to 1; from 1 on all boxes are kept.
        device: ``cpu``, ``cuda`` or ``cuda:N``; by default where ``boxes`` lies. From host memory
            the arrays are copied to a GPU, not the other way. On a GPU arrays are C-contiguous;
            float32 is read in place, other types go by the host.
        stream: a CUDA stream, as for Preprocessor; the call waits for it, to learn M.

    Returns:
        int64 [M], the indices of the kept boxes, best score first: a NumPy array, or on a GPU a
        CudaArray.

    Raises:
        InvalidArgumentError: shapes that do not fit, a threshold or a score that is NaN.
        CudaError: the device cannot be used, or a CUDA call failed.
        OutOfMemoryError: the host's, or the device's.
    """
    return batched_nms(boxes, scores, None, iou_threshold, device=device, stream=stream)


def batched_nms(
    boxes: Array,
    scores: Array,
    class_ids: Array | None,
    iou_threshold: float,
    *,
    device: str | None = None,
    stream: object = None,
) -> Any:
    """As nms, but boxes of different classes never suppress each other.

    Args:
        boxes: as for nms.
        scores: as for nms.
        class_ids: [N] numbers, mostly integers; boxes with equal ones are of one class. On a GPU
            int32 is read in place; others go by the host. None: all boxes are of one class.
        iou_threshold: as for nms.
        device: as for nms.
        stream: as for nms.

    Returns:
        int64 [M], the indices of the kept boxes over all classes, best score first, as nms.

    Raises:
        InvalidArgumentError, CudaError, OutOfMemoryError: as nms.
    """
    threshold = min(_require_threshold(iou_threshold), 1.0)
    arguments = (boxes, scores, class_ids, 4, device, stream)
    return _run(_core.nms, _core.nms_cuda, *arguments, threshold)


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
        scores: as for nms.
        iou_threshold: 0 to 1.
        class_ids: as for batched_nms. By default all boxes are of one class.
        method: ``polygon``, ``probiou`` or ``probiou_fast``.
        max_detections: stop after that many kept boxes; unlimited by default.
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
    threshold = _require_threshold(iou_threshold)
    limit = _to_limit(max_detections)
    arguments = (boxes, scores, class_ids, 5, device, stream)
    return _run(
        _core.nms_rotated, _core.nms_rotated_cuda, *arguments, threshold, str(method), limit
    )


def _run(
    on_host: Callable[..., Any],
    on_gpu: Callable[..., Any],
    boxes: Array,
    scores: Array,
    class_ids: Array | None,
    columns: int,
    device: str | None,
    stream: object,
    *options: float | str,
) -> Any:
    """Suppress boxes of 4 or 5 columns on the given device, or where the boxes lie."""
    device_id = find_device(boxes) if device is None else cuda_device(device)
    target = choose_target(device_id, stream)
    boxes, scores, class_ids = map(_detach, (boxes, scores, class_ids))
    if target is None:
        boxes, scores = to_array(boxes, np.float32, "boxes"), _to_scores(scores)
        count = _count(boxes.shape, scores.shape, columns)
        ids = np.empty(0, np.int32) if class_ids is None else _to_class_ids(class_ids, count)
        return on_host(boxes, scores, ids, *options)
    _core.require_cuda(target.device_id)
    boxes, scores = _to_floats(boxes, target, "boxes"), _to_floats(scores, target, "scores")
    count = _count(tuple(boxes.shape), tuple(scores.shape), columns)
    classes = None if class_ids is None else _to_cuda_classes(class_ids, count, target)
    work = (target.device_id, target.stream, target.stream_owner)
    return CudaArray(on_gpu(boxes, scores, classes, *options, *work))


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
        OutOfMemoryError: not enough memory for the result.
    """
    first = _to_boxes(boxes_a, "boxes_a")
    second = _to_boxes(boxes_b, "boxes_b")
    iou = empty((len(first), len(second)), np.dtype(np.float32))
    _core.rotated_iou(first, second, str(method), iou)
    return iou


def _to_boxes(boxes: Array, name: str) -> npt.NDArray[np.float32]:
    device_id = find_device(boxes)
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
    is_whole = isinstance(max_detections, (int, np.integer))
    if isinstance(max_detections, bool) or not is_whole or max_detections < 0:
        raise InvalidArgumentError(
            f"max_detections is {max_detections!r}: give a whole number from 0 on, or None"
        )
    return min(int(max_detections), np.iinfo(np.int64).max)


def _require_threshold(iou_threshold: object) -> float:
    """Return the threshold as a float, also of an array or tensor of one element."""
    number = iou_threshold
    if not isinstance(number, Real) and hasattr(number, "item"):
        with contextlib.suppress(ValueError, RuntimeError):  # as of NumPy, and of torch
            number = number.item()
    if not isinstance(number, Real) or not float(number) >= 0:
        raise InvalidArgumentError(f"iou_threshold is {iou_threshold!r}: give a number from 0 to 1")
    return float(number)


def _count(boxes: tuple[int, ...], scores: tuple[int, ...], columns: int) -> int:
    count = scores[0] if len(scores) == 1 else -1
    # An empty list becomes an array of shape [0].
    if boxes != (count, columns) and not (count == 0 and boxes == (0,)):
        raise InvalidArgumentError(
            f"boxes have shape {list(boxes)} and scores {list(scores)}: "
            f"give [N, {columns}], {_COLUMNS[columns]}, and [N]"
        )
    return count


def _detach(values: Array) -> Array:
    """Return a torch tensor that requires grad without it: kept indices have no gradient."""
    return values.detach() if getattr(values, "requires_grad", False) is True else values


def _to_scores(scores: Array) -> npt.NDArray[np.float32]:
    """Return float32 in the order of the scores: scores that float32 would merge become ranks."""
    with np.errstate(over="ignore"):
        rounded: npt.NDArray[np.float32] = to_array(scores, np.float32, "scores")
    given = np.asarray(scores)
    if np.can_cast(given.dtype, np.float32) or given.ndim != 1 or np.isnan(rounded).any():
        return rounded
    if given.dtype.kind == "f" and (rounded == given).all():
        return rounded
    ranks: npt.NDArray[np.intp] = np.unique(given, return_inverse=True)[1]
    return ranks.astype(np.float32)


def _to_class_ids(class_ids: Array, count: int) -> npt.NDArray[np.int32]:
    """Return one int32 for each of ``count`` scores, equal where the ids are.

    Raises:
        InvalidArgumentError: another shape, no numbers, or NaN.
    """
    require_host(class_ids, "class_ids")
    array = np.asarray(class_ids)
    if array.shape != (count,):
        raise InvalidArgumentError(
            f"class_ids have shape {list(array.shape)}: give [{count}], one for each score"
        )
    if array.size == 0:
        return np.empty(0, np.int32)
    if array.dtype.kind not in "biuf" or (array.dtype.kind == "f" and np.isnan(array).any()):
        said = "hold NaN" if array.dtype.kind == "f" else f"are {array.dtype}"
        raise InvalidArgumentError(f"class_ids {said}: give integers")
    limits = np.iinfo(np.int32)
    if array.dtype.kind == "f" or array.min() < limits.min or array.max() > limits.max:
        # Only equality matters, so fractions and ids that are too wide become their rank.
        array = np.unique(array, return_inverse=True)[1]
    return np.ascontiguousarray(array, np.int32)


def _to_floats(values: Array, target: Target, name: str) -> _core.CudaTensor:
    if find_device(values) is not None:
        tensor = target.borrow(values, name)
        if tensor.type_string == "<f4" and tensor.contiguous:
            return tensor
        values = tensor.to_numpy()
    host = _to_scores(values) if name == "scores" else to_array(values, np.float32, name)
    return target.upload(host)


def _to_cuda_classes(class_ids: Array, count: int, target: Target) -> _core.CudaTensor:
    if find_device(class_ids) is not None:
        tensor = target.borrow(class_ids, "class_ids")
        if tensor.type_string == "<i4" and tensor.shape == [count] and tensor.contiguous:
            return tensor
        class_ids = tensor.to_numpy()
    return target.upload(_to_class_ids(class_ids, count))
