"""Draws the keypoints of a pose: dots, and between those of a person lines."""

from __future__ import annotations

from collections.abc import Sequence

from PIL import ImageDraw

from endcap.drawing.contrast import Color, contrasting

Keypoint = tuple[float, float, float]  # x, y, visibility

SEEN = 0.5  # the least visibility of a point that counts
# Pairs of COCO's 17 keypoints: nose, eyes, ears, shoulders, elbows, wrists, hips, knees and ankles,
# each the left one first. Source: `skeleton` of COCO's category person, which counts from 1.
_COCO_KEYPOINTS = 17
_COCO_SKELETON = (
    (15, 13), (13, 11), (16, 14), (14, 12), (11, 12), (5, 11), (6, 12), (5, 6), (5, 7), (6, 8),
    (7, 9), (8, 10), (1, 2), (0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 6),
)  # fmt: skip


def draw_keypoints(
    canvas: ImageDraw.ImageDraw,
    keypoints: Sequence[Keypoint],
    size: tuple[int, int],
    color: Color,
    *,
    line_width: int,
) -> None:
    """Draw keypoints in pixels of the canvas, and for 17 of them COCO's skeleton of a person.

    Args:
        size: Width and height of the canvas. A point whose visibility is below 0.5, or that lies
            beyond the canvas, is left out with its lines.
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
