"""Regions of memory that a server on this machine maps, and leases: tensors in a region.

Regions of a GPU's memory are made by `tritonclient.utils.cuda_shared_memory`. Those of /dev/shm are
mapped here: `tritonclient.utils.shared_memory` does not reserve pages, so that a full /dev/shm ends
the writer by SIGBUS, and cannot remove a region while an array in it is alive.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import itertools
import math
import mmap
import os
import re
import stat
import struct
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from endcap import _core, _cuda_input, errors
from endcap._device import Target
from endcap._pip_commands import install_command
from endcap.client import calls
from endcap.client.errors import RequestError
from endcap.cuda_array import CudaArray

FOLDER = Path("/dev/shm")
# Of user and PID namespace, process, its start time, and a number in the process.
_NAME = re.compile(r"endcap-([0-9]+-[0-9]+)-([0-9]+)-([0-9]+)-[0-9]+")
_ALIGNMENT = 64  # a cache line
_SIZED = calls.DATATYPES - {"BYTES", "BF16"}  # with elements of one size, and a NumPy type
# Failures of requests that have ended. After all others the server may still write the response.
_ENDED = {
    "corrupt_image",
    "image_limit",
    "unsupported",
    "invalid_argument",
    "cuda",
    "out_of_memory",
}
_numbers = itertools.count()

Shape = tuple[int, ...]
DType = np.dtype[Any] | type


def new_name() -> str:
    """Return the name of a new region."""
    return f"endcap-{_owner()}-{os.getpid()}-{_start_time(os.getpid())}-{next(_numbers)}"


def is_abandoned(name: str, *, in_file: bool = True) -> bool:
    """Whether a region of this name was this user's, and its process is dead or its file removed.

    Regions of other PID namespaces, where process ids have other meanings, are not.
    """
    match = _NAME.fullmatch(name)
    if match is None or match[1] != _owner():
        return False
    return _start_time(int(match[2])) != match[3] or (in_file and not (FOLDER / name).exists())


def remove_abandoned() -> None:
    """Remove the files of this user's regions whose processes are dead."""
    for entry in os.scandir(FOLDER) if FOLDER.is_dir() else ():
        if is_abandoned(entry.name):
            with contextlib.suppress(FileNotFoundError):  # another process has removed it
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
                    os.unlink(entry.path)


def _owner() -> str:
    return f"{os.geteuid()}-{os.stat('/proc/self/ns/pid').st_ino}"


def _start_time(process: int) -> str | None:
    """Return a process's start time in clock ticks since boot, None where it has ended."""
    try:
        status = Path(f"/proc/{process}/stat").read_text(errors="replace")
    except OSError:
        return None
    state, *fields = status.rpartition(")")[2].split()
    return None if state in "ZX" else fields[18]


def check_capacity(regions: int, region_bytes: int) -> None:
    """Raise OutOfMemoryError for more than is free in /dev/shm."""
    status = os.statvfs(FOLDER)
    free = status.f_bavail * status.f_frsize
    if regions * region_bytes > free:
        raise errors.OutOfMemoryError(
            f"{regions} shared-memory regions of {region_bytes} bytes each do not fit into "
            f"{FOLDER}, where {free >> 20} MiB are free (in a container: --shm-size); give less "
            "regions= or region_bytes= (--region-bytes), or with their defaults less concurrency= "
            "or batch="
        )


class _Region:
    """A file in /dev/shm whose pages are reserved. Its memory lives as long as arrays in it."""

    lent = False
    retired = False  # never lent again, and removed when the server has unregistered it
    views: Callable[[], Any] = staticmethod(lambda: None)  # of the last lease: None without any

    def __init__(self, byte_size: int, device_id: int) -> None:
        self.name = new_name()
        self.byte_size = byte_size
        self.device_id = device_id
        self.registration: dict[str, Any] = {"name": self.name, "byte_size": byte_size}
        self.allocate()

    def allocate(self) -> None:
        self.registration["key"] = f"/{self.name}"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
        try:
            descriptor = os.open(FOLDER / self.name, flags, 0o600)
        except OSError as error:
            raise errors.UnsupportedError(
                f"cannot create a file in {FOLDER} ({error.strerror}); shared memory needs it: "
                "mount a tmpfs there, or do without"
            ) from error
        try:
            os.posix_fallocate(descriptor, 0, self.byte_size)
            self._mapping = mmap.mmap(descriptor, self.byte_size)
        except (OSError, OverflowError) as error:
            self.remove()
            raise errors.OutOfMemoryError(
                f"{FOLDER} has no room for {self.byte_size} bytes; make it larger (in a container: "
                "--shm-size), or take fewer or smaller regions"
            ) from error
        finally:
            os.close(descriptor)

    def exporter(self) -> Any:
        """Return an object that lives as long as the views made of it."""
        return (ctypes.c_ubyte * self.byte_size).from_buffer(self._mapping)

    def view(self, exporter: Any, offset: int, shape: Shape, dtype: np.dtype[Any]) -> Any:
        return np.frombuffer(exporter, dtype, math.prod(shape), offset).reshape(shape)

    def accept(self, array: Any, name: str) -> Any:
        """Return an array that `write` takes; `name` is for the error."""
        _cuda_input.refuse_gradient(array, name)
        _cuda_input.refuse_cuda(array, name)
        return np.asarray(array)

    def write(self, exporter: Any, offset: int, array: Any) -> None:
        np.copyto(self.view(exporter, offset, array.shape, array.dtype), array)

    def finish(self) -> None:
        """Wait until the server can see what was written."""

    def remove(self) -> None:
        (FOLDER / self.name).unlink(missing_ok=True)


class _CudaRegion(_Region):
    """Memory of a GPU, which is freed with the last array in it."""

    def allocate(self) -> None:
        try:
            self._runtime: Any = importlib.import_module("cuda.bindings.runtime")
            self._client: Any = importlib.import_module("tritonclient.utils.cuda_shared_memory")
        except (ImportError, RuntimeError) as error:
            raise errors.UnsupportedError(
                f"shared memory on a GPU needs the package cuda-bindings ({error}); "
                f"run `{install_command('cuda')}`"
            ) from error
        make = self._client.create_shared_memory_region
        try:
            self._memory = make(self.name, self.byte_size, self.device_id)
        except self._client.CudaSharedMemoryException as error:
            message = f"sharing {self.byte_size} bytes on the GPU failed"
            raise errors.CudaError(f"{message}: {error.__cause__ or error}") from error
        handle = self._client.get_raw_handle(self._memory)
        self.registration |= {"raw_handle": handle, "device_id": self.device_id}

    def exporter(self) -> Any:
        return self._tensor(int(self._memory._base_addr), (self.byte_size,), "|u1", self._memory)

    def view(self, exporter: Any, offset: int, shape: Shape, dtype: np.dtype[Any]) -> Any:
        return CudaArray(self._tensor(exporter.pointer + offset, shape, dtype.str, exporter))

    def _tensor(self, pointer: int, shape: Shape, dtype: str, owner: object) -> _core.CudaTensor:
        return _core.CudaTensor.borrow(pointer, dtype, list(shape), None, self.device_id, 0, owner)

    def accept(self, array: Any, name: str) -> Any:
        _cuda_input.refuse_gradient(array, name)
        if _cuda_input.device_of(array) is None:
            return np.asarray(array, order="C")
        tensor = _cuda_input.borrow(array, Target(self.device_id), name)
        if not tensor.contiguous:
            raise errors.InvalidArgumentError(f"{name} is not C-contiguous; make such a copy of it")
        return CudaArray(tensor)

    def write(self, exporter: Any, offset: int, array: Any) -> None:
        on_gpu = isinstance(array, CudaArray)
        source = array._tensor.pointer if on_gpu else array.ctypes.data
        kind = self._runtime.cudaMemcpyKind.cudaMemcpyDefault
        # The copy comes after the work that fills the array, and before its memory is freed.
        if on_gpu:
            _core.order_cuda_after(self.device_id, 0, array.stream)
        self._call("cudaMemcpy", exporter.pointer + offset, source, array.nbytes, kind)
        if on_gpu:
            _core.order_cuda_after(self.device_id, array.stream, 0)

    def finish(self) -> None:
        self._call("cudaDeviceSynchronize")

    def remove(self) -> None:
        self._client.destroy_shared_memory_region(self._memory)

    def _call(self, name: str, *arguments: Any) -> None:
        before = self._runtime.cudaGetDevice()[1]
        self._runtime.cudaSetDevice(self.device_id)
        status = getattr(self._runtime, name)(*arguments)[0]
        self._runtime.cudaSetDevice(before)
        if status != self._runtime.cudaError_t.cudaSuccess:
            text = self._runtime.cudaGetErrorString(status)[1].decode()
            raise errors.CudaError(f"{name} on the GPU failed: {text}")


KINDS: dict[str, type[_Region]] = {"system": _Region, "cuda": _CudaRegion}


class Lease:
    """A region that is lent until the block of `pool.acquire()` ends.

    Memory is allocated from its start, aligned to 64 bytes, and freed with the lease as a whole.
    Views may outlive the lease, the pool and the region's name; their memory is then used for
    nothing else until the last of them is gone. In a pool of kind "system" they are NumPy arrays,
    in one of kind "cuda" CudaArrays. Not thread-safe. After the block each call raises
    InvalidArgumentError.
    """

    def __init__(self, region: _Region) -> None:
        self.region = region
        self._exporter = region.exporter()
        self._end = 0
        self._pending = 0

    @property
    def free_bytes(self) -> int:
        """How much room is left."""
        return max(0, self.region.byte_size - self._end)

    def put(self, name: str, array: Any) -> calls.InputTensor:
        """Copy an array into the region; return it as the input `name`.

        Args:
            name: The name of the input.
            array: Of any type but object; in a pool of kind "cuda" also one on the pool's GPU, by
                DLPack or the CUDA array interface.
        """
        array = self.region.accept(array, name)
        if array.dtype.hasobject:
            raise errors.InvalidArgumentError(f"{name} is an array of objects; use put_encoded")
        shape, datatype = tuple(array.shape), calls.triton_type(array.dtype)
        if 0 in shape:  # the server has no empty parts of a region
            return calls.InputTensor.of(name, np.empty(shape, array.dtype))
        part = self._reserve(name, array.nbytes)
        self.region.write(self._exporter, part.offset, array)
        return calls.InputTensor(name, shape, datatype, part)

    def put_encoded(
        self, name: str, items: Sequence[bytes | bytearray | memoryview], shape: Shape
    ) -> calls.InputTensor:
        """Copy bytes-like elements of a BYTES tensor, images say; return the input `name`."""
        if math.prod(shape) != len(items):
            raise errors.InvalidArgumentError(f"{name} has {len(items)} elements, not {shape}")
        parts = [part for i in items for part in (struct.pack("<I", memoryview(i).nbytes), i)]
        arrays = [np.frombuffer(part, np.uint8) for part in parts if memoryview(part).nbytes]
        room = self._reserve(name, sum(array.size for array in arrays))
        offset = room.offset
        for array in arrays:
            self.region.write(self._exporter, offset, array)
            offset += array.size
        return calls.InputTensor(name, shape, "BYTES", room)

    def empty(self, name: str, shape: Shape, dtype: DType) -> tuple[Any, calls.InputTensor]:
        """Return an array in the region to be filled in place, and it as the input `name`."""
        datatype = calls.triton_type(np.dtype(dtype))
        part = self._reserve(name, math.prod(shape) * np.dtype(dtype).itemsize)
        view = self.region.view(self._exporter, part.offset, shape, np.dtype(dtype))
        return view, calls.InputTensor(name, tuple(shape), datatype, part)

    def output(self, name: str, shape: Shape, dtype: DType) -> calls.OutputTensor:
        """Return a request for the output `name`, with room for `shape` at the most."""
        if calls.triton_type(np.dtype(dtype)) == "BYTES":
            raise errors.UnsupportedError(f"{name} is of type BYTES, which no region can hold")
        byte_size = math.prod(shape) * np.dtype(dtype).itemsize
        return calls.OutputTensor(name, self._reserve(name, byte_size))

    def read(self, output: calls.OutputTensor, response: calls.Response) -> Any:
        """Return the output as the server wrote it, without a copy; see the class.

        Raises:
            RequestError: The response does not fit the room that `output` has reserved.
        """
        told, part = self._written(output, response)
        dtype = calls.numpy_type(told.datatype)
        return self.region.view(self._exporter, part.offset, told.shape, dtype)

    def as_input(
        self, output: calls.OutputTensor, name: str, response: calls.Response
    ) -> calls.InputTensor:
        """Return what the server wrote as the input `name` of another request, without a copy."""
        told, part = self._written(output, response)
        return calls.InputTensor(name, told.shape, told.datatype, part)

    @contextlib.contextmanager
    def sending(self) -> Iterator[None]:
        """Enclose a request. Where the server may not have ended it, the region is retired."""
        self._check()
        self.region.finish()
        self._pending += 1
        try:
            yield
        except RequestError as error:
            self._pending -= error.region_lost or error.status_name in _ENDED
            raise
        except errors.EndcapError:  # a request that cannot be made
            self._pending -= 1
            raise
        self._pending -= 1

    def end(self) -> None:
        """End the lease, and return the region to the pool."""
        self._check()
        self.region.views, self._exporter = weakref.ref(self._exporter), None
        self.region.retired = self.region.retired or self._pending > 0
        self.region.lent = False

    def _check(self) -> None:
        if self._exporter is None:
            raise errors.InvalidArgumentError("the lease has ended; use it inside its block")

    def _reserve(self, name: str, byte_size: int) -> calls.SharedSlice:
        self._check()
        if byte_size < 1:
            raise errors.InvalidArgumentError(f"{name} has no elements; a region needs some")
        if byte_size > self.free_bytes:
            raise errors.InvalidArgumentError(
                f"{name} needs {byte_size} bytes, and {self.free_bytes} of the region's "
                f"{self.region.byte_size} are free; give region_bytes={self._end + byte_size} "
                "or more (--region-bytes of the commands), or do without shared memory"
            )
        offset = self._end
        self._end += -(-byte_size // _ALIGNMENT) * _ALIGNMENT
        return calls.SharedSlice(self.region.name, offset, byte_size)

    def _written(
        self, output: calls.OutputTensor, response: calls.Response
    ) -> tuple[calls.TensorSpec, calls.SharedSlice]:
        self._check()
        room, told = output.shared, response.shared.get(output.name)
        if room is None or told is None:
            message = f"the response does not say that {output.name} is in shared memory"
            raise RequestError("internal", message)
        if told.datatype in _SIZED and min(told.shape, default=0) >= 0:
            byte_size = math.prod(told.shape) * calls.numpy_type(told.datatype).itemsize
            if byte_size <= room.byte_size:
                return told, replace(room, byte_size=byte_size)
        message = f"{output.name} came as {told.datatype} {told.shape}, which does not fit the "
        raise RequestError("internal", message + f"{room.byte_size} bytes reserved for it")
