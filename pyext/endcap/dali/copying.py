"""Puts the operators' library where it is to lie, alone or with those that it needs."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from endcap.dali.package_files import LIBRARY_NAME, NEIGHBOUR_NAMES, find_core


def copy_with_neighbours(library: Path, folder: Path) -> Path:
    """Copy the operators' library and those that it needs into a folder; return the copy."""
    folder.mkdir(parents=True, exist_ok=True)
    core = find_core()
    for name in NEIGHBOUR_NAMES:
        if (core.parent / name).is_file():
            replace_file(core.parent / name, folder / name)
    replace_file(library, folder / LIBRARY_NAME)
    return folder / LIBRARY_NAME


def replace_file(source: Path, target: Path, *, mode: int = 0o755) -> None:
    """Copy a file into the place of another in one step: a process may be opening that one."""
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as copy, source.open("rb") as original:
            shutil.copyfileobj(original, copy)
            copy.flush()
            os.fsync(copy.fileno())
        os.chmod(name, mode)
        os.replace(name, target)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(target)  # a full disk names none
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise
