"""Annotated pictures: where they go, and which could not be drawn."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from PIL import Image

from endcap._system.written_file import refuse_links, whole_file
from endcap.cli.overwrite_check import refuse_to_overwrite
from endcap.client import ImageResult, Mask
from endcap.drawing.draw import draw_result, mask_fits
from endcap.drawing.upright import NOT_A_PICTURE, open_picture, oriented_size
from endcap.errors import InvalidArgumentError
from endcap.terminal.console import count

_QUALITY = 90
# In bytes; file systems take names of 255.
_LONGEST_STEM = 200
_FULL_CHROMA = 0  # coloured letters stay sharp


class PictureFolder:
    """Writes a picture with boxes, or its class, for each image that went well, under its own name.

    The names are <stem>_detections.jpg, with a number where two images have the same stem. They
    follow from the list of images alone, whichever is answered first. One image named twice gets
    one picture. Makes the folder; raises InvalidArgumentError where it cannot, or where a picture
    would be written over an image or through a link.

    Attributes:
        written: the pictures, in the order of the calls of `add`.
        failures: a message for each image that could not be drawn.
    """

    def __init__(self, folder: Path, images: Iterable[Path]) -> None:
        self._folder = folder
        self._targets = picture_paths(folder, images)
        self.written: list[Path] = []
        self.failures: list[str] = []
        self._undrawn: list[Mask] = []  # one for each picture that lacks masks
        refuse_to_overwrite(
            map(Path, self._targets),
            self._targets.values(),
            advice="give another folder for the pictures",
        )
        refuse_links(self._targets.values())
        make_folder(folder)

    def add(self, result: ImageResult, labels: Sequence[str] | None) -> None:
        """Draw one image; do nothing for one that failed or is drawn already."""
        target = self._targets.pop(result.image, None) if result.ok else None
        if target is None:
            return
        try:
            with open_picture(Path(result.image)) as image:
                picture = draw_result(image, result, labels)
            save_jpeg(picture, target, quality=_QUALITY)
        except NOT_A_PICTURE as error:
            self.failures.append(f"{result.image} cannot be drawn: {error}")
        else:
            self.written.append(target)
            self._note_missing_masks(result)

    def summary(self) -> list[str]:
        """Return what there is to say at the end, a message each."""
        messages = [f"{count(len(self.written), 'picture')} in {self._folder}/"]
        masks = self.describe_missing_masks()
        if masks is not None:
            messages.append(f"endcap: {masks}")
        if self.failures:
            missing = count(len(self.failures), "picture")
            messages.append(f"endcap: {missing} missing, the first: {self.failures[0]}")
        return messages

    def describe_missing_masks(self) -> str | None:
        """Return on how many pictures no mask is drawn and why; None where all are."""
        if not self._undrawn:
            return None
        height, width = self._undrawn[0]["size"]
        return (
            f"masks are not drawn on {count(len(self._undrawn), 'picture')}: they are of "
            f"{height}x{width} (height x width), not of the picture's size; give postprocess "
            "mask_resolution source (`endcap init --set mask_resolution=source`)"
        )

    def _note_missing_masks(self, result: ImageResult) -> None:
        size = oriented_size(Path(result.image), upright=result.upright)
        masks = (each.mask for each in result.detections if each.mask is not None)
        first = next((mask for mask in masks if size and not mask_fits(mask, size)), None)
        if first is not None:
            self._undrawn.append(first)


def save_jpeg(picture: Image.Image, target: Path, *, quality: int) -> None:
    """Write a JPEG file whole or not at all, through no link. Raises OSError, EndcapError."""
    with whole_file(target, follow_links=False) as file:
        picture.save(file, "JPEG", quality=quality, subsampling=_FULL_CHROMA)


def make_folder(folder: Path) -> None:
    """Make a folder for results, before any work is done. Raises InvalidArgumentError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidArgumentError(f"folder {folder} cannot be made: {error.strerror}") from error


def picture_paths(folder: Path, images: Iterable[Path]) -> dict[str, Path]:
    """Return by image the file that PictureFolder writes."""
    targets: dict[str, Path] = {}
    taken: set[str] = set()
    for image in map(str, images):
        if image not in targets:
            name = _unused_name(Path(image).stem, taken)
            taken.add(name)
            targets[image] = folder / name
    return targets


def _unused_name(stem: str, taken: set[str]) -> str:
    while len(os.fsencode(stem)) > _LONGEST_STEM:
        stem = stem[:-1]
    name = f"{stem}_detections.jpg"
    number = 2
    while name in taken:
        name = f"{stem}_{number}_detections.jpg"
        number += 1
    return name
