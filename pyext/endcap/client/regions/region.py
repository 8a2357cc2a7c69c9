"""The interface of shared-memory regions, and regions in /dev/shm with their locked files."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import math
import mmap
import os
import re
import secrets
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from endcap._cuda_input import refuse_cuda, refuse_gradient
from endcap.client.calls import RegionKind
from endcap.client.regions.locked_file import LockedFile, lock_abandoned
from endcap.errors import InvalidArgumentError, OutOfMemoryError, UnsupportedError

FOLDER = Path("/dev/shm")

# No second hyphen: the regions that a launch of `endcap serve` removes by prefix all have one.
_OURS = re.compile(r"endcap-([0-9a-f]{16})([0-9a-f]{16})")
_TOKEN_BYTES = 8


def new_name(inode: int) -> str:
    """Return a name that no other region has, in any process or container.

    It holds a random token and a mark made of that and of the file's inode number: a file that
    this package has not made, or a copy, does not fit its name.
    """
    token = secrets.token_hex(_TOKEN_BYTES)
    return f"endcap-{token}{_mark(token, inode)}"


def _mark(token: str, inode: int) -> str:
    return hashlib.sha256(f"endcap region {token} {inode}".encode()).hexdigest()[: 2 * _TOKEN_BYTES]


def is_ours(name: str) -> bool:
    """Whether a file of /dev/shm, or a registration, has the form of a pool's name."""
    return _OURS.fullmatch(name) is not None


def _fits(name: str, descriptor: int) -> bool:
    """Whether an open file is the one that got its name from `new_name`."""
    match = _OURS.fullmatch(name)
    return match is not None and match[2] == _mark(match[1], os.fstat(descriptor).st_ino)


def key(name: str) -> str:
    """Return the name of this file for shm_open(3)."""
    return f"/{name}"


def new_region_file() -> LockedFile:
    """Make an empty file under a name of its own.

    Raises:
        UnsupportedError: There is no /dev/shm that can be written to.
    """
    try:
        return LockedFile(FOLDER, new_name)
    except OSError as error:
        raise UnsupportedError(
            f"no file can be made in {FOLDER} ({error.strerror}); shared memory needs it: "
            "mount a tmpfs there, or do without"
        ) from error


def remove_if_abandoned(name: str) -> bool:
    """Remove a file of this user's pools that no process holds; return whether there is none now.

    A file that a pool has not made stays, whatever its name.
    """
    try:
        descriptor = lock_abandoned(FOLDER / name)
    except FileNotFoundError:
        return True
    except OSError:  # another user's, or a link
        return False
    if descriptor is None:
        return False
    try:
        if not _fits(name, descriptor):
            return False
        with contextlib.suppress(FileNotFoundError):  # removed by its owner, in a forked child
            (FOLDER / name).unlink()
        return True
    finally:
        os.close(descriptor)


def remove_abandoned() -> list[str]:
    """Remove all files of this user's pools that no process holds; return their names."""
    if not FOLDER.is_dir():
        return []
    ours = [name for name in os.listdir(FOLDER) if is_ours(name)]
    return [name for name in ours if remove_if_abandoned(name)]


Kind = RegionKind
KINDS: tuple[Kind, ...] = ("system", "cuda")

_MEMINFO = Path("/proc/meminfo")
# The regions' pages are reserved for good, and /dev/shm may be as large as all memory. The rest is
# for the server, this program and others: without it the kernel kills one of them, first the
# server, which is the largest.
_SHARE_OF_AVAILABLE = 0.5
_MIB = 1 << 20
_ADVICE = (
    "take fewer or smaller ones: less regions= or region_bytes= (--region-bytes), or with their "
    "defaults less concurrency= or batch="
)


class Region(Protocol):
    """Memory that this process and a server see, under one name here and there.

    Views are made on an exporter, an object that keeps the memory, one for each lease: when it is
    gone, so are all views of that lease. The memory lives until the last exporter is gone, even if
    the region has been removed.
    """

    @property
    def name(self) -> str:
        """Its name in /dev/shm and with the server."""

    @property
    def byte_size(self) -> int:
        """Its size in bytes."""

    def registration(self) -> dict[str, Any]:
        """Return the arguments of `Connection.register_shared`."""

    def exporter(self) -> Any:
        """Return a new exporter, which weak references can watch."""

    def view(self, exporter: Any, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Return the array at `offset` bytes, without a copy."""

    def accept(self, array: Any, name: str) -> Any:
        """Return an array that `write` takes, with shape, dtype and nbytes as NumPy's have.

        Raises:
            InvalidArgumentError: For one that cannot be copied here; `name` is for the error.
        """

    def write(self, exporter: Any, offset: int, array: Any) -> None:
        """Copy an array that `accept` returned to `offset` bytes."""

    def finish(self) -> None:
        """Wait until all that this process has begun to write is there for the server."""

    def buffer(self, exporter: Any) -> memoryview:
        """Return all of it as bytes. Raises UnsupportedError for the memory of a GPU."""

    def remove(self) -> None:
        """Remove the name and the lock. In a forked child it does nothing."""


class SystemRegion:
    """A file of /dev/shm, whose memory is reserved: writing to it cannot fail.

    Raises OutOfMemoryError when /dev/shm has no room for `byte_size` bytes.
    """

    def __init__(self, byte_size: int) -> None:
        self._file = new_region_file()
        self.name = self._file.name
        self.byte_size = byte_size
        try:
            _reserve(self._file.descriptor, byte_size)
            self._mapping = _map(self.name, byte_size)
        except BaseException:
            self.remove()
            raise
        self._exporter_type = ctypes.c_ubyte * byte_size

    def registration(self) -> dict[str, Any]:
        """See Region."""
        return {
            "kind": "system",
            "name": self.name,
            "byte_size": self.byte_size,
            "key": key(self.name),
        }

    def exporter(self) -> Any:
        """See Region; it has the buffer protocol."""
        return self._exporter_type.from_buffer(self._mapping)

    def view(
        self, exporter: Any, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> NDArray[Any]:
        """See Region."""
        return np.frombuffer(exporter, dtype, math.prod(shape), offset).reshape(shape)

    def accept(self, array: Any, name: str) -> NDArray[Any]:
        """See Region."""
        refuse_gradient(array, name)
        refuse_cuda(array, name)
        return np.asarray(array)

    def write(self, exporter: Any, offset: int, array: Any) -> None:
        """See Region."""
        np.copyto(self.view(exporter, offset, array.shape, array.dtype), array)

    def finish(self) -> None:
        """See Region; the memory is the same."""

    def buffer(self, exporter: Any) -> memoryview:
        """See Region."""
        return memoryview(exporter).cast("B")

    def remove(self) -> None:
        """See Region."""
        self._file.remove()


def _reserve(descriptor: int, byte_size: int) -> None:
    if byte_size < 1:
        raise InvalidArgumentError(f"region_bytes is {byte_size}; it must be at least 1")
    try:
        os.posix_fallocate(descriptor, 0, byte_size)
    except (OSError, OverflowError) as error:
        status = os.statvfs(FOLDER)
        free_mib = status.f_bavail * status.f_frsize >> 20
        raise OutOfMemoryError(
            f"a region of {byte_size} bytes does not fit into {FOLDER}, where {free_mib} MiB are "
            "free; make it larger (in a container: --shm-size), or take fewer or smaller regions"
        ) from error


def _map(name: str, byte_size: int) -> mmap.mmap:
    # mmap keeps a duplicate of the descriptor, in forked children too; one of the descriptor that
    # holds the lock would keep the lock after the owner's death.
    descriptor = os.open(FOLDER / name, os.O_RDWR | os.O_CLOEXEC)
    try:
        return mmap.mmap(descriptor, byte_size)
    finally:
        os.close(descriptor)


def check_settings(kind: str, regions: int, region_bytes: int) -> None:
    """Raise InvalidArgumentError for settings that no pool can have."""
    if kind not in KINDS:
        raise InvalidArgumentError(f"shared memory of kind {kind!r} is unknown; use system or cuda")
    for name, value in (("regions", regions), ("region_bytes", region_bytes)):
        if value < 1:
            raise InvalidArgumentError(f"{name} is {value}; it must be at least 1")


def check_capacity(
    regions: int, region_bytes: int, *, folder: Path = FOLDER, meminfo: Path = _MEMINFO
) -> None:
    """Raise OutOfMemoryError where the regions do not fit into the available memory.

    Args:
        regions: The number of regions.
        region_bytes: The size of each.
        folder: The folder of the regions' files.
        meminfo: A file as proc(5) describes it.
    """
    needed = regions * region_bytes
    status = os.statvfs(folder)
    free = status.f_bavail * status.f_frsize
    if needed > free:
        raise OutOfMemoryError(
            f"{_regions(regions, region_bytes)} do not fit into {folder}, where {free // _MIB} MiB "
            f"are free; {_ADVICE}, or make it larger (in a container: --shm-size)"
        )
    available = _available_bytes(meminfo)
    if available is not None and needed > _SHARE_OF_AVAILABLE * available:
        raise OutOfMemoryError(
            f"{_regions(regions, region_bytes)} would leave too little memory to the server: "
            f"{available // _MIB} MiB are available, of which regions may take "
            f"{_SHARE_OF_AVAILABLE:.0%}; {_ADVICE}"
        )


def _regions(regions: int, region_bytes: int) -> str:
    needed = -(-regions * region_bytes // _MIB)
    return f"{regions} shared-memory regions of {region_bytes} bytes each, {needed} MiB in all,"


def _available_bytes(meminfo: Path) -> int | None:
    """Return MemAvailable, None for kernels before 3.14, which do not report it."""
    for line in meminfo.read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    return None
