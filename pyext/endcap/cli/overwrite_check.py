"""Keeps the files that a command reads from being overwritten by what it writes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from endcap.errors import InvalidArgumentError

FileId = tuple[int, int]


def refuse_to_overwrite(inputs: Iterable[Path], targets: Iterable[Path], *, advice: str) -> None:
    """Raise InvalidArgumentError where a target is one of the inputs, by whatever name or link.

    Args:
        advice: What to do then, the end of the message.
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


def model_files(repository: Path) -> Iterator[Path]:
    """Yield the files of the models of a repository, for a check before something is written.

    What lies beside the models' folders is none of a model. Links to the folders of models and
    versions are followed; what cannot be listed is left out.
    """
    for model in _entries(repository):
        for entry in _entries(model):
            yield entry
            for folder, _, names in os.walk(entry):
                yield from (Path(folder, name) for name in names)


def _entries(folder: Path) -> list[Path]:
    with contextlib.suppress(OSError):  # no folder, or one that nothing can be read from
        return list(folder.iterdir())
    return []


def _file_id(path: Path) -> FileId | None:
    """Return device and number of a file, None where there is none."""
    with contextlib.suppress(OSError):
        found = os.stat(path)
        return found.st_dev, found.st_ino
    return None
