"""Folders for one build, which do not outlive the next one, however a build ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_PREFIX = "endcap_dali_build_"
_LOCK = ".lock"
_YOUNG_S = 60.0  # such a folder may not have its lock yet


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Makes a temporary folder; those that killed builds have left are removed before."""
    _sweep()
    with (
        tempfile.TemporaryDirectory(prefix=_PREFIX) as folder,
        (Path(folder) / _LOCK).open("w") as lock,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)  # the system gives it back when this process ends
        yield Path(folder)


def _sweep() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        # What is not ours, is locked or has just gone stays as it is.
        with contextlib.suppress(OSError):
            if _is_left(folder):
                shutil.rmtree(folder)


def _is_left(folder: Path) -> bool:
    about = folder.stat()
    if about.st_uid != os.getuid() or time.time() - about.st_mtime < _YOUNG_S:
        return False
    with (folder / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
