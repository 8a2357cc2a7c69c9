"""Files that are locked for as long as their owner lives.

The kernel drops a lock (flock(2)) however a process ends, so a file that is not locked belongs to
nobody. Process ids would mislead: other containers have others.
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

_OWNER_ONLY = 0o600
_TOKEN_BYTES = 16

_held: weakref.WeakSet[LockedFile] = weakref.WeakSet()


class LostFileError(OSError):
    """A new file was removed, or locked by a sweep, before its lock was taken: take another."""


class LockedFile:
    """A new, empty file of this process, under a name that no other file has.

    A child made by fork has no part in it: there the lock's descriptor is closed, and `remove`
    leaves the file.
    """

    def __init__(
        self,
        path: Path,
        *,
        remove_unused: bool = True,
        name_of: Callable[[int], str] | None = None,
    ) -> None:
        """Create the file and lock it.

        Args:
            path: A file that does not exist; a symbolic link of that name is an error. With
                `name_of` the folder.
            name_of: Returns the name for a file with this inode number; the file appears under it
                when it is locked already.
            remove_unused: Remove it as garbage and at the end of the program. Without that only
                `remove` does; as garbage its lock is given up.

        Raises:
            LostFileError: Another process was faster than the lock.
            OSError: The file cannot be created.
        """
        self._process = os.getpid()
        if name_of is None:
            self._descriptor = _create(path)
        else:
            self._descriptor, path = _create_named(path, name_of)
        self.path = path
        _held.add(self)
        end = _remove if remove_unused else _close
        self._end = weakref.finalize(self, end, path, self._descriptor, self._process)
        self._end.atexit = remove_unused

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


def lock_abandoned(path: str | Path, *, folder: int | None = None) -> int | None:
    """Lock a file of this user that no process holds.

    Args:
        path: The file; as a symbolic link it is not followed.
        folder: A descriptor of the folder that a relative path starts from.

    Returns:
        A descriptor, which holds the lock until it is closed, or None: another process holds the
        file, it was removed meanwhile, it is not a regular file, or it belongs to another user.

    Raises:
        OSError: The file cannot be opened.
    """
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags, dir_fd=folder)
    if _is_own_file(descriptor) and _lock(descriptor):
        return descriptor
    os.close(descriptor)
    return None


def _create(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, _OWNER_ONLY)
    try:
        if _lock(descriptor):
            return descriptor
    except OSError:  # a file system without locks
        os.close(descriptor)
        path.unlink()
        raise
    os.close(descriptor)
    raise LostFileError(f"{path} was taken for an abandoned file before it was locked")


def _create_named(folder: Path, name_of: Callable[[int], str]) -> tuple[int, Path]:
    first = folder / f".endcap-new-{secrets.token_hex(_TOKEN_BYTES)}"
    descriptor = _create(first)
    try:
        path = folder / name_of(os.fstat(descriptor).st_ino)
        first.rename(path)  # a random name, which nothing has
    except BaseException:
        first.unlink(missing_ok=True)
        os.close(descriptor)
        raise
    return descriptor, path


def _is_own_file(descriptor: int) -> bool:
    status = os.fstat(descriptor)
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()


def _lock(descriptor: int) -> bool:
    """Lock a file; return False where it is locked, or has been removed before it was."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    # Between the opening and the lock a sweep may have removed the file.
    return os.fstat(descriptor).st_nlink > 0


def _remove(path: Path, descriptor: int, process: int) -> None:
    if os.getpid() == process:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        os.close(descriptor)


def _close(path: Path, descriptor: int, process: int) -> None:
    if os.getpid() == process:
        os.close(descriptor)


def _forget_in_child() -> None:
    for file in list(_held):
        file.let_go()


os.register_at_fork(after_in_child=_forget_in_child)
