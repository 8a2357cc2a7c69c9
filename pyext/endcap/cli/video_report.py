"""Reports on videos: a line for each frame as it comes, and what was found at the end."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TextIO

from rich.console import Group

from endcap.cli.console import count, printable
from endcap.cli.infer_options import InferOptions
from endcap.cli.report import (
    Format,
    csv_table,
    image_heading,
    most_common,
    one_line,
    write_text,
)
from endcap.client import DetectionClient
from endcap.detections import ROW_COLUMNS, class_name
from endcap.results import ImageResult, Task
from endcap.video import VideoFrame

FRAME_COLUMNS = ("source", "frame_index", "pts_seconds", "dropped")

FrameReport = Callable[[str, VideoFrame, ImageResult], None]


def frame_report(client: DetectionClient, options: InferOptions, stream: TextIO) -> FrameReport:
    """Return a function that writes the result of a frame: a line of JSON, or rows of CSV."""
    if options.format is Format.table:
        return lambda source, frame, result: None
    extra = ["angle"] if "detection_angles" in client.outputs else []
    extra += ["track_id"] if options.track else []
    write_row = (
        csv_table((*FRAME_COLUMNS, "status", *ROW_COLUMNS, *extra), stream) if options.csv else None
    )

    def write(source: str, frame: VideoFrame, result: ImageResult) -> None:
        values = (source, frame.index, frame.seconds, frame.dropped)
        head = dict(zip(FRAME_COLUMNS, values, strict=True))
        if write_row is not None:
            for row in result.to_rows():
                write_row({**head, **row})
        else:
            line = head | result.to_dict()
            del line["image"]
            write_text(json.dumps(line, allow_nan=False), stream)
        stream.flush()

    return write


@dataclass
class VideoSummary:
    """What was found in a video until now; its size does not grow with the video."""

    name: str
    error: str | None = None  # why the video ended before its end
    damaged: int = 0  # parts that could not be decoded
    seconds: float = 0.0
    frames: int = 0  # that have results
    failed: int = 0
    first_failure: str = ""
    dropped: int = 0
    # Detections by class, or frames by best class.
    classes: Counter[str] = field(default_factory=Counter)
    tracks: int = 0  # ids are given in order, from 1
    task: Task = Task.detection

    def add(self, frame: VideoFrame, result: ImageResult) -> None:
        """Count the result of a frame."""
        self.frames += 1
        self.dropped += frame.dropped
        self.task = result.task
        if not result.ok:
            self.failed += 1
            error = f"frame {frame.index} ({result.status}: {result.error})"
            self.first_failure = self.first_failure or error
            return
        best = result.predictions if self.task is Task.detection else result.predictions[:1]
        self.classes.update(class_name(each.class_id, each.label) for each in best)
        self.tracks = max(self.tracks, *(each.track_id or 0 for each in result.detections), 0)

    def lines(self, *, tracked: bool) -> Group:
        """Return the lines of a table."""
        seconds = max(self.seconds, 1e-9)
        speed = f"{count(self.frames, 'frame')} in {seconds:.1f} s, {self.frames / seconds:.1f}/s"
        parts = [count(self.classes.total(), "detection")] if self.task is Task.detection else []
        parts += [count(self.tracks, "track")] if tracked else []
        parts += [f"{count(self.failed, 'frame')} failed"] if self.failed else []
        parts += [f"{count(self.dropped, 'frame')} dropped"] if self.dropped else []
        found = most_common(self.classes)
        lines = [speed, ", ".join(parts) + (f": {found}" if found else "")]
        return Group(
            image_heading(self.name), *(one_line(f"  {printable(line)}") for line in lines if line)
        )
