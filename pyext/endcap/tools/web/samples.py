"""The sample pictures that the page offers, by name."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path


def name_samples(paths: Iterable[Path]) -> dict[str, Path]:
    """Return the files by a name of their own: the file's, with a number where two are equal.

    Links are followed here, once: `read_sample` follows none.
    """
    named: dict[str, Path] = {}
    for path in paths:
        name = path.name
        number = 2
        while name in named:
            name = f"{path.stem}_{number}{path.suffix}"
            number += 1
        named[name] = path.resolve()
    return named


def read_sample(path: Path, max_bytes: int) -> bytes:
    """Return the content of a file, which somebody may have replaced since the start.

    Raises:
        OSError: For a link, for what is no regular file, and for a file of more than `max_bytes`.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe is not waited for
    with open(os.open(path, flags), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise OSError(errno.EFBIG, f"it has more than {max_bytes} bytes")
    return content
