"""Arrays that lie in the memory of a GPU, brought to tensors that the core can read."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from endcap import _core
from endcap._device import Target
from endcap.cuda_array import DLPACK_CUDA, CudaArray
from endcap.errors import InvalidArgumentError

_LEGACY_DEFAULT_STREAM = 1  # as DLPack writes it, where 0 is not allowed


def find_device(source: Any) -> int | None:
    """Return the number of the CUDA device that an array lies on, None for host memory."""
    if isinstance(source, (np.ndarray, bytes, bytearray, memoryview)):
        return None
    describe = getattr(source, "__dlpack_device__", None)
    if describe is not None:
        kind, number = describe()
        return int(number) if kind == DLPACK_CUDA else None
    interface = getattr(source, "__cuda_array_interface__", None)
    return None if interface is None else _find_interface_device(interface)


def refuse_cuda(source: Any, name: str) -> None:
    """Raise InvalidArgumentError for an array on a GPU, which the CPU cannot read in place."""
    device_id = find_device(source)
    if device_id is not None:
        raise InvalidArgumentError(
            f"{name} lies on cuda:{device_id}: give device='cuda:{device_id}', or copy it to the "
            "host"
        )


def refuse_gradient(source: Any, name: str) -> None:
    """Raise InvalidArgumentError for a torch tensor that requires grad: torch keeps its memory."""
    if getattr(source, "requires_grad", False) is True:
        raise InvalidArgumentError(
            f"{name} is a tensor that requires grad: give {name.split()[-1]}.detach(), or compute "
            "it under torch.no_grad()"
        )


def borrow(source: Any, target: Target, name: str) -> _core.CudaTensor:
    """Return a view of an array on the target's device; ``name`` is for the error.

    What fills the array comes before what is enqueued on the target's stream from now on; for a
    CudaArray the core sees to that. A torch tensor's memory is not reused before that work is
    done; arrays of other libraries must live until then, unless they were made on that stream.

    Raises:
        InvalidArgumentError: another device, or an array that its library does not hand over.
    """
    refuse_gradient(source, name)
    if isinstance(source, CudaArray):
        tensor = source._tensor
        _require_device(tensor.device_id, target, name)
        return tensor
    if not hasattr(source, "__dlpack_device__"):
        return _from_interface(source, target, name)
    _require_device(source.__dlpack_device__()[1], target, name)
    try:
        with _current_device(source, target):
            capsule = source.__dlpack__(stream=target.stream or _LEGACY_DEFAULT_STREAM)
    except (BufferError, RuntimeError, TypeError) as error:
        raise InvalidArgumentError(
            f"{name} is of type {type(source).__name__}, which does not hand it over through "
            f"DLPack ({error})"
        ) from error
    _keep_until_done(source, target)
    return _core.CudaTensor.from_dlpack(capsule, target.device_id, target.stream)


def _find_torch(source: Any) -> Any:
    """Return the module torch if the source is a tensor of it, else None."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(source, torch.Tensor) else None


def _current_device(source: Any, target: Target) -> contextlib.AbstractContextManager[Any]:
    # torch hands over tensors of its current device alone.
    torch = _find_torch(source)
    return contextlib.nullcontext() if torch is None else torch.cuda.device(target.device_id)


def _keep_until_done(source: Any, target: Target) -> None:
    # torch frees memory in the order of the stream that it was allocated on (stream-ordered), and
    # does not know of another stream that reads it.
    torch = _find_torch(source)
    if torch is None:
        return
    device = f"cuda:{target.device_id}"
    if target.stream in (0, _LEGACY_DEFAULT_STREAM):
        stream = torch.cuda.default_stream(device)
    else:
        stream = torch.cuda.ExternalStream(target.stream, device=device)
    source.record_stream(stream)


def upload(array: npt.NDArray[Any], target: Target) -> _core.CudaTensor:
    """Return a copy on the target's device, made in the order of its stream."""
    return _core.CudaTensor.upload(array, target.device_id, target.stream, target.stream_owner)


def empty(shape: tuple[int, ...], dtype: np.dtype[Any], target: Target) -> _core.CudaTensor:
    """Return an uninitialised tensor on the target's device.

    Raises:
        OutOfMemoryError: not enough memory for it.
    """
    return _core.CudaTensor.empty(
        dtype.str, list(shape), target.device_id, target.stream, target.stream_owner
    )


def empty_arrays(
    specs: Sequence[tuple[tuple[int, ...], str]], target: Target
) -> list[_core.CudaTensor]:
    """Return uninitialised tensors of these shapes and dtypes that share one allocation.

    Raises:
        OutOfMemoryError: not enough memory for them.
    """
    return _core.CudaTensor.empty_arrays(
        specs, target.device_id, target.stream, target.stream_owner
    )


def _from_interface(source: Any, target: Target, name: str) -> _core.CudaTensor:
    # https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html, versions 2 and 3
    interface = source.__cuda_array_interface__
    if interface.get("mask") is not None:
        raise InvalidArgumentError(f"{name} has a mask: give an array without one")
    if interface["data"][0] != 0:  # an array without elements may have no address
        _require_device(_find_interface_device(interface), target, name)
    strides = interface.get("strides")
    stream = interface.get("stream")
    if stream is not None:
        _core.order_cuda_after(target.device_id, target.stream, stream)
    return _core.CudaTensor.borrow(
        interface["data"][0],
        interface["typestr"],
        list(interface["shape"]),
        None if strides is None else list(strides),
        target.device_id,
        target.stream,
        source,
    )


def _find_interface_device(interface: dict[str, Any]) -> int:
    # The interface does not name the device: the driver knows it by the address.
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


def _require_device(device_id: int, target: Target, name: str) -> None:
    if device_id != target.device_id:
        raise InvalidArgumentError(
            f"{name} lies on cuda:{device_id}, and the work is on cuda:{target.device_id}"
        )
