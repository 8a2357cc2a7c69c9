"""Where the tensors of a preprocess call go: a new array, or the caller's."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from endcap import _core, _cuda_input
from endcap._arrays import empty
from endcap._device import Target
from endcap.errors import InvalidArgumentError

Shape = tuple[int, ...]


def host_output(out: Any, shape: Shape, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return ``out``, or an array for it where it is None.

    Raises:
        InvalidArgumentError: For an ``out`` that cannot be used, and OutOfMemoryError.
    """
    if out is None:
        return empty(shape, dtype)
    if not isinstance(out, np.ndarray):
        raise InvalidArgumentError(f"out is a {type(out).__name__}: give a NumPy array")
    _check(out.shape, out.dtype, out.flags.c_contiguous, shape, dtype)
    if not out.flags.writeable:
        raise InvalidArgumentError("out is read-only: give an array that can be written")
    return out


def cuda_output(out: Any, shape: Shape, dtype: np.dtype[Any], target: Target) -> _core.CudaTensor:
    """Return ``out`` as memory of the target's device, or new memory where it is None.

    Raises:
        InvalidArgumentError: For an ``out`` that cannot be used, and OutOfMemoryError.
    """
    if out is None:
        return _cuda_input.empty(shape, dtype, target)
    if _cuda_input.device_of(out) is None:
        raise InvalidArgumentError(
            f"out is a {type(out).__name__} in host memory: give an array on "
            f"cuda:{target.device_id}"
        )
    tensor = _cuda_input.borrow(out, target, "out")
    _check(tuple(tensor.shape), np.dtype(tensor.type_string), tensor.contiguous, shape, dtype)
    return tensor


def _check(
    shape: Shape, dtype: np.dtype[Any], contiguous: bool, wanted: Shape, wanted_dtype: np.dtype[Any]
) -> None:
    if shape != wanted or dtype != wanted_dtype or not contiguous:
        raise InvalidArgumentError(
            f"out is {dtype} {list(shape)}: give a C-contiguous {wanted_dtype} "
            f"array of shape {list(wanted)}"
        )
