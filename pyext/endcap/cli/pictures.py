"""Annotated pictures and contact sheets."""

from __future__ import annotations

import functools
import math
import os
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from PIL import Image

from endcap._files import whole_file
from endcap.cli.console import count, message_of, printable
from endcap.cli.files import MADE_BY, make_folder, refuse_foreign, refuse_to_overwrite
from endcap.cli.latency import Latency
from endcap.cli.report import summary
from endcap.client import ImageResult, Mask
from endcap.detections import Task
from endcap.drawing.contact_sheet import PICTURES_PER_SHEET, Card, contact_sheets
from endcap.drawing.draw import draw_result, mask_fits
from endcap.drawing.orientation import NOT_A_PICTURE, open_picture, oriented_size

_QUALITY = 90
_SHEET_QUALITY = 76
# In bytes; file systems take names of 255.
_LONGEST_STEM = 200
_FULL_CHROMA = 0  # coloured letters stay sharp


class PictureFolder:
    """Writer of a picture with boxes, or its class, for each image without an error.

    The names are <stem>_detections.jpg, with a number where two images have the same stem. They
    depend on the list of images only, not on the order of the results. An image given twice gets
    one picture.

    Args:
        folder: Created where it does not exist.
        images: The files that results may be of.

    Raises:
        InvalidArgumentError: The folder cannot be created, or a picture would replace an image or
            be written through a link, or replace a file that endcap has not made.

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
        refuse_foreign(self._targets.values(), advice="give another folder for the pictures")
        make_folder(folder)

    def add(
        self, result: ImageResult, labels: Sequence[str] | None, *, file: Path | None = None
    ) -> None:
        """Draw one image; do nothing for one that failed or is drawn already.

        Args:
            result: The image's.
            labels: Class names by id.
            file: The image's; None where the result has its path.
        """
        file = file or Path(result.image)
        target = self._targets.pop(str(file), None) if result.ok else None
        if target is None:
            return
        try:
            with open_picture(file) as image:
                picture = draw_result(image, result, labels)
            # Somebody may have put a file there since the start.
            refuse_foreign([target], advice="give another folder for the pictures")
            save_jpeg(picture, target, quality=_QUALITY)
        except NOT_A_PICTURE as error:
            self.failures.append(f"{result.image} cannot be drawn: {message_of(error)}")
        else:
            self.written.append(target)
            self._note_missing_masks(result, file)

    def summary(self) -> list[str]:
        """Return messages about the pictures written and missing."""
        messages = [f"{count(len(self.written), 'picture')} in {self._folder}/"]
        masks = self.describe_missing_masks()
        if masks is not None:
            messages.append(f"endcap: {masks}")
        if self.failures:
            missing = count(len(self.failures), "picture")
            messages.append(f"endcap: {missing} missing, the first: {self.failures[0]}")
        return messages

    def describe_missing_masks(self) -> str | None:
        """Return a message about pictures without their masks; None where there are none."""
        if not self._undrawn:
            return None
        height, width = self._undrawn[0]["size"]
        return (
            f"masks are not drawn on {count(len(self._undrawn), 'picture')}: they are of "
            f"{height}x{width} (height x width), not of the picture's size; give postprocess "
            "mask_resolution source (`endcap init --set mask_resolution=source`)"
        )

    def _note_missing_masks(self, result: ImageResult, file: Path) -> None:
        size = oriented_size(file, upright=result.upright)
        masks = (each.mask for each in result.detections if each.mask is not None)
        first = next((mask for mask in masks if size and not mask_fits(mask, size)), None)
        if first is not None:
            self._undrawn.append(first)


def save_jpeg(picture: Image.Image, target: Path, *, quality: int) -> None:
    """Write a JPEG file whole or not at all, through no link. Raises OSError, EndcapError."""
    with whole_file(target, follow_links=False) as file:
        comment = MADE_BY.encode()
        picture.save(file, "JPEG", quality=quality, subsampling=_FULL_CHROMA, comment=comment)


def picture_paths(folder: Path, images: Iterable[Path]) -> dict[str, Path]:
    """Return by image the file that PictureFolder writes."""
    targets: dict[str, Path] = {}
    taken: set[str] = set()
    for image in map(str, images):
        if image not in targets:
            targets[image] = folder / unused_name(Path(image).stem, ".jpg", taken)
    return targets


def unused_name(stem: str, suffix: str, taken: set[str]) -> str:
    """Return <stem>_detections<suffix>, with a number where that is taken, and take it."""
    while len(os.fsencode(stem)) > _LONGEST_STEM:
        stem = stem[:-1]
    name = f"{stem}_detections{suffix}"
    number = 2
    while name in taken:
        name = f"{stem}_{number}_detections{suffix}"
        number += 1
    taken.add(name)
    return name


def write_sheets(
    results: Sequence[ImageResult],
    latency: Latency | None,
    labels: Sequence[str] | None,
    folder: Path,
) -> list[Path]:
    """Write the contact sheets to `sheet_paths`; return these."""
    cards = [_card(result, latency, labels) for result in results]
    sheets = contact_sheets(cards, title=f"endcap: {summary(results)}", note=_note(latency))
    paths = sheet_paths(folder, len(results))
    for path, sheet in zip(paths, sheets, strict=True):
        save_jpeg(sheet, path, quality=_SHEET_QUALITY)
    return paths


def sheet_paths(folder: Path, images: int) -> list[Path]:
    """Return contact_sheet.jpg, and contact_sheet_2.jpg and so on where there are many images."""
    sheets = math.ceil(images / PICTURES_PER_SHEET)
    numbers = ["", *(f"_{number}" for number in range(2, sheets + 1))]
    return [folder / f"contact_sheet{number}.jpg" for number in numbers]


def _card(result: ImageResult, latency: Latency | None, labels: Sequence[str] | None) -> Card:
    path = Path(result.image)
    name = printable(path.name)
    size = oriented_size(path)
    facts = [f"{size[0]} x {size[1]}"] if size else []
    draw = functools.partial(_draw, result, labels)
    if not result.ok:
        return Card(name, ", ".join([*facts, "failed"]), draw)
    times = latency.times_ms.get(result.image, []) if latency else []
    first = [result.latency_ms] if result.latency_ms is not None else []
    facts.append(_found(result))
    facts += [f"{statistics.median(each):.1f} ms" for each in (times or first,) if each]
    return Card(name, ", ".join(facts), draw)


def _found(result: ImageResult) -> str:
    if result.task is Task.classification:
        return f"best of {len(result.classes)}" if result.classes else "no class"
    return count(len(result.detections), "detection")


def _draw(
    result: ImageResult, labels: Sequence[str] | None, within: tuple[int, int]
) -> Image.Image | str:
    if not result.ok:
        return printable(f"{result.status}: {result.error}")
    try:
        with open_picture(Path(result.image)) as image:
            return draw_result(image, result, labels, within=within)
    except NOT_A_PICTURE as error:
        return printable(f"cannot be drawn: {error}")


def _note(latency: Latency | None) -> str:
    if latency is None:
        return "Latency of one request, as the client sees it."
    each = count(max(map(len, latency.times_ms.values())), "request")
    return f"Latency: median of {each} an image, one at a time, as the client sees it."
