"""Whether what lies at a path may have been put there by other users."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def find_untrusted(path: Path) -> str | None:
    """Look for what lets users other than this one and root decide what lies at a path.

    They can where they own a file or a folder on the way, or may write to it. A folder with the
    sticky bit is an exception: there users can replace their own files only, and what belongs to
    this user or root stays.

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
        if mode & 0o022 and is_folder and not mode & stat.S_ISVTX:
            return (
                f"{part} lets other users replace what lies in it (mode {mode:04o}; "
                "`chmod +t` keeps them from that)"
            )
        if mode & 0o022 and not is_folder:
            return f"{part} lets other users write to it (mode {mode:04o})"
    return None
