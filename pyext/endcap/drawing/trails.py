"""Draws the frames of a video: results as on pictures, and behind tracks the way that they came."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from PIL import Image, ImageDraw

from endcap.drawing.draw import (
    choose_line_width,
    class_color,
    draw_class,
    draw_detections,
    readable_scale,
)
from endcap.drawing.pictures import open_for_drawing, oriented
from endcap.predictions import ClassScore, Detection, Point

_MAX_COORDINATE = 1e4  # pixels outside of the picture, where Pillow's lines still are right


class _Result(Protocol):
    """Of a client: `endcap.client.results.ImageResult`."""

    @property
    def classes(self) -> Sequence[ClassScore]: ...
    @property
    def detections(self) -> Sequence[Detection]: ...


class TrailDrawer:
    """Draws the frames of one video, given in their order.

    Results are drawn as `draw_detections` and `draw_class` do. A track has one colour, that of its
    box and label (`class_color` of its id), and behind it a line through its last places. Frames
    whose short side is below 240 pixels are enlarged by a whole factor, all of them.

    Args:
        length: The frames that a line goes back; 0 draws none.
        labels: Class names by id, for results without labels.
    """

    def __init__(self, *, length: int = 30, labels: Sequence[str] | None = None) -> None:
        self._length = length
        self._labels = labels
        self._frame = 0
        # By track, frames and the places there, the oldest first.
        self._trails: dict[int, deque[tuple[int, Point]]] = {}

    def __call__(self, frame: Any, result: _Result | Sequence[Detection]) -> Image.Image:
        """Return a new picture of the next frame with its result.

        Args:
            frame: RGB pixels, uint8 [H,W,3], or a Pillow image; its EXIF orientation is ignored.
            result: Of the frame: detections, such as `ImageDetections`, or the result of a client.

        Raises:
            InvalidArgumentError: A frame that is not such an array, or a damaged mask.
        """
        with open_for_drawing(frame) as image:
            picture = oriented(image, upright=False).convert("RGB")
        detections = result if isinstance(result, Sequence) else result.detections
        self._follow(detections)
        self._draw_trails(picture)
        scale = readable_scale(picture.size)
        within = (picture.width * scale, picture.height * scale)  # also without detections
        if not isinstance(result, Sequence) and result.classes:
            return draw_class(picture, result.classes[0], self._labels, within=within)
        return draw_detections(picture, detections, self._labels, within=within)

    def _follow(self, detections: Sequence[Detection]) -> None:
        """Take in the places of a frame's tracks, and forget those that are too old."""
        self._frame += 1
        for detection in detections:
            if detection.track_id is None or not self._length:
                continue
            x1, y1, x2, y2 = detection.box
            trail = self._trails.setdefault(detection.track_id, deque())
            trail.append((self._frame, ((x1 + x2) / 2, (y1 + y2) / 2)))
        for track, trail in list(self._trails.items()):
            while trail and trail[0][0] < self._frame - self._length:
                trail.popleft()
            if not trail:
                del self._trails[track]

    def _draw_trails(self, picture: Image.Image) -> None:
        canvas = ImageDraw.Draw(picture)
        for track, trail in self._trails.items():
            if len(trail) > 1:
                points = np.array([point for _, point in trail])
                points = np.clip(points, -_MAX_COORDINATE, np.array(picture.size) + _MAX_COORDINATE)
                ends = [(x, y) for x, y in points.tolist()]
                canvas.line(ends, fill=class_color(track), width=choose_line_width(picture))
