"""Frames for videos, videos of them by PyAV's encoders, and frames as PyAV itself gives them."""

from __future__ import annotations

import io
import pickle
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from endcap.video import VideoWriter

Pixels = NDArray[np.uint8]
RATE = 25
_SAMPLES = Path(__file__).parents[2] / "model_repository" / "detect" / "samples"
WIDE = next(_SAMPLES.glob("*1920x1080*"))

# Container, encoder, pixel format and the encoder's options, by the name of the coding. FFmpeg's
# writer of MP4 refuses what libx265 gives it now and then, with "not yet implemented".
CODINGS: dict[str, tuple[str, str, str, dict[str, str]]] = {
    "h264": ("mp4", "libx264", "yuv420p", {"preset": "ultrafast"}),
    "hevc": (
        "matroska",
        "libx265",
        "yuv420p",
        {"preset": "ultrafast", "x265-params": "log-level=0"},
    ),
    "vp9": ("webm", "libvpx-vp9", "yuv420p", {"deadline": "realtime", "cpu-used": "8"}),
    "vp8": ("webm", "libvpx", "yuv420p", {"b": "4M"}),
    "mpeg2": ("mpegts", "mpeg2video", "yuv420p", {}),
    "mjpeg": ("avi", "mjpeg", "yuvj420p", {}),
    "av1": ("mp4", "libsvtav1", "yuv420p", {"preset": "12", "svtav1-params": "lp=1"}),
    "raw": ("nut", "rawvideo", "nv12", {}),
}

_is_child = __name__ == "__main__"


def scene(count: int, width: int = 160, height: int = 120) -> list[Pixels]:
    """Smooth colours that move, a little more each frame; the upper left corner stays bright."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    frames = []
    for number in range(count):
        shift = 3 * number
        picture = np.stack(
            [
                127 + 120 * np.sin((x + shift) / 19),
                127 + 120 * np.sin((y - shift) / 23),
                127 + 120 * np.sin((x + y + 2 * shift) / 31),
            ],
            axis=-1,
        )
        picture[: height // 4, : width // 4] = 235
        frames.append(picture.round().astype(np.uint8))
    return frames


def moving_frames(count: int, *, size: tuple[int, int] = (640, 480)) -> list[Pixels]:
    """Windows of a sample picture with shapes, `size` is width x height, that move across it."""
    width, height = size
    with Image.open(WIDE) as opened:
        pixels = np.asarray(opened.convert("RGB"))
    windows = []
    for number in range(count):
        left, top = 6 * number, 3 * number
        windows.append(np.ascontiguousarray(pixels[top : top + height, left : left + width]))
    assert all(window.shape == (height, width, 3) for window in windows), "the picture is too small"
    return windows


def write_clip(path: Path, frames: int) -> Path:
    """Write moving frames as a video."""
    with VideoWriter(path, frame_rate=RATE) as writer:
        for pixels in moving_frames(frames):
            writer.write(pixels)
    return path


def encode(
    frames: Iterable[Pixels],
    coding: str = "h264",
    *,
    container: str | None = None,
    pix_fmt: str | None = None,
    rate: int = 25,
    times_ms: Sequence[int] | None = None,
    b_frames: int | None = None,
    rotation: int = 0,
    colorspace: int | None = None,
    color_range: int | None = None,
    options: Mapping[str, str] | None = None,
) -> bytes:
    """The bytes of a file. `rotation` is in degrees clockwise, as players are to turn it."""
    if coding == "av1" and not _is_child:
        # As root, SVT-AV1 leaves its caller with real-time priority, and all that it starts.
        arguments = {name: value for name, value in locals().items() if name != "frames"}
        request = pickle.dumps((list(frames), arguments))
        command = [sys.executable, "-m", "tests.support.videos"]
        root = Path(__file__).parents[2]
        done = subprocess.run(command, input=request, capture_output=True, check=True, cwd=root)
        return done.stdout
    default, encoder, default_format, default_options = CODINGS[coding]
    file = io.BytesIO()
    with av.open(file, "w", format=container or default) as output:
        stream: Any = output.add_stream(
            encoder, rate=rate, options={**default_options, **(options or {})}
        )
        stream.pix_fmt = pix_fmt or default_format
        context = stream.codec_context
        if b_frames is not None:
            context.max_b_frames = b_frames
        if colorspace is not None:
            context.colorspace = colorspace
        if color_range is not None:
            context.color_range = color_range
        if times_ms is not None:
            context.time_base = Fraction(1, 1000)
        if rotation:
            stream.set_display_rotation(-rotation)
        for number, pixels in enumerate(frames):
            if number == 0:
                stream.height, stream.width = pixels.shape[:2]
            frame = _converted(av.VideoFrame.from_ndarray(pixels, "rgb24"), stream)
            if times_ms is not None:
                frame.pts, frame.time_base = times_ms[number], Fraction(1, 1000)
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return file.getvalue()


def _converted(frame: Any, stream: Any) -> Any:
    context = stream.codec_context
    return frame.reformat(
        format=stream.pix_fmt,
        dst_colorspace=context.colorspace if context.colorspace in (1, 5, 9) else None,
        dst_color_range=context.color_range or None,
    )


def read_times(path: Path) -> list[float]:
    """The times of a file's frames."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        return [float(frame.pts * frame.time_base) for frame in container.decode(stream)]


def read_pictures(path: Path) -> list[Pixels]:
    """The frames of a file, RGB."""
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


def decoded(data: bytes | Path) -> list[Any]:
    """PyAV's frames, decoded in one thread."""
    source = str(data) if isinstance(data, Path) else io.BytesIO(data)
    with av.open(source) as container:
        stream = container.streams.video[0]
        stream.thread_type = "SLICE"
        return list(container.decode(stream))


def planes(frame: Any) -> list[Pixels]:
    """Copies of the planes of a frame of 8 bits."""
    found = []
    for number, plane in enumerate(frame.planes):
        rows = np.frombuffer(bytes(plane), np.uint8).reshape(plane.height, plane.line_size)
        if frame.format.name == "nv12" and number == 1:
            rows = rows[:, : 2 * plane.width].reshape(plane.height, plane.width, 2)
        found.append(rows[:, : plane.width].copy())
    return found


if __name__ == "__main__":
    given, options_given = pickle.load(sys.stdin.buffer)
    sys.stdout.buffer.write(encode(given, **options_given))
