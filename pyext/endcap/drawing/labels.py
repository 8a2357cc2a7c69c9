"""Draws labels: letters on the colour of a class, in fonts that have them."""

from __future__ import annotations

import functools
import math
import subprocess
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import ImageDraw, ImageFont

Color = tuple[int, int, int]  # RGB 0-255
Corner = tuple[int, int]
Size = tuple[int, int]

_DARK: Color = (0, 0, 0)
_LIGHT: Color = (255, 255, 255)
# A label of which others would hide more than this share of its area is left out.
_TOLERATED_OVERLAP = 0.05

_MIN_FONT_SIZE = 11.0
_TALLEST = "Åg"  # makes all labels of a picture equally high
_CACHED_TEXTS = 1024  # captions of a video repeat from frame to frame

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont
_Source = tuple[str, int]  # a file, and the number of a font in it

# Pillow's own has the letters of ASCII, the file those of Latin, Greek and Cyrillic. For others
# fontconfig, where the system has it, names a font.
_PILLOW: _Source = ("", 0)
_LETTERS: _Source = (str(Path(__file__).with_name("letters.ttf")), 0)
_NO_CHARACTER = "\U0010ffff"  # that no font has
_COMPARED_SIZE = 16.0
_FONTCONFIG_WITHIN_S = 10

_told: set[str] = set()  # characters that a warning has named


@dataclass(frozen=True)
class Label:
    """box: x1, y1, x2, y2 in pixels of the drawn picture, of what the label stands next to."""

    box: tuple[int, int, int, int]
    caption: str
    color: Color


def font_size(size: Size) -> float:
    """Return the size of letters for a picture of this width and height."""
    return max(_MIN_FONT_SIZE, min(size) / 32)


def label_size(
    canvas: ImageDraw.ImageDraw, caption: str, margin: int, letters: float
) -> tuple[int, int]:
    """Return width and height in pixels, with letters of a size."""
    font = _load(_choose_font(caption), letters)
    left, _, right, _ = _text_box(font, canvas.fontmode, caption)
    _, top, _, bottom = _text_box(font, canvas.fontmode, _TALLEST)
    return math.ceil(right - left) + 2 * margin, math.ceil(bottom - top) + 2 * margin


@functools.lru_cache(maxsize=_CACHED_TEXTS)
def _text_box(font: Font, mode: str, text: str) -> tuple[float, float, float, float]:
    return font.getbbox(text, mode)


def draw_label(
    canvas: ImageDraw.ImageDraw, corner: Corner, label: Label, margin: int, letters: float
) -> None:
    """Draw a label whose upper left corner lies there."""
    x, y = corner
    font = _load(_choose_font(label.caption), letters)
    width, height = label_size(canvas, label.caption, margin, letters)
    canvas.rectangle((x, y, x + width - 1, y + height - 1), fill=label.color)
    left, _, _, _ = _text_box(font, canvas.fontmode, label.caption)
    _, top, _, _ = _text_box(font, canvas.fontmode, _TALLEST)
    canvas.text(
        (x + margin - left, y + margin - top),
        label.caption,
        fill=contrasting(label.color),
        font=font,
    )


def contrasting(color: Color) -> Color:
    """Return black or white, whichever is easier to read on `color`.

    Source: relative luminance and contrast of WCAG 2.1; its crossing point is 0.179.
    """
    linear = [_linear(channel / 255) for channel in color]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return _DARK if luminance > 0.179 else _LIGHT


def _linear(channel: float) -> float:
    return channel / 12.92 if channel <= 0.04045 else float(((channel + 0.055) / 1.055) ** 2.4)


def place_labels(
    boxes: Sequence[tuple[int, int, int, int]], sizes: Sequence[Size], picture: Size
) -> list[Corner | None]:
    """Return the upper left corner of each label, None for one that finds no room.

    A label stands above its box where there is room, else below, beside or inside of it, and always
    within the picture unless it is larger than that. The first one always finds room.

    Args:
        boxes: X1, y1, x2, y2 in pixels of the picture, the most important first: it chooses first.
        sizes: Width and height of each label.
        picture: Width and height of the picture.
    """
    taken = np.zeros((len(boxes), 4), np.int64)
    corners: list[Corner | None] = []
    count = 0
    for box, size in zip(boxes, sizes, strict=True):
        choices = _choices(box, size, picture)
        shares = _overlap(choices, taken[:count]) / (size[0] * size[1])
        best = int(np.argmin(shares))  # the first of equals: the choices come best first
        if shares[best] > _TOLERATED_OVERLAP:
            corners.append(None)
            continue
        taken[count] = choices[best]
        count += 1
        corners.append((int(choices[best, 0]), int(choices[best, 1])))
    return corners


def _choices(box: tuple[int, int, int, int], size: Size, picture: Size) -> npt.NDArray[np.int64]:
    """Return where a label may stand, int64 [10, 4] as x1, y1, x2, y2, the best place first."""
    (left, top, right, bottom), (width, height) = box, size
    corners = [
        (left, top - height),
        (right - width + 1, top - height),
        (left, bottom + 1),
        (right - width + 1, bottom + 1),
        (right + 1, top),
        (left - width, top),
        (left, top),
        (left, bottom - height + 1),
        (right - width + 1, top),
        (right - width + 1, bottom - height + 1),
    ]
    # Pushed back into the picture, a place may come to lie over the box: those come last.
    places = np.array(corners, np.int64)
    inside = np.clip(places, 0, np.maximum(0, np.subtract(picture, size)))
    inside = inside[np.argsort((inside != places).any(axis=1), kind="stable")]
    return np.hstack([inside, inside + size])


def _overlap(choices: npt.NDArray[np.int64], taken: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the pixels of each choice that lie in rectangles taken already, int64 [choices]."""
    low = np.maximum(choices[:, None, :2], taken[None, :, :2])
    high = np.minimum(choices[:, None, 2:], taken[None, :, 2:])
    sides = np.maximum(high - low, 0)
    return np.asarray((sides[..., 0] * sides[..., 1]).sum(axis=1))


@functools.lru_cache(maxsize=_CACHED_TEXTS)
def _choose_font(text: str) -> _Source:
    """Return the first font that has all characters of a text, else one that has the most.

    Warns once of each character that is drawn as a box.
    """
    if text.isascii():
        return _PILLOW
    best, lacking = _PILLOW, _lacking(_PILLOW, text)
    if lacking:
        fewest = _lacking(_LETTERS, text)
        best, lacking = (_LETTERS, fewest) if len(fewest) < len(lacking) else (best, lacking)
    if lacking and (found := _ask_fontconfig("".join(sorted(lacking)))) is not None:
        fewest = _lacking(found, text)
        best, lacking = (found, fewest) if len(fewest) < len(lacking) else (best, lacking)
    untold = "".join(sorted(lacking - _told))
    if untold:
        _told.update(untold)
        warnings.warn(
            f"no font here has {untold!a} ({untold}), drawn as boxes: install one, for example by "
            "`apt-get install fonts-noto-cjk fontconfig`",
            stacklevel=2,
        )
    return best


def _lacking(source: _Source, text: str) -> set[str]:
    """Return the characters that a font draws as it does one that it cannot have."""
    font = _load(source, _COMPARED_SIZE)
    box = _pixels(font, _NO_CHARACTER)
    return {each for each in set(text) if each.isprintable() and _pixels(font, each) == box}


def _pixels(font: Font, character: str) -> tuple[tuple[int, int], bytes]:
    mask = font.getmask(character)
    return mask.size, bytes(mask)


@functools.lru_cache(maxsize=64)
def _load(source: _Source, size: float) -> Font:
    file, number = source
    return ImageFont.truetype(file, size, number) if file else ImageFont.load_default(size)


@functools.lru_cache(maxsize=_CACHED_TEXTS)
def _ask_fontconfig(characters: str) -> _Source | None:
    """Return the system's font for some characters; None without one that Pillow can draw with."""
    pattern = ":charset=" + " ".join(f"{ord(each):x}" for each in characters)
    command = ["fc-match", "--format=%{index} %{file}", pattern]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_FONTCONFIG_WITHIN_S, check=True
        )
        number, _, file = done.stdout.partition(" ")
        # Of a variable font fontconfig numbers the instances in the upper half.
        source = (file, int(number) & 0xFFFF)
        _load(source, _COMPARED_SIZE)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return source
