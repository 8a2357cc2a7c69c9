"""The sample pictures that the page offers, by name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def name_samples(paths: Iterable[Path]) -> dict[str, Path]:
    """Returns the files by a name of their own: the file's, with a number where two are equal."""
    named: dict[str, Path] = {}
    for path in paths:
        name = path.name
        number = 2
        while name in named:
            name = f"{path.stem}_{number}{path.suffix}"
            number += 1
        named[name] = path
    return named
