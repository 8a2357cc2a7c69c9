"""Draws the frames of a video: results as on pictures, and behind tracks the way that they came."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from endcap.detections import Detection, Point
from endcap.drawing.draw import (
    class_color,
    draw_class_onto,
    draw_detections_onto,
    line_width_of,
    scaled,
)
from endcap.errors import InvalidArgumentError
from endcap.results import ImageResult

_MAX_FRAMES = 10_000
_FARTHEST = 1e4  # pixels outside of the picture, where Pillow's lines still are right

Pixels = npt.NDArray[np.uint8]


class TrailDrawer:
    """Draws the frames of one video, given in their order.

    Results are drawn as `draw_detections` and `draw_class` do. A track has one colour, that of its
    box and label (`class_color` of its id), and behind it a line through its last places. Frames
    whose short side is below 240 pixels are enlarged by a whole factor, all of them.

    Args:
        length: The frames that a line goes back; 0 draws none.
        labels: Class names by id, for results without labels.

    Raises:
        InvalidArgumentError: A length that there is not.
    """

    def __init__(self, *, length: int = 30, labels: Sequence[str] | None = None) -> None:
        if not 0 <= length <= _MAX_FRAMES:
            raise InvalidArgumentError(
                f"length is {length}: give a number of frames from 0 to {_MAX_FRAMES}"
            )
        self._length = length
        self._labels = labels
        self._frame = 0
        # By track, frames and the places there, the oldest first.
        self._trails: dict[int, deque[tuple[int, Point]]] = {}

    def __call__(
        self, frame: Pixels | Image.Image, result: ImageResult | Sequence[Detection]
    ) -> Image.Image:
        """Return a new picture of the next frame with its result.

        Args:
            frame: RGB pixels, uint8 [H,W,3], or a Pillow image; its EXIF orientation is ignored.
            result: Of the frame: detections, such as `ImageDetections`, or the result of a client.

        Raises:
            InvalidArgumentError: A frame that is not such an array, or a damaged mask.
        """
        if isinstance(frame, np.ndarray):
            picture = _to_picture(frame)
        else:
            picture = frame.copy() if frame.mode == "RGB" else frame.convert("RGB")
        source_size = picture.size
        picture, scale = scaled(picture, draws=True)
        if isinstance(result, Sequence):
            detections, classes = result, []
        else:
            detections, classes = result.detections, list(result.classes)
        found = list(detections)
        self._follow(found)
        self._draw_trails(picture, scale)
        if classes:
            draw_class_onto(picture, classes[0], self._labels)
        else:
            draw_detections_onto(picture, found, self._labels, source_size, scale)
        return picture

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

    def _draw_trails(self, picture: Image.Image, scale: float) -> None:
        canvas = ImageDraw.Draw(picture)
        for track, trail in self._trails.items():
            if len(trail) > 1:
                points = np.array([point for _, point in trail]) * scale
                points = np.clip(points, -_FARTHEST, np.array(picture.size) + _FARTHEST)
                ends = [(x, y) for x, y in points.tolist()]
                canvas.line(ends, fill=class_color(track), width=line_width_of(picture))


def _to_picture(frame: Pixels) -> Image.Image:
    if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3 or not frame.size:
        raise InvalidArgumentError(
            f"a frame is {frame.dtype} {list(frame.shape)}: give RGB pixels, uint8 [H,W,3]"
        )
    return Image.fromarray(np.ascontiguousarray(frame)).copy()
