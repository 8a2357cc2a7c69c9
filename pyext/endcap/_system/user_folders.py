"""Folders of this user: the cache, the lock of its writer, and whether others control a path."""

from __future__ import annotations

import contextlib
import fcntl
import grp
import os
import pwd
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from endcap.errors import UnsupportedError

_ACCESS_LIST = "system.posix_acl_access"


def user_cache() -> Path:
    """Return endcap's folder in XDG_CACHE_HOME or ~/.cache, with links resolved; it may be missing.

    Raises:
        UnsupportedError: This user has no home folder, and XDG_CACHE_HOME is not set.
    """
    return _base() / "endcap"


def make_cache_folder(folder: Path) -> None:
    """Make a folder below `user_cache` that others may read but not write to."""
    _base().mkdir(mode=0o700, parents=True, exist_ok=True)
    for each in reversed([folder, *folder.parents]):
        if each.is_relative_to(user_cache()):
            each.mkdir(mode=0o755, exist_ok=True)


@contextlib.contextmanager
def only_writer(folder: Path, *, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Wait until no other process is in this block for the same folder.

    The wait ends with the other process, even if that is killed.

    Args:
        folder: A folder that exists and that nobody but this user may write to.
        waiting: Is called once before a wait.
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
    # The XDG specification ignores relative paths.
    try:
        return Path(os.path.realpath(home if home.is_absolute() else Path.home() / ".cache"))
    except RuntimeError as error:  # a user without an entry, as in containers
        raise UnsupportedError(
            f"user {os.geteuid()} has no home folder for a cache; set HOME or XDG_CACHE_HOME to a "
            "folder that you may write to"
        ) from error


def find_untrusted(path: Path) -> str | None:
    """Return the part of a path through which users other than this one and root control it.

    They do where they own a file or a folder on the way, or may write to it. A folder with the
    sticky bit is an exception: there users can replace their own files only. A group of this user
    alone is no other user.

    Args:
        path: An absolute path, which need not exist. A symbolic link on the way counts as a
            part that others control.

    Returns:
        The first such part, from the root on, and the reason; None without one.
    """
    for part in (*reversed(path.parents), path):  # from the root downwards
        try:
            status = part.lstat()
        except FileNotFoundError:
            return None
        mode = stat.S_IMODE(status.st_mode)
        is_folder = stat.S_ISDIR(status.st_mode)
        if stat.S_ISLNK(status.st_mode):
            return f"{part} is a symbolic link"
        if status.st_uid not in (0, os.geteuid()):
            return f"{part} belongs to user {status.st_uid}"
        if not _may_others_write(part, status):
            continue
        if is_folder and not mode & stat.S_ISVTX:
            return (
                f"{part} lets other users replace what lies in it (mode {mode:04o}; "
                "`chmod +t` keeps them from that)"
            )
        if not is_folder:
            return f"{part} lets other users write to it (mode {mode:04o})"
    return None


def _may_others_write(path: Path, status: os.stat_result) -> bool:
    if status.st_mode & stat.S_IWOTH:
        return True
    if not status.st_mode & stat.S_IWGRP:
        return False
    # With an access control list that bit is of all users and groups that the list names.
    return _has_access_list(path) or not _is_own_group(status.st_gid)


def _has_access_list(path: Path) -> bool:
    try:
        return _ACCESS_LIST in os.listxattr(path, follow_symlinks=False)
    except OSError:  # a file system without extended attributes
        return False


def _is_own_group(group: int) -> bool:
    """Return whether a group is the private group of this user, of the same name."""
    with contextlib.suppress(KeyError):  # a user or a group without a name, as in containers
        user = pwd.getpwuid(os.geteuid())
        entry = grp.getgrgid(group)
        same = user.pw_gid == group and entry.gr_name == user.pw_name
        # Of users whose first group it is the group's own list says nothing.
        first = {each.pw_name for each in pwd.getpwall() if each.pw_gid == group}
        return same and first | {*entry.gr_mem} <= {user.pw_name}
    return False
