"""Shared-memory regions, in /dev/shm or on a GPU: names, memory, leases.

`tritonclient.utils.cuda_shared_memory` allocates those on a GPU. Those in /dev/shm are made here:
`tritonclient.utils.shared_memory` reserves no pages, so that a full /dev/shm ends the program by
SIGBUS, and unmaps a region while arrays in it are alive, so that reading one ends it by SIGSEGV.
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
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

import endcap._core as _core
from endcap._arrays import find_device, require_host
from endcap._pip_commands import install_command
from endcap.client.connection import import_client
from endcap.client.errors import UNREADABLE, RequestError, unreadable_error
from endcap.cuda_array import CudaArray, Target
from endcap.errors import (
    CudaError,
    InvalidArgumentError,
    OutOfMemoryError,
    Status,
    UnsupportedError,
)

FOLDER = Path("/dev/shm")
# User and PID namespace, process, its start time, and a number in the process.
_NAME = re.compile(r"endcap-([0-9]+-[0-9]+)-([0-9]+)-([0-9]+)-[0-9]+")
_numbers = itertools.count()
_ALIGNMENT = 64  # a cache line
# Failures of requests that have ended. After all others the server may still write the response.
_ENDED = {status.label for status in Status} - {"ok", "internal"}

Kind = Literal["system", "cuda"]
Shape = tuple[int, ...]
DType = np.dtype[Any] | type


def make_name() -> str:
    """Return the name of a new region."""
    return f"endcap-{_owner()}-{os.getpid()}-{_read_start_time(os.getpid())}-{next(_numbers)}"


def is_abandoned(name: str, *, has_file: bool = True) -> bool:
    """Whether a region was made by a dead process of this user, or has lost its file.

    Regions of other PID namespaces do not count: process ids have other meanings there.
    """
    match = _NAME.fullmatch(name)
    if match is None or match[1] != _owner():
        return False
    return _read_start_time(int(match[2])) != match[3] or (
        has_file and not (FOLDER / name).exists()
    )


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


def _read_start_time(process: int) -> str | None:
    """Return a process's start time in clock ticks since boot, None if it has ended."""
    try:
        status = Path(f"/proc/{process}/stat").read_text(errors="replace")
    except OSError:
        return None
    state, *fields = status.rpartition(")")[2].split()
    return None if state in "ZX" else fields[18]


def check_capacity(regions: int, region_bytes: int) -> None:
    """Raise OutOfMemoryError if these regions do not fit into /dev/shm, before it is filled."""
    status = os.statvfs(FOLDER)
    free = status.f_bavail * status.f_frsize
    if regions * region_bytes > free:
        raise OutOfMemoryError(
            f"{regions} shared-memory regions of {region_bytes} bytes each do not fit into "
            f"{FOLDER}, where {free >> 20} MiB are free (in a container: --shm-size); reduce "
            "regions= or region_bytes= (--region-bytes), or with their defaults concurrency= or "
            "batch="
        )


class Region:
    """A file in /dev/shm whose pages are reserved. Its memory lives as long as arrays in it.

    Attributes:
        registration: The arguments of tritonclient's method that registers it.
        is_retired: Whether it is never lent again, and removed when the server has unregistered it.
        views: Returns None when no view of the last lease is alive.
    """

    def __init__(self, byte_size: int, device_id: int = 0) -> None:
        self.name = make_name()
        self.byte_size, self.device_id = byte_size, device_id
        self.registration: dict[str, Any] = {"name": self.name, "byte_size": byte_size}
        self.is_lent = self.is_retired = False
        self.views: Callable[[], Any] = lambda: None
        self._allocate()

    def _allocate(self) -> None:
        self.registration["key"] = f"/{self.name}"
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
            descriptor = os.open(FOLDER / self.name, flags, 0o600)
        except OSError as error:
            raise UnsupportedError(
                f"cannot create a file in {FOLDER} ({error.strerror}); shared memory needs it: "
                "mount a tmpfs there, or do without"
            ) from error
        try:
            os.posix_fallocate(descriptor, 0, self.byte_size)
            self._mapping = mmap.mmap(descriptor, self.byte_size)
        except (OSError, OverflowError) as error:
            self.remove()
            raise OutOfMemoryError(
                f"{FOLDER} has no room for {self.byte_size} bytes; make it larger (in a container: "
                "--shm-size), or use fewer or smaller regions"
            ) from error
        finally:
            os.close(descriptor)

    def exporter(self) -> Any:
        """Return an object that lives as long as the views made from it."""
        return (ctypes.c_ubyte * self.byte_size).from_buffer(self._mapping)

    def view(self, exporter: Any, offset: int, shape: Shape, dtype: np.dtype[Any]) -> Any:
        """Return an array in the region's memory."""
        return np.frombuffer(exporter, dtype, math.prod(shape), offset).reshape(shape)

    def accept(self, array: Any, name: str) -> Any:
        """Return an array that `write` takes; `name` is for the error."""
        require_host(array, name)
        return np.asarray(array)

    def write(self, exporter: Any, offset: int, array: Any) -> None:
        """Copy an array into the region's memory."""
        np.copyto(self.view(exporter, offset, array.shape, array.dtype), array)

    def finish(self) -> None:
        """Wait until the server can see what was written."""

    def remove(self) -> None:
        """Remove the region; its memory remains until the last view is gone."""
        (FOLDER / self.name).unlink(missing_ok=True)


class _CudaRegion(Region):
    """Memory of a GPU, which is freed with the last array in it."""

    def _allocate(self) -> None:
        try:
            self._runtime: Any = importlib.import_module("cuda.bindings.runtime")
            self._client: Any = importlib.import_module("tritonclient.utils.cuda_shared_memory")
        except (ImportError, RuntimeError) as error:
            raise UnsupportedError(
                f"shared memory on a GPU needs the package cuda-bindings ({error}); "
                f"run `{install_command('cuda')}`"
            ) from error
        create = self._client.create_shared_memory_region
        try:
            self._memory = create(self.name, self.byte_size, self.device_id)
        except self._client.CudaSharedMemoryException as error:
            message = f"sharing {self.byte_size} bytes on the GPU failed"
            raise CudaError(f"{message}: {error.__cause__ or error}") from error
        handle = self._client.get_raw_handle(self._memory)
        self.registration |= {"raw_handle": handle, "device_id": self.device_id}

    def exporter(self) -> Any:
        return self._borrow(int(self._memory._base_addr), (self.byte_size,), "|u1", self._memory)

    def view(self, exporter: Any, offset: int, shape: Shape, dtype: np.dtype[Any]) -> Any:
        return CudaArray(self._borrow(exporter.pointer + offset, shape, dtype.str, exporter))

    def _borrow(self, pointer: int, shape: Shape, dtype: str, owner: object) -> _core.CudaTensor:
        return _core.CudaTensor.borrow(pointer, dtype, list(shape), None, self.device_id, 0, owner)

    def accept(self, array: Any, name: str) -> Any:
        if find_device(array) is None:
            require_host(array, name)
            return np.asarray(array, order="C")
        tensor = Target(self.device_id).borrow(array, name)
        if not tensor.contiguous:
            raise InvalidArgumentError(f"{name} is not C-contiguous; pass a contiguous copy")
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
            raise CudaError(f"{name} on the GPU failed: {text}")


KINDS: dict[Kind, type[Region]] = {"system": Region, "cuda": _CudaRegion}


class Lease:
    """A region that is lent until the block of `pool.acquire()` ends.

    Memory is allocated from its start, aligned to 64 bytes, and freed with the lease as a whole.
    Views may outlive the lease, the pool and the region's name; their memory is then used for
    nothing else until the last of them is gone. In a pool of kind "system" they are NumPy arrays,
    in one of kind "cuda" CudaArrays. Inputs and outputs are tritonclient's InferInput and
    InferRequestedOutput. Not thread-safe. After the block each call raises InvalidArgumentError.
    """

    def __init__(self, region: Region, tritonclient: Any) -> None:
        self.region, self._tritonclient = region, tritonclient
        self.outputs: dict[str, tuple[int, int]] = {}  # offset and length of each
        self._exporter = region.exporter()
        self._end, self._is_pending = 0, False

    def put(self, name: str, array: Any) -> Any:
        """Copy an array into the region; return it as the input `name`.

        Args:
            name: The name of the input.
            array: Of any type but object; in a pool of kind "cuda" also one on the pool's GPU, by
                DLPack or the CUDA array interface.
        """
        array = self.region.accept(array, name)
        datatype, offset = _find_datatype(name, array.dtype), self._reserve(name, array.nbytes)
        self.region.write(self._exporter, offset, array)
        return self._input(name, array.shape, datatype, offset, array.nbytes)

    def put_encoded(
        self, name: str, items: Sequence[bytes | bytearray | memoryview], shape: Shape
    ) -> Any:
        """Copy the elements of a BYTES tensor, such as encoded images; return the input `name`."""
        if math.prod(shape) != len(items):
            raise InvalidArgumentError(
                f"{name} has {len(items)} elements, and shape {shape} needs {math.prod(shape)}"
            )
        arrays = []
        for item in items:
            content = np.frombuffer(item, np.uint8)
            arrays += [np.array([content.size], "<u4").view(np.uint8), content]
        byte_size = sum(array.size for array in arrays)
        start = offset = self._reserve(name, byte_size)
        for array in arrays:
            self.region.write(self._exporter, offset, array)
            offset += array.size
        return self._input(name, shape, "BYTES", start, byte_size)

    def empty(self, name: str, shape: Shape, dtype: DType) -> tuple[Any, Any]:
        """Return an array in the region to be filled in place, and it as the input `name`."""
        dtype = np.dtype(dtype)
        datatype, byte_size = _find_datatype(name, dtype), math.prod(shape) * dtype.itemsize
        offset = self._reserve(name, byte_size)
        view = self.region.view(self._exporter, offset, shape, dtype)
        return view, self._input(name, shape, datatype, offset, byte_size)

    def output(self, name: str, shape: Shape, dtype: DType) -> Any:
        """Return a request for the output `name`, with room for at most `shape`."""
        dtype = np.dtype(dtype)
        _find_datatype(name, dtype)
        byte_size = math.prod(shape) * dtype.itemsize
        offset = self._reserve(name, byte_size)
        self.outputs[name] = offset, byte_size
        requested = self._tritonclient.InferRequestedOutput(name)
        requested.set_shared_memory(self.region.name, byte_size, offset)
        return requested

    def read(self, name: str, result: Any) -> Any:
        """Return the output `name` as the server wrote it, without a copy; see the class.

        Args:
            name: The name of an output that `output` has reserved room for.
            result: tritonclient's InferResult.

        Raises:
            RequestError: The output does not fit its room.
        """
        self._check()
        offset, room = self.outputs[name]
        try:
            output = result.get_output(name)
            if isinstance(output, dict):  # of HTTP
                datatype, shape = output["datatype"], output["shape"]
            else:
                datatype, shape = output.datatype, output.shape
            shape, dtype = tuple(map(int, shape)), find_fixed_dtype(datatype)
            is_valid = dtype is not None and min(shape, default=0) >= 0
            if dtype is None or not is_valid or math.prod(shape) * dtype.itemsize > room:
                raise ValueError(f"{name} is {datatype} {shape}, and has room for {room} bytes")
        except UNREADABLE as error:
            raise unreadable_error(error) from error
        return self.region.view(self._exporter, offset, shape, dtype)

    def as_input(self, name: str, result: Any, input_name: str) -> Any:
        """Return the output `name` as an input of another request, without a copy; see `read`."""
        view, (offset, _) = self.read(name, result), self.outputs[name]
        datatype = _find_datatype(input_name, view.dtype)
        return self._input(input_name, view.shape, datatype, offset, view.nbytes)

    @contextlib.contextmanager
    def sending(self) -> Iterator[None]:
        """Enclose a request. If the server may not have ended it, the region is retired."""
        self._check()
        self.region.finish()
        self._is_pending = True
        try:
            yield
        except RequestError as error:
            is_refused = error.region_lost or error.retry_after_s is not None
            self._is_pending = not is_refused and error.status_name not in _ENDED
            raise
        self._is_pending = False

    def end(self) -> None:
        """End the lease, and return the region to the pool."""
        self._check()
        self.region.views, self._exporter = weakref.ref(self._exporter), None
        self.region.is_retired = self.region.is_retired or self._is_pending
        self.region.is_lent = False

    def _check(self) -> None:
        if self._exporter is None:
            raise InvalidArgumentError("the lease has ended; use it inside its block")

    def _input(self, name: str, shape: Shape, datatype: str, offset: int, byte_size: int) -> Any:
        tensor = self._tritonclient.InferInput(name, [*map(int, shape)], datatype)
        return tensor.set_shared_memory(self.region.name, byte_size, offset)

    def _reserve(self, name: str, byte_size: int) -> int:
        """Return the offset of memory for a tensor."""
        self._check()
        if byte_size < 1:
            raise InvalidArgumentError(f"{name} has no elements; a region needs some")
        free = max(0, self.region.byte_size - self._end)
        if byte_size > free:
            raise InvalidArgumentError(
                f"{name} needs {byte_size} bytes, and {free} of the region's "
                f"{self.region.byte_size} are free; give region_bytes={self._end + byte_size} "
                "or more (--region-bytes of the commands), or do without shared memory"
            )
        offset = self._end
        self._end += -(-byte_size // _ALIGNMENT) * _ALIGNMENT
        return offset


def find_fixed_dtype(datatype: str) -> np.dtype[Any] | None:
    """Return NumPy's type for a type of Triton, None if elements have no fixed size or no type."""
    dtype = import_client("utils").triton_to_np_dtype(datatype)
    return None if dtype is None or datatype in ("BYTES", "BF16") else np.dtype(dtype)


def _find_datatype(name: str, dtype: np.dtype[Any]) -> str:
    """Return Triton's type for one of NumPy; raise InvalidArgumentError if there is none."""
    datatype = import_client("utils").np_to_triton_dtype(dtype)
    if datatype is None or datatype == "BYTES":
        raise InvalidArgumentError(
            f"{name} is of type {dtype}; give bool, integers or floats of up to 64 bits in "
            "this machine's byte order, and encoded images to put_encoded"
        )
    return str(datatype)
