"""Whether what lies at a path may have been put there by other users."""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import stat
from pathlib import Path


def find_untrusted(path: Path) -> str | None:
    """Look for what lets users other than this one and root decide what lies at a path.

    They can where they own a file or a folder on the way, or may write to it. A folder with the
    sticky bit is an exception: there users can replace their own files only, and what belongs to
    this user or root stays. A group of this user alone is no other user.

    Args:
        path: An absolute path without symbolic links on the way; with a link in it, that is what is
            found. It may be there or not, folders above it as well.

    Returns:
        The first file or folder, from the root on, that others control, and how; else None.
    """
    for part in (*reversed(path.parents), path):  # each counts once the one above it is safe
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
        if not _may_others_write(status):
            continue
        if is_folder and not mode & stat.S_ISVTX:
            return (
                f"{part} lets other users replace what lies in it (mode {mode:04o}; "
                "`chmod +t` keeps them from that)"
            )
        if not is_folder:
            return f"{part} lets other users write to it (mode {mode:04o})"
    return None


def _may_others_write(status: os.stat_result) -> bool:
    if status.st_mode & stat.S_IWOTH:
        return True
    return bool(status.st_mode & stat.S_IWGRP) and not _is_own_group(status.st_gid)


def _is_own_group(group: int) -> bool:
    """Whether a group is the one that systems make for each user, of the same name."""
    with contextlib.suppress(KeyError):  # a user or a group without a name, as in containers
        user = pwd.getpwuid(os.geteuid())
        entry = grp.getgrgid(group)
        same = user.pw_gid == group and entry.gr_name == user.pw_name
        return same and set(entry.gr_mem) <= {user.pw_name}
    return False
