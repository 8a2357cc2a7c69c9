"""Where built libraries are kept: a folder for each DALI, endcap and set of sources."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import platform
from collections.abc import Iterator
from pathlib import Path

from endcap._path_trust import find_untrusted
from endcap.dali.built_for import BuiltFor
from endcap.dali.errors import DaliError
from endcap.dali.package_files import (
    LIBRARY_NAME,
    find_core,
    find_include_folder,
    find_sources,
)


def cache_folder() -> Path:
    """Returns the folder of all built libraries, below XDG_CACHE_HOME or ~/.cache."""
    return _user_cache() / "endcap" / "dali"


def cached_library(built_for: BuiltFor, sources: Path | None = None) -> Path:
    """Returns the file that a library for these builds has here, whether it is there or not.

    sources: the folder of the operators' sources; None is the package's. What is in the files
    counts, and where the core is, which the library finds by its path.
    """
    folder = sources or find_sources()
    header = find_include_folder() / "endcap" / "c_api.h"
    digest = hashlib.sha256()
    for part in (built_for.dali_identity, platform.machine(), str(find_core())):
        digest.update(part.encode() + b"\0")
    for file in [*sorted([*folder.glob("*.cc"), *folder.glob("*.h")]), header]:
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    key = f"{built_for.dali}-endcap{built_for.endcap}-{digest.hexdigest()[:16]}"
    return cache_folder() / key / LIBRARY_NAME


def check_place(library: Path) -> None:
    """Raises DaliError where other users can put something else at a path of `cached_library`.

    It would be loaded into this process, or overwritten by it.
    """
    untrusted = find_untrusted(library)
    if untrusted is not None:
        raise DaliError(
            f"{library} is not safe to build or load: {untrusted}; move that away or close it to "
            "others, or set XDG_CACHE_HOME to a folder of your own"
        )


@contextlib.contextmanager
def only_builder(library: Path) -> Iterator[None]:
    """Waits until no other process builds this library; the system ends the wait with that one."""
    check_place(library)
    _user_cache().mkdir(mode=0o700, parents=True, exist_ok=True)
    for folder in reversed(library.parents[:3]):  # others may read, whatever the umask, not write
        folder.mkdir(mode=0o755, exist_ok=True)
    check_place(library)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    lock = os.open(library.parent / ".lock", flags, 0o600)
    try:
        # Not every network file system has locks; without one each process builds for itself.
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _user_cache() -> Path:
    """Returns XDG_CACHE_HOME or ~/.cache, where links lead."""
    home = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # One that depends on where a program runs does not count, as the XDG specification has it.
    return Path(os.path.realpath(home if home.is_absolute() else Path.home() / ".cache"))
