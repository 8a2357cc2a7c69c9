"""A model's raw output, in the forms in which people hold it, brought to batched arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from endcap._arrays import from_dlpack
from endcap.errors import InvalidArgumentError

# One array, or for a family with several inputs a mapping by name or a sequence in their order.
Head: TypeAlias = Any
Specs: TypeAlias = list[tuple[str, str, list[int]]]


def to_batched(head: Head, specs: Specs) -> tuple[list[npt.NDArray[Any]], bool]:
    """Return C-contiguous arrays [B, ...] in the order of ``specs``, and whether a batch came.

    Raises:
        InvalidArgumentError: a missing input, or a rank that fits neither one image nor a batch.
    """
    arrays = [
        _to_array(part, name) for part, (name, _, _) in zip(_parts(head, specs), specs, strict=True)
    ]
    ranks = [len(shape) for _, _, shape in specs]
    batched = all(array.ndim == rank + 1 for array, rank in zip(arrays, ranks, strict=True))
    single = all(array.ndim == rank for array, rank in zip(arrays, ranks, strict=True))
    if not batched and not single:
        shapes = ", ".join(
            f"{spec[0]} {list(a.shape)}" for a, spec in zip(arrays, specs, strict=True)
        )
        wanted = ", ".join(f"{name} {_shape_text(shape)}" for name, _, shape in specs)
        raise InvalidArgumentError(
            f"the head has shapes {shapes}: give {wanted} for one image, or a batch of them"
        )
    return [array if batched else array[np.newaxis] for array in arrays], batched


def _parts(head: Head, specs: Specs) -> list[Any]:
    names = [name for name, _, _ in specs]
    if isinstance(head, Mapping):
        missing = [name for name in names if name not in head]
        if missing:
            raise InvalidArgumentError(f"the head lacks {missing[0]!r}: it needs {names}")
        return [head[name] for name in names]
    if len(names) == 1:
        return [head]
    if isinstance(head, Sequence) and len(head) == len(names):
        return list(head)
    raise InvalidArgumentError(f"this head has {len(names)} inputs: give a mapping with {names}")


def _to_array(part: Any, name: str) -> npt.NDArray[Any]:
    if not isinstance(part, np.ndarray) and hasattr(part, "__dlpack__"):
        part = from_dlpack(part, name)
    array = np.asarray(part)
    if array.dtype == np.int64 and (array == array.astype(np.int32)).all():
        array = array.astype(np.int32)
    if array.dtype not in (np.float32, np.float16, np.int32):
        raise InvalidArgumentError(
            f"{name} is {array.dtype}: give float32 or float16, or int32 for counts and classes"
        )
    return np.ascontiguousarray(array)


def _shape_text(shape: list[int]) -> str:
    return "[" + ", ".join("*" if size < 0 else str(size) for size in shape) + "]"
