"""Arrays in the memory of a GPU."""

from __future__ import annotations

import math
import sys
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from endcap import _core

DLPACK_CPU = 1  # DLDeviceType
DLPACK_CUDA = 2
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
        if dl_device is not None and tuple(dl_device) == (DLPACK_CPU, 0):
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
