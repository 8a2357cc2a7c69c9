"""Real photographs that Python packages ship; they are read from there and never copied into git.

scikit-learn: china.jpg and flower.jpg (CC BY 2.0). scikit-image: rocket.jpg and
hubble_deep_field.jpg (public domain, SpaceX and NASA), retina.jpg, coffee.png and chelsea.png
(CC0). ultralytics: bus.jpg and zidane.jpg (part of an AGPL-3.0 package). The packages need not be
importable: only their files are read.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, files
from pathlib import Path


class SourceMissingError(Exception):
    """A package that ships a wanted photograph is not installed; the message names it."""


def source(package: str, name: str) -> Path:
    """The file `name` (the end of its path) of an installed package.

    Raises SourceMissingError.
    """
    try:
        shipped = files(package) or []
    except PackageNotFoundError:
        raise SourceMissingError(f"{package} is not installed") from None
    for file in shipped:
        if file.name == name:
            return Path(str(file.locate()))
    raise SourceMissingError(f"{package} ships no {name}")
