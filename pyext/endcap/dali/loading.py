"""Loading of the library of operators into this process's DALI."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

from endcap.dali import built_for
from endcap.dali.built_for import BuiltFor, cached_library
from endcap.dali.installation import LIBRARY_NAME, DaliError, find_dali
from endcap.errors import EndcapError

LIBRARY_VARIABLE = "ENDCAP_DALI_LIBRARY"

_lock = threading.Lock()
_loaded: Path | None = None


def load(path: Path | str | None = None) -> Path:
    """Load the operators: afterwards ``nvidia.dali.fn.endcap`` has them.

    What is loaded stays loaded; another call returns at once. Threads may call it together.

    Args:
        path: the library. None takes what ``ENDCAP_DALI_LIBRARY`` names, else the one that
            ``build`` has made.

    Returns:
        The library that is loaded.

    Raises:
        DaliError: DALI is missing or too old; the library is not built, was built for another
            DALI or endcap, or cannot be opened; other users may have put it where ``build`` keeps
            it; or another one is loaded already.
    """
    global _loaded
    with _lock:
        if _loaded is None:
            _loaded = _load_once(path)
        if path is not None and os.path.realpath(path) != os.path.realpath(_loaded):
            raise DaliError(
                f"{_loaded} is loaded already, and a process has one library of these operators; "
                f"start another process for {path}"
            )
        return _loaded


def main() -> None:
    """Load the operators in this process, for `find_operators`; print the library or the error."""
    try:
        print(json.dumps({"found": str(load())}))
    except EndcapError as error:
        print(json.dumps({"problem": str(error)}))


def find_library(here: BuiltFor, path: Path | str | None = None) -> Path:
    """Return the library that `load` takes; raise DaliError as `load` does."""
    named = path or os.environ.get(LIBRARY_VARIABLE)
    if named:
        built_for.check(Path(named), here)
        return Path(named).absolute()
    cached = cached_library(here)
    if cached.is_file():
        built_for.check(cached, here)
        return cached
    raise DaliError(
        f"the DALI operators are not built for DALI {here.dali} and endcap {here.endcap}; build "
        "them with `endcap dali build`"
    )


def _load_once(path: Path | str | None) -> Path:
    dali = find_dali()
    from nvidia.dali import fn, plugin_manager

    if hasattr(fn, "endcap"):  # somebody has given the file to DALI
        return _find_mapped()
    here = built_for.find_required_build(dali)
    library = find_library(here, path)
    try:
        plugin_manager.load_library(str(library))
    except RuntimeError as error:
        reason = str(error).partition("\n")[0].strip()
        raise DaliError(
            f"{library} cannot be loaded ({reason}); build it again with "
            "`endcap dali build --force`"
        ) from error
    return library


def _find_mapped() -> Path:
    """Return the file of the operators that are in this process already."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith(f"/{LIBRARY_NAME}"):
            return Path(line[line.index("/") :])
    raise DaliError(
        f"DALI has operators of endcap that are not from a {LIBRARY_NAME}; let endcap.dali.load() "
        "be what loads them"
    )
