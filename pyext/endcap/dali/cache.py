"""Where built libraries are kept: a folder for each DALI, endcap and set of sources."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import platform
from collections.abc import Iterator
from pathlib import Path

from endcap.dali.built_for import BuiltFor
from endcap.dali.package_files import (
    LIBRARY_NAME,
    find_core,
    find_include_folder,
    find_sources,
)


def cache_folder() -> Path:
    """Returns the folder of all built libraries, below XDG_CACHE_HOME or ~/.cache."""
    home = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # One that depends on where a program runs does not count, as the XDG specification has it.
    return (home if home.is_absolute() else Path.home() / ".cache") / "endcap" / "dali"


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


@contextlib.contextmanager
def only_builder(library: Path) -> Iterator[None]:
    """Waits until no other process builds this library; the system ends the wait with that one."""
    library.parent.mkdir(parents=True, exist_ok=True)
    with (library.parent / ".lock").open("w") as lock:
        # Not every network file system has locks; without one each process builds for itself.
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
