"""Arrays of other libraries as NumPy's, without a copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from endcap import _core
from endcap._cuda_input import refuse_cuda, refuse_gradient
from endcap.errors import InvalidArgumentError, OutOfMemoryError


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return an array for results, uninitialised.

    Its memory comes from a small pool and goes back there, so that a loop whose results come and go
    does not fetch new memory from the system each time.

    Raises:
        OutOfMemoryError: not enough memory for it.
    """
    try:
        return _core.empty(dtype, list(shape))
    except (MemoryError, ValueError) as error:
        raise OutOfMemoryError(
            f"a result of shape {list(shape)} and dtype {dtype} does not fit into memory"
        ) from error


def from_dlpack(source: Any, name: str) -> npt.NDArray[Any]:
    """Return a NumPy view of an object that has ``__dlpack__``; ``name`` is for the error.

    Raises:
        InvalidArgumentError: memory that NumPy cannot reach, such as a GPU's, or a tensor that
            requires grad.
    """
    refuse_gradient(source, name)
    refuse_cuda(source, name)
    try:
        array: npt.NDArray[Any] = np.from_dlpack(source)
    except (AttributeError, BufferError, RuntimeError, TypeError) as error:
        raise InvalidArgumentError(
            f"{name} is of type {type(source).__name__}, which cannot be read through DLPack "
            f"({error})"
        ) from error
    return array


def to_array(values: npt.ArrayLike, dtype: type[np.generic], name: str) -> npt.NDArray[Any]:
    """Return ``values`` as a C-contiguous array of ``dtype``; ``name`` is for the error.

    Raises:
        InvalidArgumentError: values that are no real numbers, integers that ``dtype`` cannot
            hold, or a tensor that requires grad.
    """
    refuse_gradient(values, name)
    refuse_cuda(values, name)
    try:
        array = np.asarray(values)
    except (ValueError, TypeError) as error:
        raise InvalidArgumentError(f"{name} is not an array of numbers ({error})") from error
    kinds = "iu" if np.issubdtype(dtype, np.integer) else "fiu"
    if array.dtype.kind not in kinds and array.size > 0:
        raise InvalidArgumentError(f"{name} is {array.dtype}: give {np.dtype(dtype)}")
    converted: npt.NDArray[Any] = np.ascontiguousarray(array, dtype)
    if kinds == "iu" and not (converted == array).all():
        raise InvalidArgumentError(f"{name} holds numbers that {np.dtype(dtype)} cannot")
    return converted


def to_class_ids(class_ids: npt.ArrayLike, count: int) -> npt.NDArray[np.int32]:
    """Return one int32 for each of ``count`` scores, equal where the ids are.

    Raises:
        InvalidArgumentError: another shape, no numbers, or NaN.
    """
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
