"""Folders of this user's cache, and the lock of who writes into one."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from endcap.errors import UnsupportedError


def user_cache() -> Path:
    """Return endcap's folder in XDG_CACHE_HOME or ~/.cache, where links lead; it may be missing.

    Raises:
        UnsupportedError: This user has no home folder, and XDG_CACHE_HOME is not set.
    """
    return _base() / "endcap"


def make_cache_folder(folder: Path) -> None:
    """Make a folder below `user_cache`; others may read it, whatever the umask, not write to it."""
    _base().mkdir(mode=0o700, parents=True, exist_ok=True)
    for each in reversed([folder, *folder.parents]):
        if each.is_relative_to(user_cache()):
            each.mkdir(mode=0o755, exist_ok=True)


@contextlib.contextmanager
def only_writer(folder: Path, *, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Wait until no other process is in this block for the same folder.

    The system ends the wait with the other process, however that ends.

    Args:
        folder: A folder that exists and that nobody but this user may write to.
        waiting: Is called once where there is something to wait for.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    lock = os.open(folder / ".lock", flags, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError:
            pass  # not every network file system has locks; each process then works for itself
        yield
    finally:
        os.close(lock)


def _base() -> Path:
    home = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # One that depends on where a program runs does not count, as the XDG specification has it.
    try:
        return Path(os.path.realpath(home if home.is_absolute() else Path.home() / ".cache"))
    except RuntimeError as error:  # a user without an entry, as in containers
        raise UnsupportedError(
            f"user {os.geteuid()} has no home folder for a cache; set HOME or XDG_CACHE_HOME to a "
            "folder that you may write to"
        ) from error
