"""The files of /dev/shm behind the regions of pools: their names, locks and owners."""

from __future__ import annotations

import contextlib
import os
import re
import uuid
from pathlib import Path

from endcap._system.locked_file import LockedFile, LostFileError, lock_abandoned
from endcap.errors import UnsupportedError

FOLDER = Path("/dev/shm")

# No second hyphen: the regions that a launch of `endcap serve` removes by prefix all have one.
_OURS = re.compile(r"endcap-[0-9a-f]{32}")

_ATTEMPTS = 20


def new_name() -> str:
    """Return a name that no other region has, in any process or container."""
    return f"endcap-{uuid.uuid4().hex}"


def is_ours(name: str) -> bool:
    """Whether a file of /dev/shm, or a registration with a server, is one of these pools'."""
    return _OURS.fullmatch(name) is not None


def key(name: str) -> str:
    """Return what shm_open(3) calls the file of this name."""
    return f"/{name}"


def new_region_file() -> LockedFile:
    """Make an empty file under a name of its own.

    Raises:
        UnsupportedError: There is no /dev/shm that can be written to.
    """
    for _ in range(_ATTEMPTS):
        try:
            return LockedFile(FOLDER / new_name())
        except LostFileError:
            continue
        except OSError as error:
            raise UnsupportedError(
                f"no file can be made in {FOLDER} ({error.strerror}); shared memory needs it: "
                "mount a tmpfs there, or do without"
            ) from error
    raise UnsupportedError(f"files in {FOLDER} vanish as they are made; see what removes them")


def remove_if_abandoned(name: str) -> bool:
    """Remove a file of this user that no process holds; return whether there is none now."""
    try:
        descriptor = lock_abandoned(FOLDER / name)
    except FileNotFoundError:
        return True
    except OSError:  # another user's, or a link
        return False
    if descriptor is None:
        return False
    try:
        with contextlib.suppress(FileNotFoundError):  # removed by its owner, in a forked child
            (FOLDER / name).unlink()
        return True
    finally:
        os.close(descriptor)


def remove_abandoned() -> list[str]:
    """Remove all files of this user's pools that no process holds; return their names."""
    if not FOLDER.is_dir():
        return []
    ours = [name for name in os.listdir(FOLDER) if is_ours(name)]
    return [name for name in ours if remove_if_abandoned(name)]
