"""What a killed launcher could not clean up: found by its lock, and swept at the next start.

Each launcher holds a lock on its scratch folder for as long as it lives. A folder whose lock is
free belongs to one that is dead; process ids would mislead across containers.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from endcap.server.process import remove_shared_memory

SCRATCH_PREFIX = "endcap-"
_LOCK_NAME = "lock"
_STUB = b"triton_python_backend_stub"


def shared_memory_prefix(scratch: Path) -> str:
    """Returns how the names of a launch's regions in /dev/shm begin."""
    return f"{scratch.name}-"


def claim(scratch: Path) -> IO[bytes]:
    """Locks a scratch folder; it is ours until the returned file is closed or this process ends."""
    lock = (scratch / _LOCK_NAME).open("wb")
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def sweep(folder: Path) -> list[Path]:
    """Removes the scratch folders below `folder` that nobody holds; returns them.

    With a scratch folder go the regions in /dev/shm that bear its name, and the stubs of
    Python-backend models that outlived their server. One whose server still ends is left alone.
    """
    swept: list[Path] = []
    for scratch, stubs in abandoned(folder):
        with contextlib.suppress(OSError):  # another sweep has just removed it
            for pid in stubs:
                os.kill(pid, signal.SIGKILL)
            remove_shared_memory(shared_memory_prefix(scratch))
            shutil.rmtree(scratch)
            swept.append(scratch)
    return swept


def abandoned(folder: Path) -> Iterator[tuple[Path, list[int]]]:
    """Yields the scratch folders below `folder` that nobody holds, locked while each is looked at.

    With each come the process ids of the stubs that outlived its server.
    """
    for scratch in sorted(folder.glob(f"{SCRATCH_PREFIX}*")):
        # Folders of other users and those that another sweep has just removed are not ours to see.
        with contextlib.suppress(OSError), (scratch / _LOCK_NAME).open("r+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            stubs, others = _processes_of(shared_memory_prefix(scratch).encode())
            if not others:
                yield scratch, stubs


def _processes_of(marker: bytes) -> tuple[list[int], list[int]]:
    """Returns the stubs, and the other processes, whose command line holds `marker`."""
    stubs: list[int] = []
    others: list[int] = []
    for pid, command in _command_lines():
        if marker in command:
            (stubs if _STUB in command else others).append(pid)
    return stubs, others


def _command_lines() -> Iterator[tuple[int, bytes]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                yield int(entry.name), (entry / "cmdline").read_bytes()
