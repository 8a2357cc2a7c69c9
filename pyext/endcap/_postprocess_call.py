"""Calls of a Postprocessor with host arrays, and with arrays on a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from endcap import _core, _cuda_input
from endcap._arrays import to_array
from endcap._device import Target, cuda_target, refuse_stream
from endcap._head import Head, Specs, to_batched, to_cuda_batched
from endcap.cuda_array import CudaArray
from endcap.detections import FIELDS, Classification, Detections, make_detections
from endcap.errors import InvalidArgumentError, error_for_status

# Whatever NumPy makes an array of; for a GPU also an array on it.
Array: TypeAlias = Any
Result: TypeAlias = Detections | Classification
_MASKS = "detection_masks"
_ONE_PER_IMAGE = ("num_detections", "status")  # outputs of shape [B, 1]


@dataclass(frozen=True)
class Engine:
    """A compiled postprocessor, and how its results are read.

    Attributes:
        core: the compiled postprocessor.
        family: the head's family.
        packed_masks: whether masks are wanted as bits.
        inputs: name, dtype and shape of the head's tensors.
        outputs: the same of the results.
    """

    core: _core.Postprocessor
    family: str
    packed_masks: bool
    inputs: Specs
    outputs: Specs

    @cached_property
    def names(self) -> list[str]:
        """The outputs' names."""
        return [name for name, _, _ in self.outputs]

    @cached_property
    def fields(self) -> list[str]:
        """The fields of the result that the outputs become."""
        return [FIELDS[name] for name in self.names]

    @cached_property
    def has_masks(self) -> bool:
        """Whether the family has masks."""
        return "mask_size" in self.names

    @cached_property
    def has_source_masks(self) -> bool:
        """Whether masks have the source image's pixels, and so no output of bits."""
        return _MASKS not in self.names


class Calls(Protocol):
    """Calls of one engine on one device."""

    def run(
        self, head: Head, geometry: Array | None, status: Array | None, stream: object
    ) -> Result:
        """Process a batch and wait for the results."""

    def enqueue(
        self, head: Head, geometry: Array | None, status: Array | None, stream: object
    ) -> Result:
        """Process a batch in the order of a stream."""


class HostCalls:
    """Calls on the CPU."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def run(
        self, head: Head, geometry: Array | None, status: Array | None, stream: object
    ) -> Result:
        engine = self._engine
        refuse_stream(stream)
        tensors, _ = to_batched(head, engine.inputs)
        count = len(tensors[0])
        rows, truncated, rle = engine.core(
            tensors,
            checked_rows(geometry, np.float32, (count, 8), "geometry"),
            checked_rows(status, np.int32, (count,), "status"),
            engine.packed_masks,
        )
        fields: dict[str, Any] = dict(zip(engine.fields, rows, strict=True))
        if engine.family == "classification":
            return Classification(**fields)
        fields["truncated"] = truncated
        if engine.has_masks:
            fields["rle"] = rle
        fields["has_source_masks"] = engine.has_source_masks
        return make_detections(fields)

    def enqueue(
        self, head: Head, geometry: Array | None, status: Array | None, stream: object
    ) -> Result:
        raise InvalidArgumentError("enqueue needs device='cuda': on a CPU a call is the work")


class CudaCalls:
    """Calls on one GPU."""

    def __init__(self, engine: Engine, device_id: int) -> None:
        self._engine = engine
        self._device_id = device_id

    def run(
        self, head: Head, geometry: Array | None, status: Array | None, stream: object
    ) -> Result:
        target = cuda_target(self._device_id, stream)
        part = self._part(target, head, geometry, status, with_rle=self._engine.has_masks)
        [(items, rle)] = self._engine.core.run([part], target.stream)
        _raise_first(items)
        return self._result(part, np.array([flag for _, _, flag in items], np.bool_), rle)

    def enqueue(
        self, head: Head, geometry: Array | None, status: Array | None, stream: object
    ) -> Result:
        target = cuda_target(self._device_id, stream)
        part = self._part(target, head, geometry, status, with_rle=False)
        self._engine.core.enqueue([part], target.stream)
        return self._result(part, None, None)

    def _part(
        self,
        target: Target,
        head: Head,
        geometry: Array | None,
        status: Array | None,
        *,
        with_rle: bool,
    ) -> _core.HeadPart:
        engine = self._engine
        tensors = to_cuda_batched(head, engine.inputs, target)
        count = tensors[0].shape[0]
        return (
            tensors,
            _cuda_geometry(geometry, count, target),
            checked_rows(status, np.int32, (count,), "status"),
            _output_tensors(engine.outputs, count, target, engine.packed_masks),
            with_rle,
        )

    def _result(
        self,
        part: _core.HeadPart,
        truncated: npt.NDArray[np.bool_] | None,
        rle: list[list[bytes]] | None,
    ) -> Result:
        engine = self._engine
        fields: dict[str, Any] = {
            FIELDS[name]: CudaArray(
                tensor.reshape(tensor.shape[:1]) if name in _ONE_PER_IMAGE else tensor
            )
            for name, tensor in zip(engine.names, part[3], strict=True)
            if isinstance(tensor, _core.CudaTensor)
        }
        if engine.family == "classification":
            return Classification(**fields)
        if engine.has_masks:
            fields["rle"] = rle
            fields["has_source_masks"] = engine.has_source_masks
        fields["truncated"] = truncated
        return make_detections(fields)


def _raise_first(items: list[tuple[int, str, bool]]) -> None:
    for index, (code, message, _) in enumerate(items):
        if code != 0:
            place = f"image index {index} of {len(items)}: " if len(items) > 1 else ""
            raise error_for_status(code, place + message)


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
