"""Elements, shapes and data types of tensors as both protocols carry them."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.client.calls import DATATYPES, InputTensor, SharedSlice, triton_type
from endcap.errors import InvalidArgumentError

_LENGTH = struct.Struct("<I")
_LONGEST_ELEMENT = 2**32 - 1


def elements(tensor: InputTensor) -> NDArray[Any]:
    """Return the elements of an input that goes in its request, of BYTES each as bytes.

    Raises:
        InvalidArgumentError: They are not what the input says of them.
    """
    data = tensor.data
    if isinstance(data, SharedSlice):
        raise InvalidArgumentError(f"input {tensor.name} lies in shared memory")
    if data.shape != tuple(tensor.shape) or triton_type(data.dtype) != tensor.datatype:
        raise InvalidArgumentError(
            f"input {tensor.name} says that it is {tensor.datatype} {list(tensor.shape)}, but its "
            f"data are {triton_type(data.dtype)} {list(data.shape)}; make them agree"
        )
    if tensor.datatype != "BYTES":
        return data
    content = np.empty(data.shape, np.object_)
    for position, element in enumerate(data.flat):
        content.flat[position] = _as_bytes(tensor.name, element)
    return content


def raw_bytes(tensor: InputTensor) -> bytes:
    """Return what `elements` does in row-major order; BYTES each behind its length, uint32."""
    data = elements(tensor)
    if tensor.datatype != "BYTES":
        return data.tobytes()
    return b"".join(part for each in data.flat for part in (_LENGTH.pack(len(each)), each))


def raw_size(tensor: InputTensor) -> int:
    """Return the length of what `raw_bytes` does, without making it where the type has a size."""
    if tensor.datatype != "BYTES":
        return elements(tensor).nbytes
    return sum(_LENGTH.size + len(each) for each in elements(tensor).flat)


def checked_shape(sides: Iterable[Any]) -> tuple[int, ...]:
    """Return an output's shape as the server says it; ValueError where no tensor has it."""
    shape = tuple(sides)
    if not all(type(side) is int and side >= 0 for side in shape):
        raise ValueError(f"an output has the shape {list(shape)}")
    return shape


def checked_datatype(datatype: object) -> str:
    """Return an output's type as the server says it; ValueError where Triton has none such."""
    if not isinstance(datatype, str) or datatype not in DATATYPES:
        raise ValueError(f"an output has the type {datatype!r}")
    return datatype


def _as_bytes(name: str, element: object) -> bytes:
    content = element.encode() if isinstance(element, str) else element
    if not isinstance(content, (bytes, bytearray, memoryview)):
        raise InvalidArgumentError(
            f"input {name} is of type BYTES, but has an element of type "
            f"{type(element).__name__}; give bytes"
        )
    content = bytes(content)
    if len(content) > _LONGEST_ELEMENT:
        raise InvalidArgumentError(
            f"input {name} has an element of {len(content)} bytes; 4 GiB is the limit"
        )
    return content
