"""Arrays in the memory of a GPU: results, and arguments that are read there."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

import endcap._core as _core
from endcap._arrays import DLPACK_CUDA, find_interface_device, refuse_gradient
from endcap.errors import InvalidArgumentError

_DLPACK_CPU = 1  # DLDeviceType
_LEGACY_DEFAULT_STREAM = 1  # as DLPack and the CUDA array interface write it
_PER_THREAD_STREAM = 2
_NO_SYNCHRONIZATION = -1


class CudaArray:
    """A C-contiguous array in the memory of a GPU: what results are with ``device="cuda"``.

    It is filled by work on a CUDA stream, which may not be done yet when you get it. A consumer
    that imports it by DLPack (``torch.from_dlpack``, ``cupy.from_dlpack``) or by the CUDA array
    interface waits for that on its own stream; ``to_numpy`` waits on the host. It is never copied
    to the host implicitly: ``numpy.asarray`` of it is a TypeError.

    Its memory returns to the device's pool when its last owner is gone, consumers included, and
    after the work that its own stream and the consumer's current stream have then. Where the
    consumer's stream is unknown, as by the CUDA array interface, it waits for the work of all
    streams of the device; such an array must not be deleted while a CUDA graph is being captured.
    The array's stream must live until then: an object given as ``stream`` is kept for that.
    """

    __slots__ = ("__weakref__", "_tensor")

    def __init__(self, tensor: _core.CudaTensor) -> None:
        self._tensor = tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the dimensions."""
        return tuple(self._tensor.shape)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._tensor.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of an element."""
        return np.dtype(self._tensor.type_string)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self._tensor.shape)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self._tensor.nbytes

    @property
    def device(self) -> str:
        """``cuda:N``."""
        return f"cuda:{self._tensor.device_id}"

    @property
    def stream(self) -> int:
        """The ``cudaStream_t`` in whose order it is filled; 0 is the legacy default stream."""
        return self._tensor.stream

    def to_numpy(self) -> npt.NDArray[Any]:
        """Return a copy in host memory; wait for the array's stream.

        Raises:
            CudaError: this, or earlier work on the stream, failed.
        """
        return self._tensor.to_numpy()

    def __len__(self) -> int:
        if not self._tensor.shape:
            raise TypeError("len() of an array without dimensions")
        return self._tensor.shape[0]

    def __repr__(self) -> str:
        return f"CudaArray(shape={self.shape}, dtype={self.dtype}, device={self.device!r})"

    def __array__(self, *arguments: object, **options: object) -> NoReturn:
        raise TypeError("a CudaArray is not copied to the host unasked: use its to_numpy()")

    def __dlpack_device__(self) -> tuple[int, int]:
        return DLPACK_CUDA, self._tensor.device_id

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Return a DLPack capsule; ``stream`` is the consumer's, which is made to wait.

        Raises:
            BufferError: a copy or a device that cannot be had.
        """
        if dl_device is not None and tuple(dl_device) == (_DLPACK_CPU, 0):
            if copy is False:
                raise BufferError("copy=False is not possible from a GPU to the CPU: leave it out")
            return self.to_numpy().__dlpack__()
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"the array is on {self.device}, and is not copied to another GPU")
        if copy:
            raise BufferError("copy=True is not supported: copy the imported array instead")
        if stream == 0:
            raise BufferError("stream is 0, which DLPack does not allow: give 1 or 2")
        if stream == _NO_SYNCHRONIZATION:
            return self._tensor.to_dlpack(None, None)
        consumer = _LEGACY_DEFAULT_STREAM if stream is None else stream
        return self._tensor.to_dlpack(consumer, _owner_of_stream(consumer, self._tensor.device_id))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        self._tensor.share_with_all_streams()
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": self._tensor.type_string,
            "data": (self._tensor.pointer, False),
            "strides": None,
            "stream": self._tensor.stream or _LEGACY_DEFAULT_STREAM,
        }


def _owner_of_stream(stream: int, device_id: int) -> Any:
    """Return the object of torch or CuPy that keeps a stream alive, if it is their current one."""
    if stream == _PER_THREAD_STREAM:
        return None
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        current = torch.cuda.current_stream(device_id)
        # Streams of torch's own have odd ids and are never destroyed; others are somebody else's.
        if current.cuda_stream == stream and current.stream_id % 2 == 1:
            return current
    cupy = sys.modules.get("cupy")
    if cupy is not None:
        current = cupy.cuda.get_current_stream()
        if current.ptr == stream and isinstance(current, cupy.cuda.Stream):
            return current
    return None


def on_host(array: npt.NDArray[Any] | CudaArray) -> npt.NDArray[Any]:
    """Return an array of the host unmodified, and a copy of one in the memory of a GPU."""
    return array.to_numpy() if isinstance(array, CudaArray) else array


@dataclass(frozen=True)
class Target:
    """Where GPU work goes: a device and a stream of it.

    Attributes:
        device_id: the number N in ``cuda:N``.
        stream: a ``cudaStream_t`` as a number; 0 is the legacy default stream.
        stream_owner: the object that the stream came from; results keep it.
    """

    device_id: int
    stream: int = 0
    stream_owner: object = None

    def borrow(self, source: Any, name: str) -> _core.CudaTensor:
        """Return a view of an array on this device; ``name`` is for the error.

        What fills the array comes before what is enqueued on this stream from now on; for a
        CudaArray the core sees to that. A torch tensor's memory is not reused before that work is
        done; arrays of other libraries must live until then, unless they were made on that stream.

        Raises:
            InvalidArgumentError: another device, or an array that its library does not hand over.
        """
        refuse_gradient(source, name)
        if isinstance(source, CudaArray):
            tensor = source._tensor
            _require_device(tensor.device_id, self, name)
            return tensor
        if not hasattr(source, "__dlpack_device__"):
            return _from_interface(source, self, name)
        _require_device(source.__dlpack_device__()[1], self, name)
        torch = _find_torch(source)  # which hands over tensors of its current device alone
        try:
            with contextlib.nullcontext() if torch is None else torch.cuda.device(self.device_id):
                capsule = source.__dlpack__(stream=self.stream or _LEGACY_DEFAULT_STREAM)
        except (BufferError, RuntimeError, TypeError) as error:
            raise InvalidArgumentError(
                f"{name} is of type {type(source).__name__}, which does not hand it over through "
                f"DLPack ({error})"
            ) from error
        _keep_until_done(source, self)
        return _core.CudaTensor.from_dlpack(capsule, self.device_id, self.stream)

    def upload(self, array: npt.NDArray[Any]) -> _core.CudaTensor:
        """Return a copy on this device, made in the order of its stream."""
        return _core.CudaTensor.upload(array, self.device_id, self.stream, self.stream_owner)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> _core.CudaTensor:
        """Return an uninitialised tensor on this device.

        Raises:
            OutOfMemoryError: not enough memory for it.
        """
        return _core.CudaTensor.empty(
            dtype.str, list(shape), self.device_id, self.stream, self.stream_owner
        )

    def empty_arrays(self, specs: Sequence[tuple[tuple[int, ...], str]]) -> list[_core.CudaTensor]:
        """Return uninitialised tensors of these shapes and dtypes that share one allocation.

        Raises:
            OutOfMemoryError: not enough memory for them.
        """
        return _core.CudaTensor.empty_arrays(specs, self.device_id, self.stream, self.stream_owner)


def cuda_device(device: str) -> int | None:
    """Return the number of a CUDA device, None for ``cpu``.

    Raises:
        InvalidArgumentError: any other name.
    """
    if device == "cpu":
        return None
    if isinstance(device, str):
        kind, colon, number = device.partition(":")
        if kind == "cuda" and number.isascii() and (number.isdecimal() or not colon):
            return int(number or 0)
    raise InvalidArgumentError(f"device is {device!r}: give 'cpu', 'cuda' or 'cuda:N'")


def choose_target(device_id: int | None, stream: object) -> Target | None:
    """Return where one call works on a GPU, None for the CPU.

    Args:
        device_id: a CUDA device; None for the CPU.
        stream: None for the legacy default stream, a handle as a number, or an object that has
            ``__cuda_stream__``, ``cuda_stream`` (torch) or ``ptr`` (CuPy).

    Raises:
        InvalidArgumentError: anything else as a stream, or a stream for the CPU.
    """
    if device_id is not None:
        return Target(device_id, _stream_handle(stream), stream)
    if stream is not None:
        raise InvalidArgumentError("stream was given with device='cpu': it is for device='cuda'")
    return None


def _stream_handle(stream: object) -> int:
    if stream is None:
        return 0
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        # (version, handle): https://nvidia.github.io/cuda-python/cuda-core
        handle = (protocol() if callable(protocol) else protocol)[1]
    else:
        handle = getattr(stream, "cuda_stream", getattr(stream, "ptr", stream))
    if isinstance(handle, int) and not isinstance(handle, bool) and handle >= 0:
        return handle
    raise InvalidArgumentError(
        f"stream is {stream!r}: give None, a handle as a number, or an object with "
        "__cuda_stream__, cuda_stream or ptr"
    )


def _find_torch(source: Any) -> Any:
    """Return the module torch if the source is a tensor of it, else None."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(source, torch.Tensor) else None


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


def _from_interface(source: Any, target: Target, name: str) -> _core.CudaTensor:
    # https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html, versions 2 and 3
    interface = source.__cuda_array_interface__
    if interface.get("mask") is not None:
        raise InvalidArgumentError(f"{name} has a mask: give an array without one")
    if interface["data"][0] != 0:  # an array without elements may have no address
        _require_device(find_interface_device(interface), target, name)
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


def _require_device(device_id: int, target: Target, name: str) -> None:
    if device_id != target.device_id:
        raise InvalidArgumentError(
            f"{name} lies on cuda:{device_id}, and the work is on cuda:{target.device_id}"
        )
