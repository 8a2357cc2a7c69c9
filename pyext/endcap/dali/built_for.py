"""Builds of DALI and endcap that a library of operators goes with, and the cache of libraries."""

from __future__ import annotations

import hashlib
import platform
import re
from dataclasses import dataclass
from pathlib import Path

from endcap._files import cache_folder
from endcap._version import __version__
from endcap.dali.installation import (
    LIBRARY_NAME,
    DaliError,
    DaliInstallation,
    c_abi_of_header,
    find_core,
    find_include_folder,
    find_sources,
)

# As backends/dali/built_for.cc writes it.
_WRITTEN = re.compile(rb"endcap_dali built for ([^\0;]*);([^\0;]*);([^\0;]*);([^\0;]*)\0")


@dataclass(frozen=True, kw_only=True)
class BuiltFor:
    """The builds that a library goes with: DALI's C++ interface belongs to one build of it."""

    dali: str
    dali_identity: str
    endcap: str
    c_abi: str

    def definitions(self) -> list[str]:
        """Return the compiler's options that make built_for.cc write this."""
        return [
            f'-DENDCAP_DALI_RELEASE="{self.dali}"',
            f'-DENDCAP_DALI_IDENTITY="{self.dali_identity}"',
            f'-DENDCAP_DALI_VERSION="{self.endcap}"',
        ]


def find_required_build(dali: DaliInstallation) -> BuiltFor:
    """Return what a library must be built for here."""
    return BuiltFor(
        dali=dali.version,
        dali_identity=dali.identity,
        endcap=__version__,
        c_abi=str(c_abi_of_header()),
    )


def read(library: Path) -> BuiltFor:
    """Return what a library was built for; raise DaliError where it is none of endcap's."""
    try:
        content = library.read_bytes()
    except OSError as error:
        raise DaliError(
            f"{library} cannot be read ({error.strerror}); name a library that "
            "`endcap dali build` has made"
        ) from error
    found = _WRITTEN.search(content)
    if not found:
        raise DaliError(
            f"{library} does not hold endcap's DALI operators; name a library that "
            "`endcap dali build` has made"
        )
    dali, identity, endcap, c_abi = (part.decode() for part in found.groups())
    return BuiltFor(dali=dali, dali_identity=identity, endcap=endcap, c_abi=c_abi)


def fits(library: Path, here: BuiltFor) -> bool:
    """Return whether a library is there, and built for `here`."""
    try:
        return library.is_file() and read(library) == here
    except DaliError:
        return False


def check(library: Path, here: BuiltFor) -> None:
    """Raise DaliError where a library was built for another DALI or another endcap than `here`."""
    there = read(library)
    if there == here:
        return
    of_it, of_this = f"DALI {there.dali}", f"DALI {here.dali}"
    if there.dali == here.dali and there.dali_identity != here.dali_identity:
        of_it, of_this = (f"{of_it} ({there.dali_identity})", f"{of_this} ({here.dali_identity})")
    raise DaliError(
        f"{library} was built for {of_it} and endcap {there.endcap} (C interface {there.c_abi}), "
        f"and here are {of_this} and endcap {here.endcap} (C interface {here.c_abi}); build it "
        "with `endcap dali build`"
    )


def cached_library(here: BuiltFor, sources: Path | None = None) -> Path:
    """Return the file that a library for these builds has in the cache, whether it exists or not.

    Args:
        here: The builds.
        sources: The folder of the operators' sources; None is the package's. What is in the files
            counts, and where the core is, which the library finds by its path.
    """
    folder = sources or find_sources()
    header = find_include_folder() / "endcap" / "c_api.h"
    digest = hashlib.sha256()
    for part in (here.dali_identity, platform.machine(), str(find_core())):
        digest.update(part.encode() + b"\0")
    for file in [*sorted([*folder.glob("*.cc"), *folder.glob("*.h")]), header]:
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    key = f"{here.dali}-endcap{here.endcap}-{digest.hexdigest()[:16]}"
    return cache_folder("dali") / key / LIBRARY_NAME
