"""pip commands in error messages, and packages and files of endcap that may be missing.

A package index may have no endcap, or another project of that name. The commands name an extra's
packages, or a wheel of endcap in the current folder.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_OWN_EXTRAS = re.compile(r"endcap\[([\w,\s-]+)\]")
_EXTRA_OF_MARKER = re.compile(r"""extra\s*==\s*["']([\w-]+)["']""")


def install_command(extra: str = "", *options: str) -> str:
    """Return the command that installs an extra's packages.

    Args:
        extra: Its name; "" for the packages that endcap always needs.
        options: Options of `pip install`.
    """
    return shlex.join(["pip", "install", *options, *sorted(set(_packages(extra)))])


def import_extra(
    module: str, extra: str, what: str, error: Callable[[str], Exception], *, package: str = ""
) -> Any:
    """Return a module of an extra's packages.

    Args:
        module: Its name.
        extra: The extra that brings it.
        what: What takes it, at the beginning of the error message.
        error: Makes the error that is raised where it is missing or cannot be loaded.
        package: The package to install instead of the extra's.
    """
    try:
        return importlib.import_module(module)
    except (ImportError, RuntimeError) as cause:  # tritonclient wraps a missing part of it
        command = f"pip install {package}" if package else install_command(extra)
        raise error(
            f"{what} takes {module.partition('.')[0]}, which cannot be imported ({cause}); "
            f"run `{command}`"
        ) from cause


def find_in_package(name: str | Path, what: str, error: Callable[[str], Exception]) -> Path:
    """Return a file or folder of the installed package.

    Args:
        name: Its path in the package.
        what: Its description with a verb, at the beginning of the error message.
        error: Makes the error that is raised where it is missing.
    """
    folders = package_folders()
    for folder in folders:
        if (folder / name).exists():
            return folder / name
    raise error(
        f"{what} not in this installation of endcap (searched {', '.join(map(str, folders))}); "
        f"reinstall it with `{reinstall_command()}`"
    )


def package_folders() -> list[Path]:
    """Return the package's folders: of an editable install the sources, and what was built."""
    return [*map(Path, sys.modules["endcap"].__path__)]


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
