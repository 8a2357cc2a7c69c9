"""Unpacks archives of environments by `tarfile` with its filter `data` (PEP 706)."""

from __future__ import annotations

import contextlib
import errno
import gzip
import re
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from endcap.environment.errors import ExecutionEnvironmentError, StubError

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
# Programs and libraries that a stub loads, and the files with the versions of packages.
_READ_BY_STUB = re.compile(
    r"(\./)?(bin/(activate|python[0-9.]*)"
    r"|pyvenv\.cfg"
    r"|lib/lib(python|stdc\+\+|gcc_s)[^/]*"
    r"|lib/python3\.\d+/(os\.py|site-packages/("
    r"[^/]*\.pth|(numpy|endcap)/(__init__|version)\.py|(numpy|endcap)-[^/]*-info/[^/]*)))"
)


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


def unpack_for_stub(archive: Path, target: Path) -> None:
    """Read a tar.gz to its end, and extract the files that the checks of a stub read.

    Raises:
        StubError: Triton could not unpack the archive, or it has members outside of its folder.
    """
    count = 0
    try:
        with _open_tar(archive) as content:
            for member in content:
                count += 1
                if _READ_BY_STUB.fullmatch(member.name) and (member.isfile() or member.issym()):
                    content.extract(member, target, filter="data")
    except ExecutionEnvironmentError as error:
        raise StubError(str(error)) from error
    except FileNotFoundError as error:
        raise StubError(
            f"{archive} does not exist; pack the environment with `endcap env pack`, or correct "
            "EXECUTION_ENV_PATH in the model's config.pbtxt"
        ) from error
    except (EOFError, OSError, *_DAMAGE) as error:
        read = f"broken off after {count} files" if count else "no gzip-compressed tar"
        raise StubError(
            f"{archive} is {read} ({error}), so that Triton cannot unpack it; copy it again, or "
            "pack the environment again with `endcap env pack`"
        ) from error
