"""Draws detections onto the picture that they were found in."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont, ImageOps

from endcap.client.results import Detection

Color = tuple[int, int, int]

_GOLDEN_RATIO_TURN = 0.618034  # of the hue circle: consecutive class ids get distant hues
_DARK: Color = (0, 0, 0)
_LIGHT: Color = (255, 255, 255)


def class_color(class_id: int) -> Color:
    """Returns the colour of a class, always the same one, RGB 0-255."""
    hue = (class_id * _GOLDEN_RATIO_TURN) % 1.0
    value = (1.0, 0.75)[class_id % 2]
    red, green, blue = colorsys.hsv_to_rgb(hue, 0.9, value)
    return round(red * 255), round(green * 255), round(blue * 255)


def draw_detections(
    image: Image.Image, detections: Sequence[Detection], labels: Sequence[str] | None = None
) -> Image.Image:
    """Returns a new RGB picture with a box and a label for each detection.

    image: any Pillow image. Its EXIF orientation is applied first, since boxes are in pixels of the
        upright picture.
    detections: boxes xyxy in those pixels; parts outside the picture are cut off.
    labels: class names by id, for detections that carry none.

    Lines and letters grow with the picture. The best detection is drawn last, on top.
    """
    picture = ImageOps.exif_transpose(image).convert("RGB")
    short_side = min(picture.size)
    line_width = max(2, round(short_side / 240))
    font = ImageFont.load_default(max(11.0, short_side / 32))
    canvas = ImageDraw.Draw(picture)
    by_score = sorted(detections, key=lambda detection: detection.score)
    corners = [_draw_box(canvas, detection, line_width) for detection in by_score]
    for detection, corner in zip(by_score, corners, strict=True):  # no line crosses a label
        caption = _caption(detection, labels)
        _draw_label(canvas, corner, caption, class_color(detection.class_id), line_width, font)
    return picture


def _caption(detection: Detection, labels: Sequence[str] | None) -> str:
    name = detection.label
    if name is None and labels is not None and 0 <= detection.class_id < len(labels):
        name = labels[detection.class_id]
    return f"{name if name is not None else f'class {detection.class_id}'} {detection.score:.2f}"


def _draw_box(
    canvas: ImageDraw.ImageDraw, detection: Detection, line_width: int
) -> tuple[int, int]:
    """Draws the outline; returns its upper left corner."""
    width, height = canvas.im.size
    x1, y1, x2, y2 = detection.box
    left, right = sorted((_clamp(x1, width - 1), _clamp(x2, width - 1)))
    top, bottom = sorted((_clamp(y1, height - 1), _clamp(y2, height - 1)))
    color = class_color(detection.class_id)
    canvas.rectangle((left, top, right, bottom), outline=color, width=line_width)
    return left, top


def _draw_label(
    canvas: ImageDraw.ImageDraw,
    corner: tuple[int, int],
    caption: str,
    color: Color,
    margin: int,
    font: ImageFont.FreeTypeFont | ImageFont.ImageFont,
) -> None:
    """Draws the caption above the corner where there is room, else below; never cut off."""
    left, top = corner
    width, height = canvas.im.size
    text_left, text_top, text_right, text_bottom = canvas.textbbox((0, 0), caption, font=font)
    label_width = text_right - text_left + 2 * margin
    label_height = text_bottom - text_top + 2 * margin
    label_x = max(0, min(left, width - label_width))
    label_y = top - label_height if top >= label_height else min(top, height - label_height)
    label_y = max(0, label_y)
    canvas.rectangle(
        (label_x, label_y, label_x + label_width - 1, label_y + label_height - 1), fill=color
    )
    canvas.text(
        (label_x + margin - text_left, label_y + margin - text_top),
        caption,
        fill=_contrasting(color),
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
