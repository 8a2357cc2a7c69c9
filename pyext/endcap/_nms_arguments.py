"""The arguments that nms, batched_nms and nms_rotated share."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from endcap import _core
from endcap._arrays import to_array, to_class_ids
from endcap._cuda_input import borrow, device_of, refuse_cuda, upload
from endcap._device import Target, cuda_device
from endcap.errors import InvalidArgumentError

# Whatever NumPy makes an array of, or an array on a GPU.
Array: TypeAlias = Any

_COLUMNS = {4: "x1, y1, x2, y2", 5: "centre x, centre y, width, height and angle"}


def device_to_use(boxes: Array, device: str | None) -> int | None:
    """Return the number of the GPU that a call is for, None for the CPU."""
    return device_of(boxes) if device is None else cuda_device(device)


def require_threshold(iou_threshold: object) -> float:
    """Return the threshold as a float; its range is the core's to check."""
    if not isinstance(iou_threshold, Real):
        raise InvalidArgumentError(f"iou_threshold is {iou_threshold!r}: give a number from 0 to 1")
    return float(iou_threshold)


@dataclass(frozen=True)
class HostBoxes:
    """One image's boxes in host memory, as the core takes them; no class_ids are one class."""

    boxes: npt.NDArray[np.float32]
    scores: npt.NDArray[np.float32]
    class_ids: npt.NDArray[np.int32]

    @classmethod
    def take(cls, boxes: Array, scores: Array, class_ids: Array | None, columns: int) -> HostBoxes:
        """Return them checked; ``columns`` is how many numbers a box has."""
        box_array = to_array(boxes, np.float32, "boxes")
        score_array = to_array(scores, np.float32, "scores")
        count = _count(box_array.shape, score_array.shape, columns)
        classes = np.empty(0, np.int32)
        if class_ids is not None:
            refuse_cuda(class_ids, "class_ids")
            classes = to_class_ids(class_ids, count)
        return cls(box_array, score_array, classes)


@dataclass(frozen=True)
class CudaBoxes:
    """The same in a GPU's memory."""

    boxes: _core.CudaTensor
    scores: _core.CudaTensor
    class_ids: _core.CudaTensor | None

    @classmethod
    def take(
        cls, boxes: Array, scores: Array, class_ids: Array | None, columns: int, target: Target
    ) -> CudaBoxes:
        """Return them checked, and what is in host memory copied to the target."""
        _core.require_cuda(target.device_id)
        box_tensor = _to_floats(boxes, target, "boxes")
        score_tensor = _to_floats(scores, target, "scores")
        count = _count(tuple(box_tensor.shape), tuple(score_tensor.shape), columns)
        classes = None if class_ids is None else _to_cuda_classes(class_ids, count, target)
        return cls(box_tensor, score_tensor, classes)


def _count(boxes: tuple[int, ...], scores: tuple[int, ...], columns: int) -> int:
    count = scores[0] if len(scores) == 1 else -1
    # An empty list becomes an array of shape [0].
    if boxes != (count, columns) and not (count == 0 and boxes == (0,)):
        raise InvalidArgumentError(
            f"boxes have shape {list(boxes)} and scores {list(scores)}: "
            f"give [N, {columns}], {_COLUMNS[columns]}, and [N]"
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
