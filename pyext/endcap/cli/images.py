"""Which files the user means, and where pictures of them go."""

from __future__ import annotations

import glob
from collections.abc import Iterable
from pathlib import Path

from PIL import Image

from endcap.client import ImageResult
from endcap.draw import draw_detections
from endcap.errors import InvalidArgumentError

JPEG_SUFFIXES = (".jpg", ".jpeg", ".jpe", ".jfif")
_PICTURE_QUALITY = 90


def expand_images(arguments: Iterable[str]) -> list[Path]:
    """Returns the files that files, folders and glob patterns name, in that order.

    Of a folder, its JPEG files by name, not those of folders in it. Raises InvalidArgumentError for
    an argument that names no file.
    """
    return [path for argument in arguments for path in _expand(argument)]


def _expand(argument: str) -> list[Path]:
    if not argument:
        raise InvalidArgumentError("an image's name is empty: give a file, a folder or a pattern")
    path = Path(argument)
    if path.is_dir():
        found = sorted(
            p for p in path.iterdir() if p.suffix.lower() in JPEG_SUFFIXES and p.is_file()
        )
        if not found:
            raise InvalidArgumentError(
                f"folder {argument} holds no JPEG file (it has none that ends in "
                f"{', '.join(JPEG_SUFFIXES)})"
            )
        return found
    if path.exists():
        return [path]
    found = sorted(p for p in map(Path, glob.glob(argument, recursive=True)) if p.is_file())
    if not found:
        raise InvalidArgumentError(f"image {argument} is not there, and as a pattern fits no file")
    return found


def read_labels(path: Path) -> list[str]:
    """Returns the lines of a file of class names. Raises InvalidArgumentError."""
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InvalidArgumentError(f"labels file {path} cannot be read: {reason}") from error


def make_folder(folder: Path) -> None:
    """Makes a folder for results, before any work is done. Raises InvalidArgumentError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidArgumentError(f"folder {folder} cannot be made: {error.strerror}") from error


def write_pictures(
    results: Iterable[ImageResult], folder: Path, labels: list[str] | None
) -> list[Path]:
    """Writes a picture with boxes for each image that went well; returns where.

    The names are <stem>_detections.jpg, with a number where two images have the same stem.
    Raises OSError where a file cannot be read as a picture or written.
    """
    written: list[Path] = []
    for result in results:
        if result.ok:
            target = _unused_name(folder, Path(result.image).stem, written)
            with Image.open(result.image) as image:
                draw_detections(image, result.detections, labels).save(
                    target, quality=_PICTURE_QUALITY
                )
            written.append(target)
    return written


def _unused_name(folder: Path, stem: str, written: list[Path]) -> Path:
    target = folder / f"{stem}_detections.jpg"
    number = 2
    while target in written:
        target = folder / f"{stem}_{number}_detections.jpg"
        number += 1
    return target
