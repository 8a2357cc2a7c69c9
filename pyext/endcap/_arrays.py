"""Arrays of other libraries as NumPy's, without a copy, and the device that they lie on."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import endcap._core as _core
from endcap.errors import InvalidArgumentError, OutOfMemoryError

DLPACK_CUDA = 2  # DLDeviceType


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


def find_device(source: Any) -> int | None:
    """Return the number of the CUDA device that an array lies on, None for host memory."""
    if isinstance(source, (np.ndarray, bytes, bytearray, memoryview)):
        return None
    describe = getattr(source, "__dlpack_device__", None)
    if describe is not None:
        kind, number = describe()
        return int(number) if kind == DLPACK_CUDA else None
    interface = getattr(source, "__cuda_array_interface__", None)
    return None if interface is None else find_interface_device(interface)


def find_interface_device(interface: dict[str, Any]) -> int:
    """Return the number of the device of a CUDA array interface, which the driver knows."""
    pointer = interface["data"][0]
    if pointer == 0:
        return 0
    device_id = _core.find_cuda_device(pointer)
    if device_id < 0:
        raise InvalidArgumentError(
            f"an array has a __cuda_array_interface__ with the address {pointer:#x}, which is not "
            "memory of a GPU that this process uses: give an array whose memory is on a GPU"
        )
    return device_id


def refuse_gradient(source: Any, name: str) -> None:
    """Raise InvalidArgumentError for a torch tensor that requires grad: torch keeps its memory."""
    if getattr(source, "requires_grad", False) is True:
        raise InvalidArgumentError(
            f"{name} is a tensor that requires grad: give {name.split()[-1]}.detach(), or compute "
            "it under torch.no_grad()"
        )


def require_host(source: Any, name: str) -> None:
    """Raise InvalidArgumentError for what NumPy cannot read in place; ``name`` is for the error.

    That is an array on a GPU, and a torch tensor that requires grad.
    """
    refuse_gradient(source, name)
    device_id = find_device(source)
    if device_id is not None:
        raise InvalidArgumentError(
            f"{name} lies on cuda:{device_id}: give device='cuda:{device_id}', or copy it to the "
            "host"
        )


def from_dlpack(source: Any, name: str) -> npt.NDArray[Any]:
    """Return a NumPy view of an object that has ``__dlpack__``; ``name`` is for the error.

    Raises:
        InvalidArgumentError: memory that NumPy cannot reach, such as a GPU's, or a tensor that
            requires grad.
    """
    require_host(source, name)
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
    require_host(values, name)
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


def view_image(image: Any) -> npt.NDArray[Any]:
    """Return an object that has a buffer, __dlpack__ or __array__ as an array, in place.

    Raises:
        InvalidArgumentError: another object, one on a GPU, or a tensor that requires grad.
    """
    if isinstance(image, np.ndarray):
        return image
    if hasattr(image, "__dlpack__"):
        return from_dlpack(image, "an image")
    try:
        return np.asarray(image if hasattr(image, "__array__") else memoryview(image))
    except TypeError as error:
        advice = next(
            (f"image.{name}()" for name in ("getvalue", "read") if hasattr(image, name)),
            "encoded bytes, the path of a file, a Pillow image, or uint8 pixels [H,W,3]",
        )
        raise InvalidArgumentError(
            f"an image is of type {type(image).__name__}: give {advice}"
        ) from error


def check_pixels(shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Raise InvalidArgumentError for an array that is not an image.

    Images are uint8: encoded bytes [N], pixels [H,W], [H,W,1] or [H,W,3], or a batch of pixels.
    """
    has_pixels = len(shape) == 2 or (len(shape) in (3, 4) and shape[-1] in (1, 3))
    if dtype != np.uint8 or not (has_pixels or len(shape) == 1):
        raise InvalidArgumentError(
            f"an image is {dtype} {list(shape)}: give uint8, [H,W,3] or [H,W] of pixels with "
            "values of 0 to 255, or [N] of an encoded file"
        )
