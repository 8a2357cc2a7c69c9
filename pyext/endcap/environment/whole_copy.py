"""A file that is copied whole or not at all."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def whole_copy(source: Path, target: Path) -> None:
    """Copies a file; what `target` was before is there until the copy is whole.

    Raises OSError with the name of the target.
    """
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        shutil.copyfile(source, partial)
        partial.replace(target)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(target)) from error
    finally:
        partial.unlink(missing_ok=True)
