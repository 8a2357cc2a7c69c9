"""pip commands for endcap and its extras, as error messages give them.

A package index may have no endcap, or another project of that name. The commands name the wheel
that endcap was installed from, which pip records (PEP 610), or else an extra's packages themselves.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

_NAME = "endcap"
_OWN_EXTRAS = re.compile(rf"{_NAME}\[([\w,\s-]+)\]")
_EXTRA_OF_MARKER = re.compile(r"""extra\s*==\s*["']([\w-]+)["']""")


def install_command(extra: str = "", *options: str) -> str:
    """Return the command that installs an extra's packages.

    Args:
        extra: Its name; "" for the packages that endcap always needs.
        options: Options of `pip install`.
    """
    wheel = _find_wheel(f"[{extra}]" if extra else "")
    wanted = [wheel] if wheel is not None else sorted(set(_packages(extra)))
    return shlex.join(["pip", "install", *options, *wanted])


def install_elsewhere_command(extra: str) -> str:
    """Return the command that installs this endcap with an extra into another environment."""
    wheel = _find_wheel(f"[{extra}]")
    if wheel is not None:
        return shlex.join(["pip", "install", wheel])
    tree = _find_source_tree()
    if tree is not None:
        return shlex.join(["pip", "install", f"{tree}[{extra}]"])
    return f'pip install "$(ls {_wheel_pattern()})[{extra}]"'


def reinstall_command() -> str:
    """Return the command that installs this version of endcap again."""
    tree = _find_source_tree()
    if tree is not None:
        return shlex.join(["make", "-C", str(tree), "build"])
    wheel = _find_wheel("")
    what = _wheel_pattern() if wheel is None else shlex.quote(wheel)
    return f"pip install --force-reinstall --no-deps {what}"


def _wheel_pattern() -> str:
    """Return a name for the shell, which fits this version's wheels in the current folder."""
    return f"{_NAME}-{importlib.metadata.version(_NAME)}-*.whl"


def _find_source_tree() -> Path | None:
    """Return the folder of an editable installation."""
    details = _described().get("dir_info")
    editable = isinstance(details, dict) and details.get("editable") is True
    return _local_path() if editable else None


def _described() -> dict[str, Any]:
    """Return pip's record of where endcap came from; {} where there is none."""
    try:
        text = importlib.metadata.distribution(_NAME).read_text("direct_url.json")
        described = json.loads(text or "{}")
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return {}
    return described if isinstance(described, dict) else {}


def _local_path() -> Path | None:
    """Return the file or folder that endcap was installed from, if it is on this machine."""
    parts = urlsplit(str(_described().get("url", "")))
    return Path(url2pathname(parts.path)) if parts.scheme == "file" else None


def _find_wheel(extras: str) -> str | None:
    """Return what pip takes for the wheel that endcap was installed from; None where it is gone."""
    if "archive_info" not in _described():
        return None
    address = str(_described().get("url"))
    if address.startswith(("http://", "https://")):
        return f"{_NAME}{extras} @ {address}"
    path = _local_path()
    is_there = path is not None and path.suffix == ".whl" and path.is_file()
    return f"{path}{extras}" if is_there else None


def _packages(extra: str) -> Iterator[str]:
    """Yield the requirements of an extra, with those of the extras that it includes.

    Without the package `packaging`, which may be what is missing.
    """
    for line in importlib.metadata.requires(_NAME) or ():
        requirement, _, marker = line.partition(";")
        part = _EXTRA_OF_MARKER.search(marker)
        if (part[1] if part else "") != extra:
            continue
        own = _OWN_EXTRAS.fullmatch(requirement.strip())
        if own is None:
            yield requirement.strip()
            continue
        for each in own[1].split(","):
            yield from _packages(each.strip())
