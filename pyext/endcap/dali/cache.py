"""Cache of built libraries: a folder for each DALI, endcap and set of sources."""

from __future__ import annotations

import contextlib
import hashlib
import platform
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock

from endcap._files import cache_folder
from endcap.dali.built_for import BuiltFor
from endcap.dali.installation import (
    LIBRARY_NAME,
    DaliError,
    find_core,
    find_include_folder,
    find_sources,
)


def cached_library(built_for: BuiltFor, sources: Path | None = None) -> Path:
    """Return the file that a library for these builds has here, whether it is there or not.

    Args:
        built_for: The builds.
        sources: The folder of the operators' sources; None is the package's. What is in the files
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
    return cache_folder("dali") / key / LIBRARY_NAME


@contextlib.contextmanager
def only_builder(library: Path) -> Iterator[None]:
    """Wait until no other process builds this library; the system ends the wait with that one."""
    try:
        library.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise DaliError(
            f"the cache {library.parent} cannot be made ({error.strerror}); set XDG_CACHE_HOME to "
            "a folder that you may write to"
        ) from error
    with FileLock(library.parent / ".lock"):
        yield
