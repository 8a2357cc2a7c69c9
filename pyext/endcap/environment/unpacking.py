"""Unpacks an archive as Triton does."""

from __future__ import annotations

import gzip
import tarfile
import zlib
from pathlib import Path
from typing import Any

from endcap.environment.errors import ExecutionEnvironmentError

_GZIP = b"\x1f\x8b"  # RFC 1952
_CHUNK_BYTES = 1 << 20
_AGAIN = "copy it again, or make it again by `endcap env pack`"


def extract_options() -> dict[str, Any]:
    """Returns how `TarFile` is to extract; Pythons before 3.10.12 and 3.11.4 have no filters."""
    return {"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}


def unpack(archive: Path, folder: Path) -> None:
    """Extracts a tar.gz into `folder`, which is empty, and reads it to its checksum.

    Raises ExecutionEnvironmentError for an archive that is broken off, damaged, or none at all, and
    OSError.
    """
    with archive.open("rb") as file:
        if file.read(len(_GZIP)) != _GZIP:
            raise ExecutionEnvironmentError(
                f"{archive} is no tar.gz, the only archive that Triton unpacks; "
                "pack it by `endcap env pack`, or by `conda-pack --format tar.gz`"
            )
    try:
        with gzip.open(archive) as stream, tarfile.open(fileobj=stream, mode="r|") as content:
            content.extractall(folder, **extract_options())
            while stream.read(_CHUNK_BYTES):
                pass
    except EOFError as error:
        raise ExecutionEnvironmentError(
            f"{archive} is broken off after {archive.stat().st_size} bytes; {_AGAIN}"
        ) from error
    except (tarfile.TarError, zlib.error, gzip.BadGzipFile) as error:
        raise ExecutionEnvironmentError(f"{archive} is damaged ({error}); {_AGAIN}") from error
