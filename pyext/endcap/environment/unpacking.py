"""Unpacks an archive as Triton does."""

from __future__ import annotations

import sys
import tarfile
import zlib
from pathlib import Path

from endcap.environment.errors import ExecutionEnvironmentError

_AGAIN = "copy it again, or make it again by `endcap env pack`"


def unpack(archive: Path, folder: Path) -> None:
    """Extracts a tar.gz into `folder`, which is empty.

    Raises ExecutionEnvironmentError for an archive that is broken off, damaged, or none at all, and
    OSError.
    """
    with archive.open("rb") as file:
        if file.read(2) != b"\x1f\x8b":  # RFC 1952
            raise ExecutionEnvironmentError(
                f"{archive} is no tar.gz, the only archive that Triton unpacks; "
                "pack it by `endcap env pack`, or by `conda-pack --format tar.gz`"
            )
    try:
        with tarfile.open(archive, "r:gz") as content:
            if sys.version_info >= (3, 12) or hasattr(tarfile, "tar_filter"):
                content.extractall(folder, filter="tar")
            else:
                content.extractall(folder)
    except EOFError as error:
        raise ExecutionEnvironmentError(
            f"{archive} is broken off after {archive.stat().st_size} bytes; {_AGAIN}"
        ) from error
    except (tarfile.TarError, zlib.error) as error:
        raise ExecutionEnvironmentError(f"{archive} is damaged ({error}); {_AGAIN}") from error
