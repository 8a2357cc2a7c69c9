"""Files that are locked for as long as their owner lives.

The kernel drops a lock (flock(2)) however a process ends, so a file that is not locked has no
owner. Process ids would mislead: other containers have others.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import stat
import weakref
from collections.abc import Callable
from pathlib import Path

_held: weakref.WeakSet[LockedFile] = weakref.WeakSet()


class LockedFile:
    """A new, empty file of this process, removed by `remove`, as garbage, or at exit.

    A child made by fork has no part in it: there the lock's descriptor is closed, and `remove`
    leaves the file.
    """

    def __init__(self, folder: Path, make_name: Callable[[int], str]) -> None:
        """Create the file in a folder and lock it.

        Args:
            folder: Where it is created.
            make_name: Returns the name for a file with this inode number; the file appears under
                it when it is locked already.

        Raises:
            OSError: The file cannot be created or locked.
        """
        self._process = os.getpid()
        first = folder / f".endcap-new-{secrets.token_hex(16)}"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(first, flags, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.path = folder / make_name(os.fstat(self._descriptor).st_ino)
            first.rename(self.path)  # a random name, which nothing has
        except BaseException:
            first.unlink(missing_ok=True)
            os.close(self._descriptor)
            raise
        _held.add(self)
        self._end = weakref.finalize(self, _remove, self.path, self._descriptor, self._process)

    @property
    def name(self) -> str:
        """The file's name in its folder."""
        return self.path.name

    @property
    def descriptor(self) -> int:
        """The descriptor that holds the lock; -1 after `remove` and `let_go`."""
        return self._descriptor

    def remove(self) -> None:
        """Remove the file and give up its lock; mappings of it live on."""
        if os.getpid() == self._process and self._end.detach() is not None:
            _remove(self.path, self._descriptor, self._process)
            self._descriptor = -1

    def let_go(self) -> None:
        """Close the descriptor; the file stays, and is locked while a copy of it is open."""
        if self._end.detach() is not None:
            os.close(self._descriptor)
            self._descriptor = -1


def lock_abandoned(path: Path) -> int | None:
    """Lock a file of this user that no process holds.

    Args:
        path: The file; as a symbolic link it is not followed.

    Returns:
        A descriptor, which holds the lock until it is closed, or None: another process holds the
        file, it was removed meanwhile, it is not a regular file, or it belongs to another user.

    Raises:
        OSError: The file cannot be opened.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Another process may have removed the file before it was locked.
            if os.fstat(descriptor).st_nlink > 0:
                return descriptor
    os.close(descriptor)
    return None


def _remove(path: Path, descriptor: int, process: int) -> None:
    if os.getpid() == process:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        os.close(descriptor)


def _forget_in_child() -> None:
    for file in list(_held):
        file.let_go()


os.register_at_fork(after_in_child=_forget_in_child)
