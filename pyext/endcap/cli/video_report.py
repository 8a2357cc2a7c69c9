"""Reports on videos: a line for each frame as it comes, and what was found at the end."""

from __future__ import annotations

import csv
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TextIO

from rich.console import Group

from endcap.cli.console import count, printable
from endcap.cli.export import csv_cell
from endcap.cli.report import image_heading, most_common, one_line, write_text
from endcap.detections import ROW_COLUMNS, ImageResult, Task
from endcap.video import VideoFrame

FRAME_COLUMNS = ("source", "frame_index", "pts_seconds", "dropped")


class FrameReport(Protocol):
    """Writes the results of frames as they come."""

    def add(self, source: str, frame: VideoFrame, result: ImageResult) -> None:
        """Write the result of a frame."""


class JsonLines:
    """A JSON object on a line for each frame."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def add(self, source: str, frame: VideoFrame, result: ImageResult) -> None:
        """Write the result of a frame."""
        row = {**_of_frame(source, frame), **result.to_dict()}
        del row["image"]
        write_text(json.dumps(row, allow_nan=False), self._stream)
        self._stream.flush()


class CsvRows:
    """A row for each detection or class, after a header.

    Args:
        stream: Where they are written.
        extra: Columns beside those that all results have: `angle`, `track_id`.
    """

    def __init__(self, stream: TextIO, extra: Sequence[str]) -> None:
        self._stream = stream
        self._writer = csv.DictWriter(
            stream,
            (*FRAME_COLUMNS, "status", *ROW_COLUMNS, *extra),
            extrasaction="ignore",
            lineterminator="\n",
        )
        self._writer.writeheader()

    def add(self, source: str, frame: VideoFrame, result: ImageResult) -> None:
        """Write the results of a frame; one without any has one row."""
        head = _of_frame(source, frame)
        self._writer.writerows(
            {name: csv_cell(value) for name, value in {**head, **row}.items()}
            for row in result.to_rows()
        )
        self._stream.flush()


class Silence:
    """No report of single frames."""

    def add(self, source: str, frame: VideoFrame, result: ImageResult) -> None:
        """Write nothing."""


def _of_frame(source: str, frame: VideoFrame) -> dict[str, Any]:
    return {
        "source": source,
        "frame_index": frame.index,
        "pts_seconds": frame.seconds,
        "dropped": frame.dropped,
    }


@dataclass
class VideoSummary:
    """What was found in a video until now; its size does not grow with the video.

    Attributes:
        name: The video's.
        frames: The frames that have results.
        failed: Those of them that failed.
        first_failure: Of these the first one, with its error.
        dropped: The frames that the queue of a live source dropped.
        classes: The number of detections by class, or of frames by best class.
        tracks: The number of tracks.
        error: Why the video ended before its end.
    """

    name: str
    frames: int = 0
    failed: int = 0
    first_failure: str = ""
    dropped: int = 0
    classes: Counter[str] = field(default_factory=Counter)
    tracks: int = 0
    error: str | None = None
    _task: Task = Task.detection
    _newest_track: int = 0
    _begin: float = field(default_factory=time.perf_counter)
    _end: float | None = None

    def add(self, frame: VideoFrame, result: ImageResult) -> None:
        """Count the result of a frame."""
        self.frames += 1
        self.dropped += frame.dropped
        self._task = result.task
        if not result.ok:
            self.failed += 1
            error = f"frame {frame.index} ({result.status}: {result.error})"
            self.first_failure = self.first_failure or error
            return
        names = (
            each.label if each.label is not None else f"class {each.class_id}"
            for each in (result.predictions if self._is_detection else result.predictions[:1])
        )
        self.classes.update(names)
        # Ids are given in order, and first seen in that order.
        ids = {each.track_id for each in result.detections if each.track_id is not None}
        self.tracks += sum(track > self._newest_track for track in ids)
        self._newest_track = max(self._newest_track, *ids) if ids else self._newest_track

    def end(self, error: str | None = None) -> None:
        """Stop the time; nothing happens the second time."""
        if self._end is None:
            self._end = time.perf_counter()
            self.error = error

    def lines(self, *, tracked: bool) -> Group:
        """Return the lines of a table."""
        seconds = max((self._end or time.perf_counter()) - self._begin, 1e-9)
        speed = f"{count(self.frames, 'frame')} in {seconds:.1f} s, {self.frames / seconds:.1f}/s"
        parts = [count(self.classes.total(), "detection")] if self._is_detection else []
        parts += [count(self.tracks, "track")] if tracked else []
        parts += [f"{count(self.failed, 'frame')} failed"] if self.failed else []
        parts += [f"{count(self.dropped, 'frame')} dropped"] if self.dropped else []
        found = most_common(self.classes)
        lines = [speed, ", ".join(parts) + (f": {found}" if found else "")]
        return Group(
            image_heading(self.name), *(one_line(f"  {printable(line)}") for line in lines if line)
        )

    def failures(self) -> list[str]:
        """Return messages about what failed."""
        messages = []
        if self.failed:
            messages.append(
                f"{self.failed} of {count(self.frames, 'frame')} of {self.name} failed, first "
                f"{self.first_failure}"
            )
        if self.error is not None:
            messages.append(self.error if self.name in self.error else f"{self.name}: {self.error}")
        return messages

    @property
    def _is_detection(self) -> bool:
        return self._task is Task.detection
