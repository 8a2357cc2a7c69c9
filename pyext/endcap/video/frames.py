"""Frames of a decoder as images: planes, colours, rotation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from endcap.errors import VideoError
from endcap.preprocess import preprocess
from endcap.yuv import YuvImage, nv12, planar_yuv

Pixels: TypeAlias = npt.NDArray[np.uint8]

# Three planes of 8 bits, whose first three are used as they lie in memory.
_PLANAR = frozenset(
    f"{name}{layout}p"
    for name in ("yuv", "yuvj", "yuva")
    for layout in ("420", "422", "444", "440")
)
_GRAY = frozenset({"gray", "gray8"})  # full range, as FFmpeg itself reads them
# AVColorSpace of H.273: unspecified is read as BT.601, as FFmpeg's own conversion does.
_MATRICES = {1: "bt709", 2: "bt601", 5: "bt601", 6: "bt601", 9: "bt2020"}
_FULL_RANGE = 2  # AVColorRange


@dataclass(frozen=True, eq=False)
class VideoFrame:
    """A frame of a video, as `VideoReader` returns it.

    Attributes:
        index: Position among the decoded frames of the source, from 0; those that sampling or the
            queue left out count.
        pts: Presentation time stamp in units of `time_base`, as the file has it; None where it has
            none, and `seconds` is a guess.
        time_base: Seconds of one unit of `pts`.
        seconds: Time since the source's first frame.
        wall_time: When it was decoded, in seconds since the epoch.
        is_key: Whether it was coded without reference to others.
        image: What `preprocess`, `Preprocessor` and the clients take: a YuvImage, or an array
            [H, W] of gray or [H, W, 3] of RGB where the video holds such pixels. It lies in the
            decoder's memory where possible: do not write to it.
        width: Of the image.
        height: Of the image.
        rotation: By how many degrees clockwise the decoded pixels were rotated, as the file
            declares: 0, 90, 180 or 270.
        dropped: Frames that the queue dropped since the frame before.
    """

    index: int
    pts: int | None
    time_base: Fraction
    seconds: float
    wall_time: float
    is_key: bool
    image: YuvImage | Pixels
    width: int
    height: int
    rotation: int
    dropped: int

    def to_rgb(self) -> Pixels:
        """Return the pixels as RGB, uint8 [H, W, 3], as preprocessing converts them."""
        if isinstance(self.image, np.ndarray) and self.image.ndim == 3:
            return self.image.copy()
        size = (self.height, self.width)
        result = preprocess(
            self.image, size=size, fit="stretch", dtype="uint8", layout="nhwc", scale=1.0
        )
        pixels: Pixels = result.images[0]
        return pixels


class TrackClock:
    """Time stamps that a tracker can use, of the frames of one source in their order."""

    def __init__(self) -> None:
        self._last = -math.inf

    def read(self, frame: VideoFrame) -> float | None:
        """Return the seconds of a frame, None where it has no `pts`, or time goes backwards."""
        goes_on = frame.pts is not None and frame.seconds > self._last
        self._last = frame.seconds
        return frame.seconds if goes_on else None


def read_rotation(frame: Any) -> int:
    """Return the degrees clockwise by which a frame of PyAV has to be rotated.

    Other angles than multiples of 90 degrees are not applied.
    """
    degrees = -int(frame.rotation) % 360
    return degrees if degrees % 90 == 0 else 0


def to_image(frame: Any, rotation: int) -> YuvImage | Pixels:
    """Return the pixels of a decoded frame, rotated.

    Planes of 8 bits are used where they lie; anything else is converted once by FFmpeg.

    Args:
        frame: PyAV's.
        rotation: Degrees clockwise, a multiple of 90.

    Raises:
        VideoError: Pixels that FFmpeg cannot convert.
    """

    def rotate(plane: Pixels) -> Pixels:
        return np.ascontiguousarray(np.rot90(plane, -rotation // 90)) if rotation else plane

    return _read_planes(_to_readable(frame), rotate)


def _to_readable(frame: Any) -> Any:
    """Return a frame whose planes can be used: itself, or one that was converted."""
    name = frame.format.name
    is_top_down = all(plane.line_size > 0 for plane in frame.planes)
    has_matrix = name in _GRAY or int(frame.colorspace) in _MATRICES
    if is_top_down and name == "rgb24":
        return frame
    if is_top_down and has_matrix and (name in _PLANAR or name in _GRAY or name == "nv12"):
        return frame
    return _convert(frame, _choose_format(frame) if has_matrix else "rgb24")


def _choose_format(frame: Any) -> str:
    """Return the format of 8 bits that keeps most of a frame."""
    pixels = frame.format
    if pixels.is_rgb or pixels.has_palette or pixels.is_bayer:
        return "rgb24"
    count = len(pixels.components)
    if count <= 2:  # gray, gray with alpha
        return "gray"
    luma, chroma = pixels.components[0], pixels.components[1]
    wide, high = luma.width // max(chroma.width, 1), luma.height // max(chroma.height, 1)
    return {
        (True, True): "yuv420p",
        (True, False): "yuv422p",
        (False, True): "yuv440p",
        (False, False): "yuv444p",
    }[wide > 1, high > 1]


def _convert(frame: Any, name: str) -> Any:
    full = 2 if frame.color_range == _FULL_RANGE or frame.format.name.startswith("yuvj") else 1
    try:
        if name == "rgb24":
            return frame.reformat(format=name)
        return frame.reformat(format=name, src_color_range=full, dst_color_range=full)
    except (ValueError, OSError, RuntimeError) as error:
        raise VideoError(
            f"frames in {frame.format.name} cannot be converted to {name}: {error}"
        ) from error


def _read_planes(frame: Any, rotate: Callable[[Pixels], Pixels]) -> YuvImage | Pixels:
    name = frame.format.name
    if name in _GRAY:
        return rotate(_plane(frame.planes[0], 1))
    if name == "rgb24":
        return rotate(_plane(frame.planes[0], 3))
    is_full = frame.color_range == _FULL_RANGE or name.startswith("yuvj")
    matrix = _MATRICES[int(frame.colorspace)]
    video_range = "full" if is_full else "limited"
    if name == "nv12":
        y, uv = (_plane(plane, size) for plane, size in zip(frame.planes, (1, 2), strict=True))
        return nv12((rotate(y), rotate(uv)), matrix=matrix, range=video_range)
    y, u, v = (rotate(_plane(plane, 1)) for plane in frame.planes[:3])
    return planar_yuv(y, u, v, matrix=matrix, range=video_range)


def _plane(plane: Any, channels: int) -> Pixels:
    """Return a plane as an array [H, W] or [H, W, C] over the decoder's memory."""
    rows = np.frombuffer(plane, np.uint8).reshape(plane.height, plane.line_size)
    rows.flags.writeable = False
    pixels: Pixels = rows[:, : plane.width * channels]
    return pixels if channels == 1 else pixels.reshape(plane.height, plane.width, channels)
