"""Draws detections with their masks and keypoints, or a class, onto the picture that holds them."""

from __future__ import annotations

import colorsys
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from endcap.drawing.labels import (
    Color,
    Label,
    contrasting,
    draw_label,
    font_size,
    label_size,
    place_labels,
)
from endcap.drawing.pictures import oriented
from endcap.masks import decode_rle
from endcap.predictions import ClassArea, ClassScore, Detection, Keypoint, Mask, class_name

_GOLDEN_RATIO_TURN = 0.618034  # of the hue circle: consecutive class ids get distant hues
# A shorter picture is enlarged until letters of the least size fit in it beside the objects.
_READABLE_SIDE = 240
_MAX_ENLARGED_SIDE = 4096
_MAX_COORDINATE = 1e5  # pixels: Pillow cannot draw lines to everywhere

_OPACITY = 115  # of 255: the picture shows through
SEEN = 0.5  # the least visibility of a point that counts
# Pairs of COCO's 17 keypoints: nose, eyes, ears, shoulders, elbows, wrists, hips, knees and ankles,
# each the left one first. Source: `skeleton` of COCO's category person, which counts from 1.
_COCO_KEYPOINTS = 17
_COCO_SKELETON = (
    (15, 13), (13, 11), (16, 14), (14, 12), (11, 12), (5, 11), (6, 12), (5, 6), (5, 7), (6, 8),
    (7, 9), (8, 10), (1, 2), (0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 6),
)  # fmt: skip


def class_color(class_id: int) -> Color:
    """Return the colour of a class, always the same one, RGB 0-255."""
    hue = (class_id * _GOLDEN_RATIO_TURN) % 1.0
    value = (1.0, 0.75)[class_id % 2]
    red, green, blue = colorsys.hsv_to_rgb(hue, 0.9, value)
    return round(red * 255), round(green * 255), round(blue * 255)


def draw_class(
    image: Image.Image,
    best: ClassScore,
    labels: Sequence[str] | None = None,
    *,
    within: tuple[int, int] | None = None,
) -> Image.Image:
    """Return a new RGB picture with a class in its corner, the EXIF orientation applied.

    Letters shrink until a long name fits the picture's width.

    Args:
        image: Any Pillow image.
        best: The class.
        labels: Class names by id, for a class without a label.
        within: As for `draw_detections`.
    """
    picture, _ = _scale(oriented(image).convert("RGB"), draws=True, within=within)
    canvas = ImageDraw.Draw(picture)
    margin = choose_line_width(picture)
    caption = _caption(best, labels)
    letters = font_size(picture.size)
    letters *= min(1, picture.width / label_size(canvas, caption, margin, letters)[0])
    label = Label((0, 0, 0, 0), caption, class_color(best.class_id))
    draw_label(canvas, (0, 0), label, margin, letters)
    return picture


def draw_classes(
    image: Image.Image,
    class_map: npt.NDArray[np.uint8],
    classes: Sequence[ClassArea],
    *,
    within: tuple[int, int] | None = None,
    upright: bool = True,
) -> Image.Image:
    """Return a new RGB picture with the colour of each pixel's class over it, and a legend.

    Args:
        image: Any Pillow image.
        class_map: Class ids [H, W], scaled to the picture.
        classes: Those to show, the most important first. The legend names as many as fit.
        within: As for `draw_detections`.
        upright: The same.
    """
    picture, _ = _scale(oriented(image, upright=upright).convert("RGB"), draws=True, within=within)
    colors = np.zeros((256, 3), np.uint8)
    alpha = [0] * 256
    for area in classes:
        colors[area.class_id] = class_color(area.class_id)
        alpha[area.class_id] = _OPACITY
    ids = Image.fromarray(class_map).resize(picture.size, Image.Resampling.NEAREST)
    picture.paste(Image.fromarray(colors[np.asarray(ids)]), mask=ids.point(alpha))
    canvas = ImageDraw.Draw(picture)
    margin, letters, y = choose_line_width(picture), font_size(picture.size), 0
    for area in classes:
        name = class_name(area.class_id, area.label)
        label = Label((0, 0, 0, 0), f"{name} {area.fraction:.1%}", class_color(area.class_id))
        height = label_size(canvas, label.caption, margin, letters)[1]
        if y and y + height > picture.height:
            break
        draw_label(canvas, (0, y), label, margin, letters)
        y += height
    return picture


def draw_detections(
    image: Image.Image,
    detections: Sequence[Detection],
    labels: Sequence[str] | None = None,
    *,
    within: tuple[int, int] | None = None,
    upright: bool = True,
) -> Image.Image:
    """Return a new RGB picture with a box and a label for each detection.

    A mask is laid over the picture in the class's colour, a box with an angle is drawn rotated,
    keypoints are dots. Of 17 keypoints COCO's skeleton is drawn; a point whose visibility is below
    0.5 is left out.

    Lines and letters grow with the picture. The best detection is drawn last, on top; its label
    chooses its place first. A label that would hide others is left out: its box still shows the
    class by its colour.

    Args:
        image: Any Pillow image.
        detections: Boxes xyxy in its pixels; parts outside the picture are cut off. A mask of
            another size than the picture is left out (`mask_fits`).
        upright: Whether boxes are in pixels after the EXIF orientation (`ImageResult.upright`):
            then it is applied first.
        labels: Class names by id, for detections that carry none.
        within: Width and height in pixels that the picture is scaled to fit. Without it the picture
            keeps its size; one whose short side is below 240 pixels, too small for letters, is
            enlarged by a whole factor where something is to be drawn.

    Raises:
        InvalidArgumentError: A mask that is not a run-length encoding.
    """
    picture = oriented(image, upright=upright).convert("RGB")
    source_size = picture.size
    picture, scale = _scale(picture, draws=bool(detections), within=within)
    best_first = sorted(detections, key=lambda detection: detection.score, reverse=True)
    marks = [
        Label(
            _label_box(detection, picture.size, scale),
            _caption(detection, labels),
            class_color(detection.class_id if detection.track_id is None else detection.track_id),
        )
        for detection in best_first
    ]
    line_width = choose_line_width(picture)
    _draw_figures(
        picture, list(zip(best_first, marks, strict=True)), source_size, scale, line_width
    )
    canvas = ImageDraw.Draw(picture)
    letters = font_size(picture.size)
    sizes = [label_size(canvas, mark.caption, line_width, letters) for mark in marks]
    places = place_labels([mark.box for mark in marks], sizes, picture.size)
    for mark, place in reversed(list(zip(marks, places, strict=True))):  # no line crosses a label
        if place is not None:
            draw_label(canvas, place, mark, line_width, letters)
    return picture


def mask_fits(mask: Mask, size: tuple[int, int]) -> bool:
    """Return whether a mask is of a picture of this width and height, and can be drawn on it."""
    width, height = size
    return mask["size"] == [height, width]


def readable_scale(size: tuple[int, int]) -> int:
    """Return the whole number by which a picture is enlarged for letters to be readable."""
    whole = math.ceil(_READABLE_SIDE / min(size))
    return max(1, min(whole, _MAX_ENLARGED_SIDE // max(size)))


def _scale(
    picture: Image.Image, *, draws: bool, within: tuple[int, int] | None
) -> tuple[Image.Image, float]:
    """Return the picture to draw on, scaled, and the factor of the scaling."""
    scale: float = readable_scale(picture.size) if draws else 1
    if within is not None:
        scale = min(within[0] / picture.width, within[1] / picture.height)
    if scale != 1:
        width, height = (max(1, round(side * scale)) for side in picture.size)
        picture = picture.resize((width, height), Image.Resampling.LANCZOS)
    return picture, scale


def choose_line_width(picture: Image.Image) -> int:
    """Return the pixels of lines on a picture."""
    return max(2, round(min(picture.size) / 240))


def _draw_figures(
    picture: Image.Image,
    best_first: Sequence[tuple[Detection, Label]],
    source_size: tuple[int, int],
    scale: float,
    line_width: int,
) -> None:
    """Masks, over them outlines, and over these keypoints; of each the best one last."""
    drawn = best_first[::-1]
    for detection, mark in drawn:
        mask = detection.mask
        if mask is not None and mask_fits(mask, source_size):
            height, width = mask["size"]
            _fill_mask(picture, decode_rle(mask["counts"], (height, width)), mark.color)
    canvas = ImageDraw.Draw(picture)
    for detection, mark in drawn:
        if detection.angle is None:
            canvas.rectangle(mark.box, outline=mark.color, width=line_width)
        else:
            corners = [
                tuple(max(-_MAX_COORDINATE, min(_MAX_COORDINATE, side * scale)) for side in corner)
                for corner in detection.corners()
            ]
            # The first side once more, so that all four corners are joined.
            line = [*corners, *corners[:2]]
            canvas.line(line, fill=mark.color, width=line_width, joint="curve")
    for detection, mark in drawn:
        points = [(x * scale, y * scale, seen) for x, y, seen in detection.keypoints or ()]
        draw_keypoints(canvas, points, picture.size, mark.color, line_width=line_width)


def _label_box(
    detection: Detection, size: tuple[int, int], scale: float
) -> tuple[int, int, int, int]:
    """Return the part of a box in the picture; of a rotated box its topmost corner there."""
    width, height = size
    corners = [(x * scale, y * scale) for x, y in detection.corners()]
    if detection.angle is not None:
        inside = [(x, y) for x, y in corners if 0 <= x < width and 0 <= y < height]
        corners = [min(inside or corners, key=lambda corner: corner[1])]
    across = [_clamp(x, width - 1) for x, _ in corners]
    down = [_clamp(y, height - 1) for _, y in corners]
    return min(across), min(down), max(across), max(down)


def _caption(prediction: Detection | ClassScore, labels: Sequence[str] | None) -> str:
    name = prediction.label
    if name is None and labels is not None and 0 <= prediction.class_id < len(labels):
        name = labels[prediction.class_id]
    caption = f"{class_name(prediction.class_id, name)} {prediction.score:.2f}"
    if isinstance(prediction, Detection) and prediction.track_id is not None:
        caption = f"#{prediction.track_id} {caption}"
    if isinstance(prediction, Detection) and prediction.classification is not None:
        caption += f", {_caption(prediction.classification, None)}"
    return caption


def _clamp(value: float, largest: int) -> int:
    return max(0, min(largest, round(value)))


def _fill_mask(picture: Image.Image, mask: npt.NDArray[np.bool_], color: Color) -> None:
    """Tint an RGB picture where a mask [H, W] is true, which is scaled to the picture."""
    columns = np.flatnonzero(mask.any(axis=0))
    if not len(columns):
        return
    left, right = int(columns[0]), int(columns[-1]) + 1
    rows = np.flatnonzero(mask[:, left:right].any(axis=1))
    top, bottom = int(rows[0]), int(rows[-1]) + 1
    inside = mask[top:bottom, left:right].astype(np.uint8) * np.uint8(_OPACITY)
    alpha = Image.fromarray(inside)
    across, down = picture.width / mask.shape[1], picture.height / mask.shape[0]
    x, y = round(left * across), round(top * down)
    size = (max(1, round(right * across) - x), max(1, round(bottom * down) - y))
    if alpha.size != size:
        alpha = alpha.resize(size, Image.Resampling.BILINEAR)
    picture.paste(color, (x, y), alpha)


def draw_keypoints(
    canvas: ImageDraw.ImageDraw,
    keypoints: Sequence[Keypoint],
    size: tuple[int, int],
    color: Color,
    *,
    line_width: int,
) -> None:
    """Draw keypoints in pixels of the canvas, and for 17 of them COCO's skeleton of a person.

    A point whose visibility is below 0.5, or that lies outside the canvas, is left out with its
    lines.

    Args:
        canvas: The canvas.
        keypoints: X, y and visibility of each.
        size: Width and height of the canvas.
        color: The class's colour.
        line_width: Pixels; a point's diameter is three times as much.
    """
    width, height = size
    shown = {
        number: (x, y)
        for number, (x, y, visibility) in enumerate(keypoints)
        if visibility >= SEEN and 0 <= x <= width and 0 <= y <= height
    }
    if len(keypoints) == _COCO_KEYPOINTS:
        for begin, end in _COCO_SKELETON:
            if begin in shown and end in shown:
                canvas.line((shown[begin], shown[end]), fill=color, width=line_width)
    radius, edge = 1.5 * line_width, max(1, line_width // 3)
    for x, y in shown.values():
        box = (x - radius, y - radius, x + radius, y + radius)
        canvas.ellipse(box, fill=color, outline=contrasting(color), width=edge)
