"""A file that is replaced whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replaced_file(target: Path) -> Iterator[Path]:
    """Give the path of a file to write; it takes the place of `target` when the block ends well.

    Raises OSError with the name of the target.
    """
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        yield partial
        partial.replace(target)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(target)) from error
    finally:
        partial.unlink(missing_ok=True)
