"""Unpacks archives of environments by `tarfile` with its filter `data` (PEP 706)."""

from __future__ import annotations

import contextlib
import errno
import gzip
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from endcap.environment.errors import ExecutionEnvironmentError

_GZIP = b"\x1f\x8b"  # RFC 1952
_CHUNK_BYTES = 1 << 20
_AGAIN = "copy it again, or make it again by `endcap env pack`"
# What `gzip` and `tarfile` raise for damaged archives, in addition to EOFError and OSError.
_DAMAGE = (
    tarfile.TarError,
    zlib.error,
    gzip.BadGzipFile,
    KeyError,
    ValueError,
    OverflowError,
    RecursionError,
)
# Members that are in each other's way, or links to each other.
_COLLISIONS = (errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ELOOP)


def unpack(archive: Path, folder: Path) -> None:
    """Extract a tar.gz into `folder`, which is empty, and verify its checksum.

    Raises:
        ExecutionEnvironmentError: The archive is truncated, damaged, not a tar.gz, or has members
            that would leave the folder, or this Python has no filter against those.
        OSError: The archive cannot be read, or the folder cannot be written.
    """
    try:
        with _open_tar(archive) as content:
            try:
                content.extractall(folder, filter="data")
            except OSError as error:
                if error.errno in _COLLISIONS:
                    raise tarfile.ExtractError(str(error)) from error
                raise
    except EOFError as error:
        raise ExecutionEnvironmentError(
            f"{archive} is broken off after {archive.stat().st_size} bytes; {_AGAIN}"
        ) from error
    except _DAMAGE as error:
        raise ExecutionEnvironmentError(
            f"{archive} is damaged, or has unsafe members ({error}); {_AGAIN}"
        ) from error


@contextlib.contextmanager
def _open_tar(archive: Path) -> Iterator[tarfile.TarFile]:
    """Yield the content of a tar.gz; its checksum is verified at the end."""
    if not hasattr(tarfile, "data_filter"):
        raise ExecutionEnvironmentError(
            "this Python cannot unpack archives safely; use Python 3.10.12, 3.11.4, 3.12 or later"
        )
    if archive.exists() and not archive.is_file() and not archive.is_dir():
        raise ExecutionEnvironmentError(
            f"{archive} is a pipe or a device, which may never end; give a file"
        )
    with archive.open("rb") as file:
        if file.read(len(_GZIP)) != _GZIP:
            raise ExecutionEnvironmentError(
                f"{archive} is not a tar.gz, the only archive that Triton unpacks; "
                "pack it by `endcap env pack`, or by `conda-pack --format tar.gz`"
            )
        file.seek(0)
        with gzip.open(file) as stream:
            with tarfile.open(fileobj=stream) as content:
                yield content
            while stream.read(_CHUNK_BYTES):  # what follows the last file
                pass
