"""Which files the user means."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

from endcap.errors import InvalidArgumentError

JPEG_SUFFIXES = (".jpg", ".jpeg", ".jpe", ".jfif")


def expand_images(arguments: Iterable[str], *, recursive: bool = False) -> list[Path]:
    """Return the files that files, folders and glob patterns name, in that order.

    Of a folder, its JPEG files by name; with `recursive` those of folders in it, too. Links to
    folders in it are not followed. Raises InvalidArgumentError for an argument that names no file,
    and OSError for a folder that cannot be read.
    """
    return [path for argument in arguments for path in _expand(argument, recursive)]


def _expand(argument: str, recursive: bool) -> list[Path]:
    if not argument:
        raise InvalidArgumentError("an image's name is empty: give a file, a folder or a pattern")
    path = Path(argument)
    if path.is_dir():
        return _jpegs_in(path, recursive)
    if path.is_file():
        return [path]
    if path.exists():
        raise InvalidArgumentError(f"image {argument} is a pipe or a device: give a file")
    found = sorted(p for p in map(Path, glob.glob(argument, recursive=True)) if p.is_file())
    if not found:
        raise InvalidArgumentError(f"image {argument} is not there, and as a pattern fits no file")
    return found


def _jpegs_in(folder: Path, recursive: bool) -> list[Path]:
    found: list[Path] = []
    below = False
    for parent, folders, names in os.walk(folder, onerror=_raise):
        found += (Path(parent, name) for name in names if name.lower().endswith(JPEG_SUFFIXES))
        if not recursive:
            below = bool(folders)
            break
    found = sorted(path for path in found if path.is_file())
    if not found:
        advice = "; --recursive looks into the folders in it, too" if below else ""
        raise InvalidArgumentError(
            f"folder {folder} holds no JPEG file (it has none that ends in "
            f"{', '.join(JPEG_SUFFIXES)}){advice}"
        )
    return found


def _raise(error: OSError) -> NoReturn:
    raise error
