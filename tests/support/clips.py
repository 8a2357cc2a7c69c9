"""Clips of moving shapes, and what is in a clip."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

from endcap.cli import moving_shapes
from endcap.video import VideoWriter

RATE = moving_shapes.FRAME_RATE


def write_clip(path: Path, frames: int, *, rate: float = RATE) -> Path:
    """Writes the beginning of the scene, or more than it where that many frames are asked for."""
    with VideoWriter(path, frame_rate=rate, options={"crf": "18", "preset": "veryfast"}) as writer:
        for seconds, pixels in moving_shapes.frames(frames / rate, rate=rate):
            writer.write(pixels, seconds)
    return path


def times_of(path: Path) -> list[float]:
    """The times of a file's frames."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        return [float(frame.pts * frame.time_base) for frame in container.decode(stream)]


def pictures_of(path: Path) -> list[NDArray[np.uint8]]:
    """The frames of a file, RGB."""
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
