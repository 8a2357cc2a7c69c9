"""Regions of a GPU's memory, which the server opens by a handle of CUDA's IPC."""

from __future__ import annotations

import base64
import contextlib
import ctypes
import importlib
import os
from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np

from endcap import _core, _cuda_input
from endcap._device import Target
from endcap._pip_commands import install_command
from endcap.client.regions.region import new_region_file
from endcap.cuda_array import CudaArray
from endcap.errors import CudaError, InvalidArgumentError, UnsupportedError

_DEFAULT_STREAM = 0


class CudaRegion:
    """Memory of a GPU. The lock of an empty file in /dev/shm shows whether its owner is alive.

    Raises UnsupportedError where the package cuda-bindings is missing, CudaError where the memory
    cannot be had.

    Args:
        device_id: Of the GPU, as CUDA counts here.
    """

    def __init__(self, byte_size: int, device_id: int) -> None:
        self._memory = _Memory(byte_size, device_id)
        self._file = new_region_file()
        self.name = self._file.name
        self.byte_size = byte_size

    def registration(self) -> dict[str, Any]:
        """See Region."""
        return {
            "kind": "cuda",
            "name": self.name,
            "byte_size": self.byte_size,
            "raw_handle": base64.b64encode(self._memory.handle),
            "device_id": self._memory.device_id,
        }

    def exporter(self) -> Any:
        """See Region."""
        return _Exporter(self._memory)

    def view(
        self, exporter: Any, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> CudaArray:
        """Return an array on the GPU; operations on it run in the default stream."""
        return CudaArray(
            _core.CudaTensor.borrow(
                self._memory.pointer + offset,
                dtype.str,
                list(shape),
                None,
                self._memory.device_id,
                _DEFAULT_STREAM,
                exporter,
            )
        )

    def accept(self, array: Any, name: str) -> Any:
        """Return an array of this GPU as CudaArray, any other as NumPy's."""
        _cuda_input.refuse_gradient(array, name)
        if _cuda_input.device_of(array) is None:
            return np.asarray(array, order="C")
        tensor = _cuda_input.borrow(array, Target(self._memory.device_id), name)
        if not tensor.contiguous:
            raise InvalidArgumentError(f"{name} is not C-contiguous; make a contiguous copy of it")
        return CudaArray(tensor)

    def write(self, exporter: Any, offset: int, array: Any) -> None:
        """See Region; it may go on after the return, in the default stream."""
        on_gpu = isinstance(array, CudaArray)
        pointer = array._tensor.pointer if on_gpu else array.ctypes.data
        runtime = self._memory.runtime
        device_id = self._memory.device_id
        # The copy is ordered after the work that fills the array, and before its memory is freed.
        if on_gpu:
            _core.order_cuda_after(device_id, _DEFAULT_STREAM, array.stream)
        with self._memory.current():
            to = runtime.cudaMemcpyKind.cudaMemcpyDefault
            where = self._memory.pointer + offset
            _call(runtime, runtime.cudaMemcpy(where, pointer, array.nbytes, to), "copying")
        if on_gpu:
            _core.order_cuda_after(device_id, array.stream, _DEFAULT_STREAM)

    def finish(self) -> None:
        """Wait for the GPU: the server's work is not ordered with this process's streams."""
        with self._memory.current():
            _call(self._memory.runtime, self._memory.runtime.cudaDeviceSynchronize(), "work")

    def buffer(self, exporter: Any) -> NoReturn:
        """See Region; the memory of a GPU has none."""
        raise UnsupportedError("a region on a GPU has no memoryview; use read, which gives arrays")

    def remove(self) -> None:
        """See Region."""
        self._file.remove()


class _Memory:
    """Memory of a GPU, which is freed with the last reference, but not by a forked child."""

    def __init__(self, byte_size: int, device_id: int) -> None:
        self.runtime = _import_runtime()
        self.device_id = device_id
        self.pointer = 0
        self._process = os.getpid()
        with self.current():
            allocated = self.runtime.cudaMalloc(byte_size)
            self.pointer = int(_call(self.runtime, allocated, f"allocating {byte_size} bytes"))
            handle = _call(
                self.runtime, self.runtime.cudaIpcGetMemHandle(self.pointer), "sharing memory"
            )
            self.handle = ctypes.string_at(handle.getPtr(), self.runtime.CUDA_IPC_HANDLE_SIZE)

    def __del__(self) -> None:
        if getattr(self, "pointer", 0) and os.getpid() == self._process:
            self.runtime.cudaFree(self.pointer)

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """Make its GPU the thread's one for the block."""
        before = _call(self.runtime, self.runtime.cudaGetDevice(), "getting the current GPU")
        _call(self.runtime, self.runtime.cudaSetDevice(self.device_id), "choosing the GPU")
        try:
            yield
        finally:
            _call(self.runtime, self.runtime.cudaSetDevice(before), "choosing the GPU")


class _Exporter:
    """See Region."""

    def __init__(self, memory: _Memory) -> None:
        self._memory = memory


def _import_runtime() -> Any:
    try:
        return importlib.import_module("cuda.bindings.runtime")
    except ImportError as error:
        raise UnsupportedError(
            f"shared memory on a GPU needs the package cuda-bindings ({error}); "
            f"run `{install_command('cuda')}`"
        ) from error


def _call(runtime: Any, result: tuple[Any, ...], what: str) -> Any:
    """Return the value of a call of the CUDA runtime; raise CudaError for a status."""
    status = result[0]
    if status != runtime.cudaError_t.cudaSuccess:
        _, text = runtime.cudaGetErrorString(status)
        raise CudaError(f"{what} on the GPU failed: {text.decode()}")
    return result[1] if len(result) > 1 else None
