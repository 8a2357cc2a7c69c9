"""A file of /dev/shm that is locked for as long as its owner lives.

The kernel lets go of a lock (flock(2)) however a process ends, so a file that is not locked belongs
to nobody. Process ids would mislead: other containers have others.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import weakref

from endcap.client.shared_memory.names import FOLDER, is_ours, new_name
from endcap.errors import UnsupportedError

_OWNER_ONLY = 0o600
_ATTEMPTS = 20

_held: weakref.WeakSet[LockedFile] = weakref.WeakSet()


class LockedFile:
    """A new, empty file under a name of its own. Raises UnsupportedError without /dev/shm.

    A child made by fork has no part in it: there the lock's descriptor is closed, and `remove`
    leaves the file. As garbage it is removed.
    """

    def __init__(self) -> None:
        self._process = os.getpid()
        self.name, self._descriptor = _create()
        _held.add(self)
        self._remove = weakref.finalize(self, _remove, self.name, self._descriptor, self._process)

    @property
    def descriptor(self) -> int:
        """The descriptor that holds the lock; -1 after `remove`."""
        return self._descriptor

    def remove(self) -> None:
        """Removes the file and gives up its lock; mappings of it live on."""
        if os.getpid() == self._process:
            self._descriptor = -1
            self._remove()

    def let_go(self) -> None:
        """Closes the descriptor; the file stays, and is locked while a copy of it is open."""
        if self._remove.detach() is not None:
            os.close(self._descriptor)
            self._descriptor = -1


def remove_if_abandoned(name: str) -> bool:
    """Removes a file that no process holds; returns whether there is none now."""
    try:
        descriptor = os.open(FOLDER / name, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    except OSError:  # another user's, or no file
        return False
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode) or not _lock(descriptor):
            return False
        with contextlib.suppress(FileNotFoundError):  # another sweep was faster
            (FOLDER / name).unlink()
        return True
    finally:
        os.close(descriptor)


def remove_abandoned() -> list[str]:
    """Removes all files of these pools that no process holds; returns their names."""
    if not FOLDER.is_dir():
        return []
    ours = [name for name in os.listdir(FOLDER) if is_ours(name)]
    return [name for name in ours if remove_if_abandoned(name)]


def _remove(name: str, descriptor: int, process: int) -> None:
    if os.getpid() == process:
        with contextlib.suppress(FileNotFoundError):
            (FOLDER / name).unlink()
        os.close(descriptor)


def _create() -> tuple[str, int]:
    for _ in range(_ATTEMPTS):
        name = new_name()
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            descriptor = os.open(FOLDER / name, flags, _OWNER_ONLY)
        except OSError as error:
            raise UnsupportedError(
                f"no file can be made in {FOLDER} ({error.strerror}); shared memory needs it: "
                "mount a tmpfs there, or do without"
            ) from error
        # A sweep may have seen the file before it was locked, and have removed it.
        if _lock(descriptor) and os.fstat(descriptor).st_nlink > 0:
            return name, descriptor
        os.close(descriptor)
    raise UnsupportedError(f"files in {FOLDER} vanish as they are made; see what removes them")


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _forget_in_child() -> None:
    for file in list(_held):
        file.let_go()


os.register_at_fork(after_in_child=_forget_in_child)
