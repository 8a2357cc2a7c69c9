"""Cache of built libraries: a folder for each DALI, endcap and set of sources."""

from __future__ import annotations

import contextlib
import hashlib
import platform
from collections.abc import Iterator
from pathlib import Path

from endcap._system.user_folders import find_untrusted, make_cache_folder, only_writer, user_cache
from endcap.dali.built_for import BuiltFor
from endcap.dali.installation import (
    LIBRARY_NAME,
    DaliError,
    find_core,
    find_include_folder,
    find_sources,
)


def cache_folder() -> Path:
    """Return the folder of all built libraries, below XDG_CACHE_HOME or ~/.cache."""
    return user_cache() / "dali"


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
    return cache_folder() / key / LIBRARY_NAME


def check_place(library: Path) -> None:
    """Raise DaliError where other users can put something else at a path of `cached_library`.

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
    """Wait until no other process builds this library; the system ends the wait with that one."""
    check_place(library)
    make_cache_folder(library.parent)
    check_place(library)
    with only_writer(library.parent):
        yield
