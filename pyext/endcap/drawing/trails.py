"""Draws the frames of a video: results as on pictures, and behind tracks the way that they came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from endcap.detections import Detection, ImageResult
from endcap.drawing.draw import (
    class_color,
    draw_class_onto,
    draw_detections_onto,
    line_width_of,
    scaled,
)
from endcap.drawing.labels import Color
from endcap.errors import InvalidArgumentError

_MOST_FRAMES = 10_000
_OPAQUE, _FAINTEST = 255, 40
_SHADES = 8  # lines of one shade are drawn at once
_THIN = 3  # pixels of lines that are drawn twice as large, and scaled down to smooth edges
_FARTHEST = 1e4  # pixels outside of the picture, where Pillow's lines still are right

Pixels = npt.NDArray[np.uint8]


@dataclass
class _Trail:
    """The points of one track, oldest first, and the frames that they are of."""

    frames: list[int] = field(default_factory=list)
    points: list[tuple[float, float]] = field(default_factory=list)

    def cut(self, first: int) -> None:
        """Forget points of frames before `first`."""
        kept = next((n for n, frame in enumerate(self.frames) if frame >= first), len(self.frames))
        del self.frames[:kept], self.points[:kept]


class TrailDrawer:
    """Draws the frames of one video, given in their order.

    Results are drawn as `draw_detections` and `draw_class` do. A track has one colour, that of its
    box and label (`class_color` of its id), and behind it a line through its last places, which
    fades with age; where a track is not seen, its line fades away. Frames whose short side is below
    240 pixels are enlarged by a whole factor, all of them.

    Args:
        length: The frames that a line goes back; 0 draws none.
        labels: Class names by id, for results without labels.

    Raises:
        InvalidArgumentError: A length that there is not.
    """

    def __init__(self, *, length: int = 30, labels: Sequence[str] | None = None) -> None:
        if not 0 <= length <= _MOST_FRAMES:
            raise InvalidArgumentError(
                f"length is {length}: give a number of frames from 0 to {_MOST_FRAMES}"
            )
        self._length = length
        self._labels = labels
        self._frame = 0
        self._trails: dict[int, _Trail] = {}

    def __call__(
        self, frame: Pixels | Image.Image, result: ImageResult | Sequence[Detection]
    ) -> Image.Image:
        """Return a new picture of the next frame with its result.

        Args:
            frame: RGB pixels, uint8 [H,W,3], or a Pillow image; its EXIF orientation is ignored.
            result: Of the frame: detections, such as `ImageDetections`, or the result of a client.

        Raises:
            InvalidArgumentError: A frame that is no such array, or a damaged mask.
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
            trail = self._trails.setdefault(detection.track_id, _Trail())
            x1, y1, x2, y2 = detection.box
            trail.frames.append(self._frame)
            trail.points.append(((x1 + x2) / 2, (y1 + y2) / 2))
        for track, trail in list(self._trails.items()):
            trail.cut(self._frame - self._length)
            if not trail.points:
                del self._trails[track]

    def _draw_trails(self, picture: Image.Image, scale: float) -> None:
        width = line_width_of(picture)
        for track, trail in self._trails.items():
            if len(trail.points) > 1:
                points = np.array(trail.points, np.float64) * scale
                freshness = np.array(
                    [1 - (self._frame - frame) / self._length for frame in trail.frames]
                )
                _draw_line(picture, points, freshness, class_color(track), width)


def _to_picture(frame: Pixels) -> Image.Image:
    if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3 or not frame.size:
        raise InvalidArgumentError(
            f"a frame is {frame.dtype} {list(frame.shape)}: give RGB pixels, uint8 [H,W,3]"
        )
    return Image.fromarray(np.ascontiguousarray(frame)).copy()


def _draw_line(
    picture: Image.Image,
    points: npt.NDArray[np.float64],
    freshness: npt.NDArray[np.float64],
    color: Color,
    width: int,
) -> None:
    """Draw a line that fades towards its beginning.

    Args:
        picture: The picture, changed in place.
        points: float64 [N, 2], x and y in its pixels, oldest first.
        freshness: float64 [N], 1 of the newest possible point, 0 of the oldest.
        color: Of the line.
        width: Of the line.
    """
    size = np.array(picture.size)
    points = np.clip(points, -_FARTHEST, size + _FARTHEST)
    low = np.maximum(np.floor(points.min(axis=0)).astype(int) - width, 0)
    high = np.minimum(np.ceil(points.max(axis=0)).astype(int) + width + 1, size)
    if (high <= low).any():
        return
    # Drawn on a mask, the newest part last: where the line crosses itself, nothing adds up.
    finer = 2 if width <= _THIN else 1
    mask = Image.new("L", (finer * int(high[0] - low[0]), finer * int(high[1] - low[1])))
    canvas = ImageDraw.Draw(mask)
    ends = [(x, y) for x, y in ((points - low) * finer).tolist()]
    shades = np.minimum((freshness[1:] * _SHADES).astype(int), _SHADES - 1)
    begin = 0
    for end in range(1, len(ends)):
        if end == len(ends) - 1 or shades[end] != shades[begin]:
            opacity = _FAINTEST + (_OPAQUE - _FAINTEST) * int(shades[begin]) // (_SHADES - 1)
            canvas.line(ends[begin : end + 1], fill=opacity, width=width * finer)
            begin = end
    picture.paste(color, (int(low[0]), int(low[1])), mask if finer == 1 else mask.reduce(finer))
