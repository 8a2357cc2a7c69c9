"""The arguments of a Postprocessor's call, and what comes back from a GPU."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from endcap import _core, _cuda_input
from endcap._arrays import to_array
from endcap._device import Target
from endcap._head import Head, Specs, to_cuda_batched
from endcap.cuda_array import CudaArray
from endcap.cuda_detections import CudaClassification, CudaDetections
from endcap.detections import FIELDS
from endcap.errors import InvalidArgumentError

# Whatever NumPy makes an array of; for a GPU also an array on it.
Array: TypeAlias = Any
_MASKS = "detection_masks"
_ONE_PER_IMAGE = ("num_detections", "status")  # outputs of shape [B, 1]


class CudaCall:
    """The argument of a call on a GPU, its stream, and its result."""

    def __init__(
        self,
        inputs: Specs,
        outputs: Specs,
        family: str,
        target: Target,
        head: Head,
        geometry: Array | None,
        status: Array | None,
        *,
        with_packed_masks: bool,
        with_rle: bool,
    ) -> None:
        tensors = to_cuda_batched(head, inputs, target)
        count = tensors[0].shape[0]
        self._family = family
        self._names = [name for name, _, _ in outputs]
        self._out = _output_tensors(outputs, count, target, with_packed_masks)
        self.stream = target.stream
        self.part = (
            tensors,
            _cuda_geometry(geometry, count, target),
            checked_rows(status, np.int32, (count,), "status"),
            self._out,
            with_rle,
        )

    def result(
        self, truncated: npt.NDArray[np.bool_] | None, rle: list[list[bytes]] | None
    ) -> CudaDetections | CudaClassification:
        fields: dict[str, Any] = {
            FIELDS[name]: CudaArray(
                tensor.reshape(tensor.shape[:1]) if name in _ONE_PER_IMAGE else tensor
            )
            for name, tensor in zip(self._names, self._out, strict=True)
            if tensor is not None
        }
        if self._family == "classification":
            return CudaClassification(**fields)
        if "mask_size" in self._names:
            fields["rle"] = rle
            fields["has_source_masks"] = "detection_masks" not in self._names
        return CudaDetections(truncated=truncated, **fields)


def _output_tensors(
    outputs: Specs, count: int, target: Target, with_packed_masks: bool
) -> list[_core.CudaTensor | None]:
    # Masks have memory of their own: they are large, and the rest may be kept for longer.
    small = [(name, dtype, shape) for name, dtype, shape in outputs if name != _MASKS]
    arrays = _cuda_input.empty_arrays(
        [((count, *shape), dtype) for _, dtype, shape in small], target
    )
    tensors: dict[str, _core.CudaTensor | None] = {
        name: array for (name, _, _), array in zip(small, arrays, strict=True)
    }
    if with_packed_masks:
        [(dtype, shape)] = [(dtype, shape) for name, dtype, shape in outputs if name == _MASKS]
        tensors[_MASKS] = _cuda_input.empty((count, *shape), np.dtype(dtype), target)
    return [tensors.get(name) for name, _, _ in outputs]


def _cuda_geometry(
    geometry: Array | None, count: int, target: Target
) -> npt.NDArray[np.float32] | _core.CudaTensor | None:
    if geometry is None:
        return None
    if _cuda_input.device_of(geometry) is None:
        return checked_rows(geometry, np.float32, (count, 8), "geometry")
    tensor = _cuda_input.borrow(geometry, target, "geometry")
    if tensor.type_string != "<f4" or tensor.shape not in ([count, 8], [8] if count == 1 else []):
        raise InvalidArgumentError(
            f"geometry is {np.dtype(tensor.type_string)} {tensor.shape}: give float32 {[count, 8]}"
        )
    return tensor.reshape([count, 8])


def checked_rows(
    values: npt.ArrayLike | None, dtype: type[Any], shape: tuple[int, ...], name: str
) -> npt.NDArray[Any] | None:
    """Return the values as an array of that shape, [1, ...] for [...]; None for None."""
    if values is None:
        return None
    array = to_array(values, dtype, name)
    if shape[0] == 1 and array.shape == shape[1:]:
        array = array.reshape(shape)
    if array.shape != shape:
        raise InvalidArgumentError(f"{name} has shape {list(array.shape)}: give {list(shape)}")
    return array
