"""Annotated videos: frames with their results, drawn and encoded beside the caller."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from pathlib import Path

from endcap.cli.files import MADE_BY
from endcap.detections import ImageResult
from endcap.drawing import TrailDrawer
from endcap.video import VideoFrame, VideoWriter

_FRAMES_AHEAD = 8
_TRAIL_S = 1.5  # how long the line behind a track is
_SHORTEST_TRAIL, _LONGEST_TRAIL = 10, 300


class AnnotatedVideo:
    """Writer of a video's frames with their results, in a thread of its own.

    A signal that interrupts the caller does not interrupt the writing of a frame: the file plays
    until the last frame that was added.

    Args:
        path: The MP4 file.
        labels: Class names by id.
        frame_rate: Frames a second that are added.
        live: Whether the video has no end: its times are then those of decoding, which no
            reconnection disturbs, and memory does not grow.

    Raises:
        InvalidArgumentError: The file cannot be made.
        VideoError: PyAV has no encoder.

    Attributes:
        error: Why frames are not written any more; None while they are.
    """

    def __init__(
        self, path: Path, labels: Sequence[str] | None, *, frame_rate: float, live: bool = False
    ) -> None:
        self._writer = VideoWriter(
            path, frame_rate=frame_rate, in_pieces=live, comment=MADE_BY, follow_links=False
        )
        length = max(_SHORTEST_TRAIL, min(_LONGEST_TRAIL, round(frame_rate * _TRAIL_S)))
        self._drawer = TrailDrawer(length=length, labels=labels)
        self._live = live
        self._begin: float | None = None
        self._frames: queue.Queue[tuple[VideoFrame, ImageResult] | None] = queue.Queue(
            _FRAMES_AHEAD
        )
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="endcap drawing", daemon=True)
        self._thread.start()

    @property
    def path(self) -> Path:
        """The file."""
        return self._writer.path

    @property
    def pictures(self) -> int:
        """The number of frames in it until now."""
        return self._writer.pictures

    def add(self, frame: VideoFrame, result: ImageResult) -> None:
        """Append a frame; waits while others are drawn. One that failed has nothing drawn on it."""
        if self.error is None:
            self._frames.put((frame, result))

    def close(self) -> None:
        """Draw what was added, and finish the file; nothing happens the second time."""
        if self._thread.is_alive():
            self._frames.put(None)
            self._thread.join()

    def _run(self) -> None:
        while (entry := self._frames.get()) is not None:
            try:
                if self.error is None:
                    self._write(*entry)
            except Exception as error:
                self.error = error
                self._writer.discard()
            del entry
        try:
            self._writer.close()
        except Exception as error:
            self.error = self.error or error

    def _write(self, frame: VideoFrame, result: ImageResult) -> None:
        if self._begin is None:
            self._begin = frame.wall_time if self._live else frame.seconds
        now = frame.wall_time if self._live else frame.seconds
        self._writer.write(self._drawer(frame.to_rgb(), result), max(0.0, now - self._begin))
