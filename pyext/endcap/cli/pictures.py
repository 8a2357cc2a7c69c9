"""Annotated pictures."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from endcap._files import whole_file
from endcap.cli.console import count, describe_error
from endcap.cli.files import MADE_BY, make_folder
from endcap.client.results import ImageResult
from endcap.drawing.draw import mask_fits
from endcap.drawing.pictures import NOT_A_PICTURE, open_picture, read_oriented_size
from endcap.predictions import Mask

_QUALITY = 90
# In bytes; file systems take names of 255.
_MAX_STEM_BYTES = 200
_FULL_CHROMA = 0  # coloured letters stay sharp


class PictureFolder:
    """Writer of a picture with boxes, or its class, for each image without an error.

    The names are those of `picture_paths`. An image given twice gets one picture.

    Args:
        folder: Created where it does not exist.
        images: The files that results may be of.

    Raises:
        InvalidArgumentError: The folder cannot be created.

    Attributes:
        written: The number of pictures.
        failures: A message for each image that could not be drawn.
    """

    def __init__(self, folder: Path, images: Iterable[Path]) -> None:
        self._folder = folder
        self._targets = picture_paths(folder, images)
        self._undrawn: list[Mask] = []  # one for each picture that lacks masks
        self.written = 0
        self.failures: list[str] = []
        make_folder(folder)

    def add(self, result: ImageResult, labels: Sequence[str] | None) -> None:
        """Draw one image; do nothing for one that failed or is drawn already."""
        target = self._targets.pop(result.image, None) if result.ok else None
        if target is None:
            return
        file = Path(result.image)
        try:
            with open_picture(file) as image:
                picture = result.draw(image, labels=labels)
            # Whole or not at all, and through no link.
            with whole_file(target, follow_links=False) as jpeg:
                comment = MADE_BY.encode()
                picture.save(
                    jpeg, "JPEG", quality=_QUALITY, subsampling=_FULL_CHROMA, comment=comment
                )
        except NOT_A_PICTURE as error:
            self.failures.append(f"{result.image} cannot be drawn: {describe_error(error)}")
            return
        self.written += 1
        size = read_oriented_size(file, upright=result.upright)
        masks = (each.mask for each in result.detections if each.mask is not None)
        self._undrawn += [mask for mask in masks if size and not mask_fits(mask, size)][:1]

    def summary(self) -> list[str]:
        """Return messages about the pictures written and missing."""
        messages = [f"{count(self.written, 'picture')} in {self._folder}/"]
        if self._undrawn:
            height, width = self._undrawn[0]["size"]
            messages.append(
                f"endcap: masks are not drawn on {count(len(self._undrawn), 'picture')}: they are "
                f"of {height}x{width} (height x width), not of the picture's size; give "
                "postprocess mask_resolution source (`endcap init --set mask_resolution=source`)"
            )
        if self.failures:
            missing = count(len(self.failures), "picture")
            messages.append(f"endcap: {missing} missing, the first: {self.failures[0]}")
        return messages


def picture_paths(folder: Path | None, images: Iterable[Path]) -> dict[str, Path]:
    """Return by image the file that PictureFolder writes; none without a folder."""
    targets: dict[str, Path] = {}
    taken: set[str] = set()
    for image in map(str, images):
        if folder is not None and image not in targets:
            targets[image] = folder / unused_name(Path(image).stem, ".jpg", taken)
    return targets


def unused_name(stem: str, suffix: str, taken: set[str]) -> str:
    """Return <stem>_detections<suffix>, with a number where that is taken, and take it."""
    while len(os.fsencode(stem)) > _MAX_STEM_BYTES:
        stem = stem[:-1]
    name = f"{stem}_detections{suffix}"
    number = 2
    while name in taken:
        name = f"{stem}_{number}_detections{suffix}"
        number += 1
    taken.add(name)
    return name
