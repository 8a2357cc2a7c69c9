"""A tensor as a network or a Triton model declares it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Dims = tuple[int | None, ...]
# Triton's name of a type, as in `data_type: TYPE_FP32`, by NumPy's.
TRITON_TYPES = {
    "bool": "BOOL", "uint8": "UINT8", "uint16": "UINT16", "uint32": "UINT32", "uint64": "UINT64",
    "int8": "INT8", "int16": "INT16", "int32": "INT32", "int64": "INT64",
    "float16": "FP16", "float32": "FP32", "float64": "FP64", "bfloat16": "BF16",
    "object": "STRING",
}  # fmt: skip


@dataclass(frozen=True)
class TensorSpec:
    """One input or output.

    Attributes:
        data_type: Triton's name without TYPE_, such as "FP32"; "" for a type that Triton has none
            for.
        dims: None where any size will do. Whether a batch dimension comes first depends on the
            owner.
    """

    name: str
    data_type: str
    dims: tuple[int | None, ...]

    def __str__(self) -> str:
        """Such as `images FP32 [3, 640, 640]`, with * for any size."""
        dims = ", ".join("*" if dim is None else str(dim) for dim in self.dims)
        return f"{self.name} {self.data_type or 'of an unknown type'} [{dims}]"


def free_dims(dims: Sequence[int]) -> Dims:
    """Return dims with None in the place of -1."""
    return tuple(None if dim == -1 else dim for dim in dims)


def dims_fit(first: Dims, second: Dims) -> bool:
    """Whether two shapes may be the same; a free dimension fits any."""
    return len(first) == len(second) and all(
        a == b or a is None or b is None for a, b in zip(first, second, strict=True)
    )
