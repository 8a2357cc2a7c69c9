"""pip commands in error messages.

A package index may have no endcap, or another project of that name. The commands name an extra's
packages, or a wheel of endcap in the current folder.
"""

from __future__ import annotations

import importlib.metadata
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

_OWN_EXTRAS = re.compile(r"endcap\[([\w,\s-]+)\]")
_EXTRA_OF_MARKER = re.compile(r"""extra\s*==\s*["']([\w-]+)["']""")


def install_command(extra: str = "", *options: str) -> str:
    """Return the command that installs an extra's packages.

    Args:
        extra: Its name; "" for the packages that endcap always needs.
        options: Options of `pip install`.
    """
    return shlex.join(["pip", "install", *options, *sorted(set(_packages(extra)))])


def reinstall_command() -> str:
    """Return the command that installs this version of endcap again."""
    tree = Path(__file__).parents[2]
    if (tree / "Makefile").is_file():  # an editable installation
        return shlex.join(["make", "-C", str(tree), "build"])
    wheel = f"endcap-{importlib.metadata.version('endcap')}-*.whl"
    return f"pip install --force-reinstall --no-deps {wheel}"


def _packages(extra: str) -> Iterator[str]:
    """Yield the requirements of an extra, with those of the extras that it includes.

    Without the package `packaging`, which may be what is missing.
    """
    for line in importlib.metadata.requires("endcap") or ():
        requirement, _, marker = line.partition(";")
        part = _EXTRA_OF_MARKER.search(marker)
        if (part[1] if part else "") != extra:
            continue
        own = _OWN_EXTRAS.fullmatch(requirement.strip())
        if own is None:
            yield requirement.strip()
        else:
            for each in own[1].split(","):
                yield from _packages(each.strip())
