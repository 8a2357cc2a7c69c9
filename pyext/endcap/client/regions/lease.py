"""Leases of shared-memory regions: tensors written to a region, and read from it without a copy."""

from __future__ import annotations

import contextlib
import math
import struct
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from endcap.client.calls import (
    InputTensor,
    OutputTensor,
    Response,
    SharedSlice,
    numpy_type,
    triton_type,
)
from endcap.client.errors import RequestError
from endcap.client.regions.region import Region
from endcap.errors import EndcapError, InvalidArgumentError, UnsupportedError

_ALIGNMENT = 64  # a cache line
_FIXED_SIZE = {"BOOL", "FP16", "FP32", "FP64"} | {
    f"{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)
}
# Failures that only a server reports, after it has finished the request. After all others it may
# still write the response.
_STATUS_AFTER_RESPONSE = {
    "corrupt_image",
    "image_limit",
    "unsupported",
    "invalid_argument",
    "cuda",
    "out_of_memory",
}


class Lease:
    """A region that is lent until the block of `pool.acquire()` ends.

    Memory is allocated from its start, aligned to 64 bytes, and freed with the lease as a whole.
    Views may outlive the lease, the pool and the region's name; their memory is then used for
    nothing else until the last of them is gone. In a pool of kind "system" they are NumPy arrays,
    in one of kind "cuda" CudaArrays. Not thread-safe. After the block each call raises
    InvalidArgumentError.
    """

    def __init__(self, region: Region) -> None:
        self._region = region
        self._exporter = region.exporter()
        self._end = 0
        self._pending = 0
        self._viewed: dict[str, None] = {}

    @property
    def region(self) -> Region:
        """The region itself."""
        return self._region

    @property
    def viewed(self) -> list[str]:
        """The names of the tensors of which there were views."""
        return list(self._viewed)

    @property
    def free_bytes(self) -> int:
        """How much room is left."""
        return max(0, self._region.byte_size - _aligned(self._end))

    def put(self, name: str, array: Any) -> InputTensor:
        """Copy an array into the region; return it as the input `name`.

        Args:
            name: The name of the input.
            array: Of any type but object; in a pool of kind "cuda" also one on the pool's GPU, by
                DLPack or the CUDA array interface.
        """
        array = self._region.accept(array, name)
        if array.dtype.hasobject:
            raise InvalidArgumentError(f"{name} is an array of objects; use put_encoded")
        shape = tuple(array.shape)
        datatype = triton_type(array.dtype)
        if 0 in shape:  # the server has no empty parts of a region
            return InputTensor.of(name, np.empty(shape, array.dtype))
        part = self._room(name, array.nbytes)
        self._region.write(self._exporter, part.offset, array)
        return InputTensor(name, shape, datatype, part)

    def put_encoded(
        self, name: str, items: Sequence[bytes | bytearray | memoryview], shape: tuple[int, ...]
    ) -> InputTensor:
        """Copy bytes-like elements of a BYTES tensor, images say; return the input `name`."""
        if math.prod(shape) != len(items):
            raise InvalidArgumentError(f"{name} has {len(items)} elements, not those of {shape}")
        parts: list[bytes | bytearray | memoryview] = []
        for item in items:
            parts += [struct.pack("<I", memoryview(item).nbytes), item]
        room = self._room(name, sum(memoryview(part).nbytes for part in parts))
        offset = room.offset
        for part in parts:
            flat = np.frombuffer(part, np.uint8)
            if flat.size:
                self._region.write(self._exporter, offset, flat)
            offset += flat.size
        return InputTensor(name, shape, "BYTES", room)

    def empty(
        self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any] | type
    ) -> tuple[Any, InputTensor]:
        """Return an array in the region to be filled in place, and it as the input `name`."""
        dtype = np.dtype(dtype)
        datatype = triton_type(dtype)
        part = self._room(name, math.prod(shape) * dtype.itemsize)
        view = self._view(name, part, tuple(shape), dtype)
        return view, InputTensor(name, tuple(shape), datatype, part)

    def output(
        self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any] | type
    ) -> OutputTensor:
        """Return a request for the output `name`, with room for `shape` at the most."""
        dtype = np.dtype(dtype)
        if dtype.hasobject:
            raise UnsupportedError(f"{name} is of type BYTES, which cannot be read from a region")
        triton_type(dtype)  # refuses a type that no server writes
        return OutputTensor(name, self._room(name, math.prod(shape) * dtype.itemsize))

    def read(self, output: OutputTensor, response: Response) -> Any:
        """Return the output as the server wrote it, without a copy; see the class.

        Raises:
            RequestError: The response does not fit the room that `output` has reserved.
        """
        shape, datatype, part = _written(output, response)
        return self._view(output.name, part, shape, numpy_type(datatype))

    def as_input(self, output: OutputTensor, name: str, response: Response) -> InputTensor:
        """Return what the server wrote as the input `name` of another request, without a copy."""
        self._exporter_or_raise()
        shape, datatype, part = _written(output, response)
        return InputTensor(name, shape, datatype, part)

    def view(self, offset: int, byte_size: int) -> memoryview:
        """Return a part of a region of kind "system" as bytes, which can be written."""
        if offset < 0 or byte_size < 0 or offset + byte_size > self._region.byte_size:
            raise InvalidArgumentError(
                f"bytes {offset} to {offset + byte_size} are not in the region's "
                f"{self._region.byte_size}"
            )
        whole = self._region.buffer(self._exporter_or_raise())
        self._viewed[f"bytes {offset} to {offset + byte_size}"] = None
        return whole[offset : offset + byte_size]

    @contextlib.contextmanager
    def sending(self) -> Iterator[None]:
        """Enclose a request that uses the region, as `pool.infer` does.

        When the block ends without a response of the server, as at a timeout, the server may still
        write: the region is then used for nothing else.
        """
        self._exporter_or_raise()  # the region may be lent again by now
        self._region.finish()
        self._pending += 1
        try:
            yield
        except RequestError as error:
            if error.status_name in _STATUS_AFTER_RESPONSE or error.region_lost:
                self._pending -= 1
            raise
        except EndcapError:  # a request that cannot be made, so that none was sent
            self._pending -= 1
            raise
        self._pending -= 1

    @property
    def has_all_responses(self) -> bool:
        """Whether the server has finished all requests of the lease."""
        return self._pending == 0

    def end(self) -> weakref.ref[Any] | None:
        """End the lease; return a reference that is alive while views are, None without views."""
        watched = weakref.ref(self._exporter_or_raise())
        self._exporter = None
        return watched if watched() is not None else None

    def _exporter_or_raise(self) -> Any:
        if self._exporter is None:
            raise InvalidArgumentError("the lease has ended; use it inside its block")
        return self._exporter

    def _view(
        self, name: str, part: SharedSlice, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> Any:
        view = self._region.view(self._exporter_or_raise(), part.offset, shape, dtype)
        self._viewed[name] = None
        return view

    def _room(self, name: str, byte_size: int) -> SharedSlice:
        self._exporter_or_raise()
        offset = _aligned(self._end)
        if byte_size < 1:
            raise InvalidArgumentError(f"{name} has no elements; shared memory holds no such")
        if offset + byte_size > self._region.byte_size:
            raise InvalidArgumentError(
                f"{name} needs {byte_size} bytes, and {self.free_bytes} of the region's "
                f"{self._region.byte_size} are free; give region_bytes={offset + byte_size} "
                "or more (--region-bytes of the commands), or do without shared memory"
            )
        self._end = offset + byte_size
        return SharedSlice(self._region.name, offset, byte_size)


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT


def _written(output: OutputTensor, response: Response) -> tuple[tuple[int, ...], str, SharedSlice]:
    written = response.shared.get(output.name)
    if output.shared is None or written is None:
        raise RequestError(
            "internal", f"the response does not say that {output.name} is in shared memory"
        )
    if written.datatype not in _FIXED_SIZE or any(side < 0 for side in written.shape):
        raise RequestError(
            "internal",
            f"{output.name} came as {written.datatype} {written.shape}, which is no array",
        )
    byte_size = math.prod(written.shape) * numpy_type(written.datatype).itemsize
    room = output.shared
    if byte_size > room.byte_size:
        raise RequestError(
            "internal",
            f"{output.name} came as {written.datatype} {written.shape}, {byte_size} bytes, for "
            f"{room.byte_size} reserved",
        )
    return written.shape, written.datatype, SharedSlice(room.region, room.offset, byte_size)
