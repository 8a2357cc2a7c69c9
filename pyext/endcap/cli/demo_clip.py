"""The clip of endcap demo: moving shapes, detected, tracked and drawn."""

from __future__ import annotations

import contextlib
from pathlib import Path

from endcap.cli import moving_shapes
from endcap.cli.annotated_video import AnnotatedVideo
from endcap.cli.console import progress_bar
from endcap.cli.files import MADE_BY
from endcap.cli.video_report import VideoSummary
from endcap.client import DetectionClient
from endcap.tracking import Tracker
from endcap.video import VideoReader, VideoWriter
from endcap.video.detection import detect_video

CLIP_NAME, TRACKED_NAME = "shapes.mp4", "shapes_tracked.mp4"
_SECONDS = 4.5


def clip_paths(folder: Path) -> list[Path]:
    """Return the clip, and the same with tracks drawn."""
    return [folder / CLIP_NAME, folder / TRACKED_NAME]


def write_clips(server_url: str, model: str, folder: Path) -> VideoSummary:
    """Write both clips; return what was found. Raises VideoError, ClientError, OSError."""
    source, drawn = clip_paths(folder)
    rate = moving_shapes.FRAME_RATE
    with VideoWriter(source, frame_rate=rate, comment=MADE_BY, follow_links=False) as writer:
        for seconds, pixels in moving_shapes.frames(_SECONDS):
            writer.write(pixels, seconds)
    summary = VideoSummary(CLIP_NAME)
    with (
        DetectionClient(server_url, model=model) as client,
        VideoReader(source) as reader,
        contextlib.closing(AnnotatedVideo(drawn, client.labels, frame_rate=rate)) as annotated,
        progress_bar("frames", round(_SECONDS * rate)) as advance,
        contextlib.closing(
            detect_video(client, reader, tracker=Tracker(frame_rate=rate))
        ) as results,
    ):
        for frame, result in results:
            summary.add(frame, result)
            annotated.add(frame, result)
            advance()
    summary.end()
    if annotated.error is not None:
        raise annotated.error
    return summary
