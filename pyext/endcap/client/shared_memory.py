"""Pools of shared-memory regions that are registered with a server on this machine.

A GPU's regions are made by `tritonclient.utils.cuda_shared_memory`, those of /dev/shm here:
`tritonclient.utils.shared_memory` reserves no pages, so that a full /dev/shm ends the program by
SIGBUS, and unmaps a region while arrays in it are alive, so that reading one ends it by SIGSEGV.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import dataclasses
import functools
import importlib
import itertools
import math
import mmap
import os
import re
import stat
import struct
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from endcap import _core, _cuda_input, errors
from endcap._device import Target
from endcap._pip_commands import install_command
from endcap.client.concurrency import Tasks, run
from endcap.client.connection import Connection, read_items
from endcap.client.errors import UNREADABLE, RequestError, unreadable
from endcap.client.options import ConnectionOptions, parse_address
from endcap.client.transport import import_client
from endcap.cuda_array import CudaArray

FOLDER = Path("/dev/shm")
# Of user and PID namespace, process, its start time, and a number in the process.
_NAME = re.compile(r"endcap-([0-9]+-[0-9]+)-([0-9]+)-([0-9]+)-[0-9]+")
_ALIGNMENT = 64  # a cache line
# Failures of requests that have ended. After all others the server may still write the response.
_ENDED = {"corrupt_image", "image_limit", "unsupported", "invalid_argument", "cuda"}
_ENDED.add("out_of_memory")
_NO_SERVER = {"unavailable", "timeout", "cancelled"}
# Seconds for a server to unregister regions, between checks, and the least for a request.
_CLOSING_S, _WAIT_S, _MIN_S = 3.0, 0.05, 0.1
_numbers = itertools.count()

Kind = Literal["system", "cuda"]
Shape = tuple[int, ...]
Send = Callable[..., Any]
DType = np.dtype[Any] | type


def new_name() -> str:
    """Return the name of a new region."""
    return f"endcap-{_owner()}-{os.getpid()}-{_start_time(os.getpid())}-{next(_numbers)}"


def is_abandoned(name: str, in_file: bool = True) -> bool:
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


class _Region:
    """A file in /dev/shm whose pages are reserved. Its memory lives as long as arrays in it."""

    is_lent = False
    is_retired = False  # never lent again, and removed when the server has unregistered it
    views: Callable[[], Any] = staticmethod(lambda: None)  # of the last lease: None without any

    def __init__(self, byte_size: int, device_id: int) -> None:
        self.name = new_name()
        self.byte_size, self.device_id = byte_size, device_id
        self.registration: dict[str, Any] = {"name": self.name, "byte_size": byte_size}
        self._allocate()

    def _allocate(self) -> None:
        self.registration["key"] = f"/{self.name}"
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
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

    def _allocate(self) -> None:
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
    in one of kind "cuda" CudaArrays. Inputs and outputs are tritonclient's InferInput and
    InferRequestedOutput. Not thread-safe. After the block each call raises InvalidArgumentError.
    """

    def __init__(self, region: _Region, tritonclient: Any) -> None:
        self.region, self._tritonclient = region, tritonclient
        self.outputs: dict[str, tuple[int, int]] = {}  # offset and length of each
        self._exporter = region.exporter()
        self._end, self._pending = 0, False

    def put(self, name: str, array: Any) -> Any:
        """Copy an array into the region; return it as the input `name`.

        Args:
            name: The name of the input.
            array: Of any type but object; in a pool of kind "cuda" also one on the pool's GPU, by
                DLPack or the CUDA array interface.
        """
        array = self.region.accept(array, name)
        datatype, offset = self._datatype(name, array.dtype), self._reserve(name, array.nbytes)
        self.region.write(self._exporter, offset, array)
        return self._input(name, array.shape, datatype, offset, array.nbytes)

    def put_encoded(
        self, name: str, items: Sequence[bytes | bytearray | memoryview], shape: Shape
    ) -> Any:
        """Copy bytes-like elements of a BYTES tensor, images say; return the input `name`."""
        if math.prod(shape) != len(items):
            raise errors.InvalidArgumentError(f"{name} has {len(items)} elements, not {shape}")
        parts = [part for i in items for part in (struct.pack("<I", memoryview(i).nbytes), i)]
        arrays = [np.frombuffer(part, np.uint8) for part in parts if memoryview(part).nbytes]
        byte_size = sum(array.size for array in arrays)
        start = offset = self._reserve(name, byte_size)
        for array in arrays:
            self.region.write(self._exporter, offset, array)
            offset += array.size
        return self._input(name, shape, "BYTES", start, byte_size)

    def empty(self, name: str, shape: Shape, dtype: DType) -> tuple[Any, Any]:
        """Return an array in the region to be filled in place, and it as the input `name`."""
        dtype = np.dtype(dtype)
        datatype, byte_size = self._datatype(name, dtype), math.prod(shape) * dtype.itemsize
        offset = self._reserve(name, byte_size)
        view = self.region.view(self._exporter, offset, shape, dtype)
        return view, self._input(name, shape, datatype, offset, byte_size)

    def output(self, name: str, shape: Shape, dtype: DType) -> Any:
        """Return a request for the output `name`, with room for `shape` at the most."""
        self._datatype(name, np.dtype(dtype))
        byte_size = math.prod(shape) * np.dtype(dtype).itemsize
        offset = self._reserve(name, byte_size)
        self.outputs[name] = offset, byte_size
        requested = self._tritonclient.InferRequestedOutput(name)
        requested.set_shared_memory(self.region.name, byte_size, offset)
        return requested

    def read(self, name: str, result: Any) -> Any:
        """Return the output `name` as the server wrote it, without a copy; see the class.

        Args:
            name: Of an output that `output` has reserved room for.
            result: tritonclient's InferResult.

        Raises:
            RequestError: The output does not fit its room.
        """
        datatype, shape, _ = self._written(name, result)
        dtype = np.dtype(import_client("utils").triton_to_np_dtype(datatype))
        return self.region.view(self._exporter, self.outputs[name][0], shape, dtype)

    def as_input(self, name: str, result: Any, input_name: str) -> Any:
        """Return the output `name` as an input of another request, without a copy; see `read`."""
        datatype, shape, byte_size = self._written(name, result)
        return self._input(input_name, shape, datatype, self.outputs[name][0], byte_size)

    @contextlib.contextmanager
    def sending(self) -> Iterator[None]:
        """Enclose a request. Where the server may not have ended it, the region is retired."""
        self._check()
        self.region.finish()
        self._pending = True
        try:
            yield
        except RequestError as error:
            is_refused = error.region_lost or error.retry_after_s is not None
            self._pending = not is_refused and error.status_name not in _ENDED
            raise
        self._pending = False

    def end(self) -> None:
        """End the lease, and return the region to the pool."""
        self._check()
        self.region.views, self._exporter = weakref.ref(self._exporter), None
        self.region.is_retired = self.region.is_retired or self._pending
        self.region.is_lent = False

    def _check(self) -> None:
        if self._exporter is None:
            raise errors.InvalidArgumentError("the lease has ended; use it inside its block")

    def _datatype(self, name: str, dtype: np.dtype[Any]) -> str:
        datatype = import_client("utils").np_to_triton_dtype(dtype)
        if datatype is None or datatype == "BYTES":
            raise errors.InvalidArgumentError(
                f"{name} is of type {dtype}; give bool, integers or floats of up to 64 bits in "
                "this machine's byte order, and encoded images to put_encoded"
            )
        return str(datatype)

    def _input(self, name: str, shape: Shape, datatype: str, offset: int, byte_size: int) -> Any:
        given = self._tritonclient.InferInput(name, [*map(int, shape)], datatype)
        return given.set_shared_memory(self.region.name, byte_size, offset)

    def _reserve(self, name: str, byte_size: int) -> int:
        self._check()
        if byte_size < 1:
            raise errors.InvalidArgumentError(f"{name} has no elements; a region needs some")
        free = max(0, self.region.byte_size - self._end)
        if byte_size > free:
            raise errors.InvalidArgumentError(
                f"{name} needs {byte_size} bytes, and {free} of the region's "
                f"{self.region.byte_size} are free; give region_bytes={self._end + byte_size} "
                "or more (--region-bytes of the commands), or do without shared memory"
            )
        offset = self._end
        self._end += -(-byte_size // _ALIGNMENT) * _ALIGNMENT
        return offset

    def _written(self, name: str, result: Any) -> tuple[str, Shape, int]:
        """Return data type, shape and length of an output in the region."""
        self._check()
        room = self.outputs[name][1]
        try:
            told = result.get_output(name)
            is_json = isinstance(told, dict)
            datatype, shape = (
                (told["datatype"], told["shape"]) if is_json else (told.datatype, told.shape)
            )
            shape = tuple(map(int, shape))
            dtype = import_client("utils").triton_to_np_dtype(datatype)
            is_fixed = dtype is not None and datatype not in ("BYTES", "BF16")
            byte_size = math.prod(shape) * np.dtype(dtype).itemsize
            if not is_fixed or min(shape, default=0) < 0 or byte_size > room:
                raise ValueError(f"{name} came as {datatype} {shape}, and {room} bytes are for it")
        except UNREADABLE as error:
            raise unreadable(error) from error
        return datatype, shape, byte_size


class Pool:
    """Regions of shared memory, lent to one user at a time: what all kinds of pools share.

    What changes the regions uses another connection, and blocks; asyncio runs it in a thread.
    """

    _process = 0  # of a pool whose constructor has failed

    def __init__(
        self,
        connection: Connection,
        *,
        regions: int = 4,
        region_bytes: int,
        kind: Kind = "system",
        device_id: int = 0,
    ) -> None:
        if kind not in KINDS:
            raise errors.InvalidArgumentError(f"the kind {kind!r} is unknown; use system or cuda")
        for name, value in (("regions", regions), ("region_bytes", region_bytes)):
            if value < 1:
                raise errors.InvalidArgumentError(f"{name} is {value}; it must be at least 1")
        self._connection, self._runtime = connection, connection.runtime
        self._permits = self._runtime.make_semaphore(regions)
        self._limit, self._kind = regions, kind
        self._region_bytes, self._device_id = region_bytes, device_id
        self._regions: list[_Region] = []
        self._is_closed = False
        self._taking, self._changing = threading.Lock(), threading.Lock()
        self._process = os.getpid()
        _living.add(self)

    def __del__(self) -> None:
        self.remove_all()

    def __repr__(self) -> str:
        count = f"{len(self._regions)} {self._kind} regions"
        return f"<{type(self).__name__} of {count}, {self._connection.address}>"

    @property
    def names(self) -> list[str]:
        """The names of the regions that exist now."""
        return sorted(region.name for region in self._regions)

    def open(self) -> None:
        """Make and register the regions; remove those of dead processes."""
        remove_abandoned()
        if self._kind == "system":
            check_capacity(self._limit, self._region_bytes)
        try:
            with self._changes(self._deadline()) as send:
                for _ in range(self._limit):
                    self._make(send)
                in_file = self._kind == "system"
                self._release(send, [n for n in self._known(send) if is_abandoned(n, in_file)])
        except BaseException:
            self.remove_all()
            raise

    def end(self) -> None:
        """Wait for the leases, as long as a request may take, and remove all regions."""
        if os.getpid() == self._process and not self._is_closed:
            deadline = self._deadline()
            self._is_closed = True
            while any(region.is_lent for region in self._regions) and time.monotonic() < deadline:
                time.sleep(_WAIT_S)
            self.remove_all()

    def remove_all(self, seconds: float = _CLOSING_S) -> None:
        """Remove the regions; unregister them first, as far as the server responds in time."""
        if os.getpid() != self._process or not self._regions:
            return
        self._is_closed = True
        deadline = time.monotonic() + seconds
        try:
            with contextlib.suppress(errors.EndcapError), self._changes(deadline, 0) as send:
                while self._release(send, self.names):
                    if time.monotonic() > deadline:
                        break
                    time.sleep(_WAIT_S)
        finally:
            for region in self._regions:
                region.remove()
            self._regions = []

    @contextlib.asynccontextmanager
    async def lend(self, timeout_s: float | None = None) -> AsyncIterator[Lease]:
        """Lend a region for the block; see `SharedMemoryPool.acquire`."""
        deadline = self._deadline(timeout_s)
        if not await self._runtime.acquire(self._permits, max(deadline - time.monotonic(), 0)):
            raise RequestError(
                "timeout",
                f"all {self._limit} shared-memory regions were in use until the deadline; "
                "make the pool with more, or send less at once",
            )
        with contextlib.ExitStack() as ends:
            ends.callback(self._permits.release)
            while (lease := self._take()) is None:
                await self._runtime.call(self._add, deadline)
            ends.callback(lease.end)
            yield lease

    async def send(self, lease: Lease, arguments: dict[str, Any], timeout_s: float) -> Any:
        """Return tritonclient's InferResult of the arguments of `infer`.

        When the server does not know the region, as after a restart, all are registered again and
        the request is sent once more, within the same time.

        Raises:
            RequestError, TimeoutError: Of the request.
        """
        deadline = time.monotonic() + timeout_s
        try:
            with lease.sending():
                return await self._connection.infer(arguments, timeout_s)
        except RequestError as error:
            if not error.region_lost:
                raise
        await self._runtime.call(self._register_again, deadline)
        with lease.sending():
            return await self._connection.infer(arguments, _left_s(deadline))

    async def _infer(
        self,
        lease: Lease,
        model: str,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        *,
        timeout_s: float | None = None,
    ) -> Any:
        """Send a request that uses the lease's region; see `SharedMemoryPool.infer`."""
        arguments = {"model_name": model, "inputs": inputs, "outputs": outputs}
        send = functools.partial(self.send, lease, arguments)
        return await self._connection.repeat(send, timeout_s, is_repeatable=False)

    def _deadline(self, timeout_s: float | None = None) -> float:
        """Return the deadline of a call; raise an error where the pool cannot be used."""
        if os.getpid() != self._process:
            raise errors.UnsupportedError(
                "this pool of shared memory belongs to the parent process; make one after the fork"
            )
        if self._is_closed:
            raise errors.InvalidArgumentError(
                "the pool of shared memory is closed; make another one"
            )
        limit_s = self._connection.options.timeout_s if timeout_s is None else timeout_s
        return time.monotonic() + limit_s

    def _take(self) -> Lease | None:
        """Lend a free region; return None where `_add` has to make one."""
        self._deadline()  # it may have been closed during the wait
        with self._taking:
            for region in self._regions:
                if not region.is_lent and not region.is_retired and region.views() is None:
                    region.is_lent = True
                    return Lease(region, self._connection.module)
        return None

    def _add(self, deadline: float) -> None:
        """Remove the retired regions that the server has done with, and make one."""
        while True:
            with self._changes(deadline) as send:
                retired = [region.name for region in self._regions if region.is_retired]
                if self._release(send, retired) < 2 * self._limit:
                    return self._make(send)
            if time.monotonic() > deadline:
                message = "the server still works on requests that nobody waits for any more, and "
                raise RequestError("timeout", message + "may write to their regions; send less")
            time.sleep(_WAIT_S)

    def _register_again(self, deadline: float) -> None:
        """Register the regions that a restarted server does not have."""
        with self._changes(deadline) as send:
            known = self._known(send)
            for region in self._regions:
                if not region.is_retired and region.name not in known:
                    self._register(send, region)

    @contextlib.contextmanager
    def _changes(self, deadline: float, retries: int | None = None) -> Iterator[Send]:
        """Keep others from changing the regions; yield a function that sends a request."""
        if not self._changing.acquire(timeout=_left_s(deadline)):
            raise RequestError("timeout", "the server has not taken the regions of others in time")
        try:
            options = self._connection.options
            if retries is not None:
                options = dataclasses.replace(options, retries=retries)
            server = Connection(self._connection.address, options)

            def send(verb: str, noun: str = "", **arguments: Any) -> Any:
                method = f"{verb}_{self._kind}_shared_memory{noun}"
                return run(server.request(method, timeout_s=_left_s(deadline), **arguments))

            try:
                yield send
            finally:
                run(server.close())
        finally:
            self._changing.release()

    @staticmethod
    def _known(send: Send) -> set[str]:
        """Return the names of the regions that are registered with the server."""
        return {str(region.get("name")) for region in read_items(send("get", "_status"), "regions")}

    def _make(self, send: Send) -> None:
        """Make and register a region."""
        self._deadline()  # raises an error where the pool was closed meanwhile
        region = KINDS[self._kind](self._region_bytes, self._device_id)
        region.is_retired = True  # until it is registered
        self._regions.append(region)
        self._register(send, region)
        region.is_retired = False

    def _register(self, send: Send, region: _Region) -> None:
        try:
            send("register", **region.registration)
        except RequestError as error:
            if error.status_name in _NO_SERVER:
                raise
            with contextlib.suppress(RequestError):
                if region.name in self._known(send):
                    return  # the response to an earlier attempt was lost
            raise errors.UnsupportedError(
                f"the server does not take a shared-memory region ({error}); start it with "
                "`endcap serve --client-shared-memory` (others from release 2.69 on with "
                "--allow-client-shm=true), and let it see this machine's /dev/shm (in containers: "
                "--ipc=host) and open this user's files there; or do without shared memory"
            ) from error

    def _release(self, send: Send, names: Collection[str]) -> int:
        """Unregister regions and remove those of this pool.

        Returns the number of those that a request uses, which the server refuses.
        """
        for name in names:
            try:
                send("unregister", name=name)
            except RequestError as error:
                if error.status_name in _NO_SERVER:
                    raise
        left = self._known(send) & {*names} if names else set()
        for region in [r for r in self._regions if r.name in names and r.name not in left]:
            region.remove()
            self._regions.remove(region)
        return len(left)


_living: weakref.WeakSet[Pool] = weakref.WeakSet()


@atexit.register
def _remove_all_pools() -> None:
    deadline = time.monotonic() + _CLOSING_S
    for pool in list(_living):
        pool.remove_all(_left_s(deadline))


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


def _left_s(deadline: float) -> float:
    """Return the seconds until `deadline`, not fewer than a request needs."""
    return max(deadline - time.monotonic(), _MIN_S)


class SharedMemoryPool(Pool):
    """Regions of shared memory that are made and registered once, and lent to one user at a time.

    `SharedMemoryPool` is for threads, and opened when it is made. `AsyncSharedMemoryPool` is for
    the tasks of one event loop, and opened by `async with`.

    A region with living views at the end of its lease is lent again when they are gone; until then
    another takes its place. A region whose request has no response, as at a timeout, is retired,
    and removed when the server has done with it; of these there are at most twice `regions` more.
    All are removed by `close`, at the end of the program, and when the pool is garbage-collected;
    those of killed processes when the same user's next pool is made. In a forked child the pool
    cannot be used, and does not touch the parent's regions.

    Args:
        url: Of a server on this machine, as for `DetectionClient`.
        options: Of the connection.
        settings: regions, the number of regions that can be lent at once, 4 by default;
            region_bytes, the size of each; kind, "system", the default, or "cuda", in the memory
            of the GPU device_id, by default 0.

    Raises:
        OutOfMemoryError: /dev/shm has no room for it.
        UnsupportedError: The server cannot use the memory.
        RequestError: The server does not respond.
    """

    def __init__(
        self, url: str, *, options: ConnectionOptions | None = None, **settings: Any
    ) -> None:
        address = parse_address(url)
        super().__init__(Connection(address, options or ConnectionOptions()), **settings)
        self.open()

    def __enter__(self) -> SharedMemoryPool:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @contextlib.contextmanager
    def acquire(self, timeout_s: float | None = None) -> Iterator[Lease]:
        """Lend a region for the block; wait for one for at most `timeout_s` seconds.

        Args:
            timeout_s: None is the connection's.

        Raises:
            RequestError: With the status "timeout" when no region becomes free.
        """
        block = self.lend(timeout_s)
        lease = run(block.__aenter__())
        try:
            yield lease
        finally:
            run(block.__aexit__(None, None, None))

    def infer(
        self,
        lease: Lease,
        model: str,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        *,
        timeout_s: float | None = None,
    ) -> Any:
        """Send a request that uses the lease's region; return tritonclient's InferResult.

        When the server does not know the region, as after a restart, all are registered again and
        the request is sent once more, within the same time. Other errors are not retried.
        """
        return run(self._infer(lease, model, inputs, outputs, timeout_s=timeout_s))

    def close(self) -> None:
        """Wait for the leases, as long as a request may take, and remove all regions.

        Meanwhile no region is lent, and requests of the leases continue. A server that does not
        respond delays it by a few seconds at most.
        """
        self.end()
        run(self._connection.close())


class AsyncSharedMemoryPool(Pool):
    """`SharedMemoryPool` for the tasks of one event loop."""

    acquire = Pool.lend
    infer = Pool._infer

    def __init__(
        self, url: str, *, options: ConnectionOptions | None = None, **settings: Any
    ) -> None:
        address = parse_address(url)
        super().__init__(Connection(address, options or ConnectionOptions(), Tasks()), **settings)

    async def __aenter__(self) -> AsyncSharedMemoryPool:
        await self._runtime.call(self.open)
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """See `SharedMemoryPool.close`."""
        await self._runtime.call(self.end)
        await self._connection.close()
