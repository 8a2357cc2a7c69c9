"""A folder for what is only needed for a while."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_ATTEMPTS = 20
_PAUSE_S = 0.1


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Gives an empty folder where TMPDIR says; after the block it is gone.

    Threads of py-rattler that an interrupt has left may still write into it: then it is removed
    once more.
    """
    folder = Path(tempfile.mkdtemp(prefix="endcap-env-"))
    try:
        yield folder
    finally:
        for _ in range(_ATTEMPTS):
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                break
            time.sleep(_PAUSE_S)
