"""Keeps the files that a command reads from being overwritten by what it writes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from endcap.errors import InvalidArgumentError

FileId = tuple[int, int]


def refuse_to_overwrite(inputs: Iterable[Path], targets: Iterable[Path], *, advice: str) -> None:
    """Raises InvalidArgumentError where a target is one of the inputs, by whatever name or link.

    advice: what to do then, the end of the sentence.
    """
    existing = {_file_id(target): target for target in targets}
    existing.pop(None, None)
    if not existing:
        return
    for path in inputs:
        target = existing.get(_file_id(path))
        if target is not None:
            by = "" if path == target else f" by {target}"
            raise InvalidArgumentError(
                f"{path}, which is to be read, would be overwritten{by}: {advice}"
            )


def _file_id(path: Path) -> FileId | None:
    """Returns device and number of a file, None where there is none."""
    with contextlib.suppress(OSError):
        found = os.stat(path)
        return found.st_dev, found.st_ino
    return None
