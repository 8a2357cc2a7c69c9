"""Frames of a camera that moves over a sample picture, and videos of them."""

from __future__ import annotations

import io
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray
from PIL import Image

Frame = NDArray[np.uint8]


def moving_frames(
    picture: Path, count: int, *, size: tuple[int, int] = (640, 480), step: tuple[int, int] = (6, 3)
) -> list[Frame]:
    """Return windows of a picture, `size` is width x height, each `step` right and below."""
    width, height = size
    with Image.open(picture) as opened:
        pixels = np.asarray(opened.convert("RGB"))
    windows = []
    for number in range(count):
        left, top = (number * each for each in step)
        windows.append(np.ascontiguousarray(pixels[top : top + height, left : left + width]))
    assert all(window.shape == (height, width, 3) for window in windows), "the picture is too small"
    return windows


def jpeg_of(frame: Frame, quality: int = 95) -> bytes:
    """Return a frame as a JPEG."""
    content = io.BytesIO()
    Image.fromarray(frame).save(content, "JPEG", quality=quality)
    return content.getvalue()


def video_of(
    frames: Iterable[Frame],
    *,
    codec: str = "libvpx",
    container: str = "webm",
    rate: int = 30,
    pixel_format: str = "yuv420p",
    options: dict[str, str] | None = None,
) -> bytes:
    """Return a video of the frames, which PyAV encodes."""
    content = io.BytesIO()
    with av.open(content, "w", format=container) as output:
        stream = None
        for number, pixels in enumerate(frames):
            if stream is None:
                stream = output.add_stream(codec, rate=rate, options=options or {"b": "4M"})
                stream.height, stream.width = pixels.shape[:2]
                stream.pix_fmt = pixel_format
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            frame.pts, frame.time_base = number, Fraction(1, rate)
            output.mux(stream.encode(frame))
        assert stream is not None, "no frames"
        output.mux(stream.encode())
    return content.getvalue()
