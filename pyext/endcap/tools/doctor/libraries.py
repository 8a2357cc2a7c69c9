"""Which shared libraries a program or library would be given by the dynamic loader."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

_RESOLVED = re.compile(r"^\s*(\S+) => (/.*) \(0x[0-9a-f]+\)$", re.MULTILINE)
_ABSENT = re.compile(r"^\s*(\S+) => not found$", re.MULTILINE)
_OLD = re.compile(r"version `([^']+)' not found")

NO_LDD = "ldd is not installed"


def find_ldd() -> str | None:
    """Return the program `ldd`, also where PATH lacks the system's folders; None without one."""
    return shutil.which("ldd", path=f"{os.environ.get('PATH', '')}:/usr/bin:/bin")


def linked_libraries(
    path: Path, environment: Mapping[str, str] | None = None
) -> dict[str, Path | None]:
    """Return the file for each library that `path` needs, itself or through another.

    None stands where the loader finds none: for a library, for a symbol version that an older
    system lacks (such as GLIBC_2.38), and for `path` itself where it is no program or library.
    environment: that of the process that would load it; None is ours. Raises OSError without `ldd`.
    """
    program = find_ldd()
    if program is None:
        raise FileNotFoundError(NO_LDD)
    listing = subprocess.run(
        [program, str(path)],
        env={**(os.environ if environment is None else environment), "LC_ALL": "C"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    text = listing.stdout + listing.stderr
    linked: dict[str, Path | None] = {name: Path(file) for name, file in _RESOLVED.findall(text)}
    linked |= dict.fromkeys([*_ABSENT.findall(text), *_OLD.findall(text)])
    if listing.returncode != 0 and all(linked.values()):
        linked[path.name] = None
    return linked


def missing_libraries(path: Path, environment: Mapping[str, str] | None = None) -> list[str]:
    """Return the names in `linked_libraries` for which there is no file."""
    linked = linked_libraries(path, environment)
    return sorted(name for name, file in linked.items() if file is None)
