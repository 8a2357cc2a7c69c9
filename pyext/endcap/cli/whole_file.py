"""A file that is written whole or not at all."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TextIO

from endcap.errors import InvalidArgumentError


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Gives a binary stream whose bytes are in `path` when the block ends well.

    When it does not, a file that was there before is untouched. What is no regular file, a pipe or
    a device, is written to directly. Raises InvalidArgumentError, before the block, when the file
    cannot be made.
    """
    target = Path(os.path.realpath(path))  # a link stays one
    if target.is_dir():
        raise InvalidArgumentError(f"file {path} cannot be written: it is a folder")
    is_special = target.exists() and not target.is_file()
    partial = target if is_special else target.with_name(f".{target.name}.{os.getpid()}.partial")
    if target.is_file() and not os.access(target, os.W_OK):
        raise InvalidArgumentError(f"file {path} cannot be written: it is read-only")
    try:
        stream = partial.open("wb")
    except OSError as error:
        raise InvalidArgumentError(f"file {path} cannot be written: {error.strerror}") from error
    try:
        with stream:
            yield stream
        if not is_special:
            partial.replace(target)
    finally:
        if not is_special:
            partial.unlink(missing_ok=True)


@contextlib.contextmanager
def whole_text_file(path: Path) -> Iterator[TextIO]:
    """As `whole_file`, for text in UTF-8; what that cannot hold is written as an escape code."""
    with (
        whole_file(path) as file,
        io.TextIOWrapper(file, "utf-8", errors="backslashreplace", newline="") as text,
    ):
        yield text
