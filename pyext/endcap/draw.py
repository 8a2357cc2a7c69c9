"""Draws detections, or a class, onto the picture that they were found in."""

from __future__ import annotations

import colorsys
import math
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image, ImageDraw, ImageFont

from endcap._label_places import Corner, place_labels
from endcap._upright import upright
from endcap.client.results import ClassScore, Detection, ImageResult
from endcap.client.task import Task

Color = tuple[int, int, int]
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont

_GOLDEN_RATIO_TURN = 0.618034  # of the hue circle: consecutive class ids get distant hues
_DARK: Color = (0, 0, 0)
_LIGHT: Color = (255, 255, 255)
# A shorter picture is enlarged until letters of the least size fit in it beside the objects.
_READABLE_SIDE = 240
_LONGEST_ENLARGED_SIDE = 4096
_LEAST_FONT_SIZE = 11.0
_TALLEST = "Åg"  # makes all labels of a picture equally high
# Letters shrink to these shares of their size while a crowd leaves labels without room.
_FONT_SHARES = (1.0, 0.75, 0.55)


@dataclass(frozen=True)
class _Item:
    box: tuple[int, int, int, int]  # x1, y1, x2, y2, pixels of the drawn picture
    caption: str
    color: Color


def class_color(class_id: int) -> Color:
    """Returns the colour of a class, always the same one, RGB 0-255."""
    hue = (class_id * _GOLDEN_RATIO_TURN) % 1.0
    value = (1.0, 0.75)[class_id % 2]
    red, green, blue = colorsys.hsv_to_rgb(hue, 0.9, value)
    return round(red * 255), round(green * 255), round(blue * 255)


def draw_result(
    image: Image.Image,
    result: ImageResult,
    labels: Sequence[str] | None = None,
    *,
    within: tuple[int, int] | None = None,
) -> Image.Image:
    """Returns a new RGB picture with what a model of either task answered.

    That is `draw_detections`, or `draw_class` of the best class; `within` as for the former.
    """
    if result.task is Task.classification and result.classes:
        return draw_class(image, result.classes[0], labels, within=within)
    return draw_detections(image, result.detections, labels, within=within)


def draw_class(
    image: Image.Image,
    best: ClassScore,
    labels: Sequence[str] | None = None,
    *,
    within: tuple[int, int] | None = None,
) -> Image.Image:
    """Returns a new RGB picture, turned upright, with a class in its upper left corner.

    labels: class names by id, for a class that carries none. The size, and `within`, are as for
    `draw_detections`; the letters shrink so far that a long name fits the picture's width.
    """
    picture = _prepared(image, draws=True, within=within)[0]
    canvas = ImageDraw.Draw(picture)
    margin = _line_width(picture)
    caption = _caption(best, labels)
    for share in _FONT_SHARES:
        font = ImageFont.load_default(max(_LEAST_FONT_SIZE, share * min(picture.size) / 32))
        if _label_size(canvas, caption, margin, font)[0] <= picture.width:
            break
    item = _Item((0, 0, 0, 0), caption, class_color(best.class_id))
    _draw_label(canvas, (0, 0), item, margin, font)
    return picture


def draw_detections(
    image: Image.Image,
    detections: Sequence[Detection],
    labels: Sequence[str] | None = None,
    *,
    within: tuple[int, int] | None = None,
) -> Image.Image:
    """Returns a new RGB picture with a box and a label for each detection.

    image: any Pillow image. Its EXIF orientation is applied first, since boxes are in pixels of the
        upright picture.
    detections: boxes xyxy in those pixels; parts outside the picture are cut off.
    labels: class names by id, for detections that carry none.
    within: width and height in pixels that the picture is scaled to fit. Without it the picture
        keeps its size; one whose short side is below 240 pixels, too small for letters, is enlarged
        by a whole factor where something is to be drawn.

    Lines and letters grow with the picture, and letters shrink in a crowd. The best detection is
    drawn last, on top; its label chooses its place first. A label that would hide others is left
    out: its box still shows the class by its colour.
    """
    picture, scale = _prepared(image, draws=bool(detections), within=within)
    best_first = sorted(detections, key=lambda detection: detection.score, reverse=True)
    items = [
        _Item(
            _corners(detection, picture.size, scale),
            _caption(detection, labels),
            class_color(detection.class_id),
        )
        for detection in best_first
    ]
    line_width = _line_width(picture)
    canvas = ImageDraw.Draw(picture)
    for item in reversed(items):
        canvas.rectangle(item.box, outline=item.color, width=line_width)
    font, places = _fit_labels(canvas, items, line_width, picture.size)
    for item, place in reversed(list(zip(items, places, strict=True))):  # no line crosses a label
        if place is not None:
            _draw_label(canvas, place, item, line_width, font)
    return picture


def _prepared(
    image: Image.Image, *, draws: bool, within: tuple[int, int] | None
) -> tuple[Image.Image, float]:
    """The picture to draw on, upright and in its size, and the factor that made that size."""
    picture = upright(image).convert("RGB")
    scale = _scale(picture.size, draws, within)
    if scale != 1:
        width, height = (max(1, round(side * scale)) for side in picture.size)
        picture = picture.resize((width, height), Image.Resampling.LANCZOS)
    return picture, scale


def _line_width(picture: Image.Image) -> int:
    return max(2, round(min(picture.size) / 240))


def _scale(size: tuple[int, int], draws: bool, within: tuple[int, int] | None) -> float:
    if within is not None:
        return min(within[0] / size[0], within[1] / size[1])
    if not draws:
        return 1
    whole = math.ceil(_READABLE_SIDE / min(size))
    return max(1, min(whole, _LONGEST_ENLARGED_SIDE // max(size)))


def _corners(
    detection: Detection, size: tuple[int, int], scale: float
) -> tuple[int, int, int, int]:
    x1, y1, x2, y2 = (side * scale for side in detection.box)
    width, height = size
    left, right = sorted((_clamp(x1, width - 1), _clamp(x2, width - 1)))
    top, bottom = sorted((_clamp(y1, height - 1), _clamp(y2, height - 1)))
    return left, top, right, bottom


def _caption(answer: Detection | ClassScore, labels: Sequence[str] | None) -> str:
    name = answer.label
    if name is None and labels is not None and 0 <= answer.class_id < len(labels):
        name = labels[answer.class_id]
    return f"{name if name is not None else f'class {answer.class_id}'} {answer.score:.2f}"


def _fit_labels(
    canvas: ImageDraw.ImageDraw, items: Sequence[_Item], margin: int, size: tuple[int, int]
) -> tuple[Font, list[Corner | None]]:
    """Returns the largest letters with which every label has room, and the labels' places."""
    boxes = [item.box for item in items]
    for share in _FONT_SHARES:
        font = ImageFont.load_default(max(_LEAST_FONT_SIZE, share * min(size) / 32))
        sizes = [_label_size(canvas, item.caption, margin, font) for item in items]
        places = place_labels(boxes, sizes, size)
        if None not in places:
            break
    return font, places


def _label_size(
    canvas: ImageDraw.ImageDraw, caption: str, margin: int, font: Font
) -> tuple[int, int]:
    left, _, right, _ = canvas.textbbox((0, 0), caption, font=font)
    _, top, _, bottom = canvas.textbbox((0, 0), _TALLEST, font=font)
    return math.ceil(right - left) + 2 * margin, math.ceil(bottom - top) + 2 * margin


def _draw_label(
    canvas: ImageDraw.ImageDraw, corner: Corner, item: _Item, margin: int, font: Font
) -> None:
    x, y = corner
    width, height = _label_size(canvas, item.caption, margin, font)
    canvas.rectangle((x, y, x + width - 1, y + height - 1), fill=item.color)
    left, _, _, _ = canvas.textbbox((0, 0), item.caption, font=font)
    _, top, _, _ = canvas.textbbox((0, 0), _TALLEST, font=font)
    canvas.text(
        (x + margin - left, y + margin - top),
        item.caption,
        fill=_contrasting(item.color),
        font=font,
    )


def _clamp(value: float, largest: int) -> int:
    return max(0, min(largest, round(value)))


def _contrasting(color: Color) -> Color:
    """Returns black or white, whichever is easier to read on `color`.

    Source: relative luminance and contrast of WCAG 2.1; its crossing point is 0.179.
    """
    linear = [_linear(channel / 255) for channel in color]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return _DARK if luminance > 0.179 else _LIGHT


def _linear(channel: float) -> float:
    return channel / 12.92 if channel <= 0.04045 else float(((channel + 0.055) / 1.055) ** 2.4)
