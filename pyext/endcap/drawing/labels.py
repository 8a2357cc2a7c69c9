"""Draws labels: letters on the colour of a class."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from PIL import ImageDraw, ImageFont

from endcap._label_places import Corner, place_labels
from endcap.drawing.contrast import Color, contrasting

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont

_LEAST_FONT_SIZE = 11.0
_TALLEST = "Åg"  # makes all labels of a picture equally high
# Letters shrink to these shares of their size while a crowd leaves labels without room.
_FONT_SHARES = (1.0, 0.75, 0.55)


@dataclass(frozen=True)
class Label:
    """box: x1, y1, x2, y2 in pixels of the drawn picture, of what the label stands beside."""

    box: tuple[int, int, int, int]
    caption: str
    color: Color


def fonts(size: tuple[int, int]) -> Iterator[Font]:
    """Yield letters for a picture of this width and height, the largest first."""
    for share in _FONT_SHARES:
        yield ImageFont.load_default(max(_LEAST_FONT_SIZE, share * min(size) / 32))


def fit_labels(
    canvas: ImageDraw.ImageDraw, labels: Sequence[Label], margin: int, size: tuple[int, int]
) -> tuple[Font, list[Corner | None]]:
    """Return the largest letters with which every label has room, and the labels' places.

    Args:
        labels: The most important first.
        margin: Pixels around the letters.
        size: Width and height of the picture. A place is None where not even the smallest letters
            leave room.
    """
    boxes = [label.box for label in labels]
    for font in fonts(size):
        sizes = [label_size(canvas, label.caption, margin, font) for label in labels]
        places = place_labels(boxes, sizes, size)
        if None not in places:
            break
    return font, places


def label_size(
    canvas: ImageDraw.ImageDraw, caption: str, margin: int, font: Font
) -> tuple[int, int]:
    """Return width and height in pixels."""
    left, _, right, _ = canvas.textbbox((0, 0), caption, font=font)
    _, top, _, bottom = canvas.textbbox((0, 0), _TALLEST, font=font)
    return math.ceil(right - left) + 2 * margin, math.ceil(bottom - top) + 2 * margin


def draw_label(
    canvas: ImageDraw.ImageDraw, corner: Corner, label: Label, margin: int, font: Font
) -> None:
    """Draw a label whose upper left corner lies there."""
    x, y = corner
    width, height = label_size(canvas, label.caption, margin, font)
    canvas.rectangle((x, y, x + width - 1, y + height - 1), fill=label.color)
    left, _, _, _ = canvas.textbbox((0, 0), label.caption, font=font)
    _, top, _, _ = canvas.textbbox((0, 0), _TALLEST, font=font)
    canvas.text(
        (x + margin - left, y + margin - top),
        label.caption,
        fill=contrasting(label.color),
        font=font,
    )
