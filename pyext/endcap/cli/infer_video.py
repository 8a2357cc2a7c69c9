"""The part of endcap infer for videos: frames in, a report and annotated videos out."""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from rich.console import Group

from endcap.cli.console import (
    CANNOT_RUN,
    INTERRUPTED,
    SOME_IMAGE_FAILED,
    StopRequested,
    check_stop,
    count,
    describe_error,
    printable,
    progress_bar,
    say,
    stop_deferred,
)
from endcap.cli.files import MADE_BY, check_targets, make_folder
from endcap.cli.images import VideoInput
from endcap.cli.infer_options import InferOptions
from endcap.cli.pictures import unused_name
from endcap.cli.report import (
    Format,
    csv_table,
    image_heading,
    most_common,
    one_line,
    report_stream,
    write_table,
    write_text,
)
from endcap.client import ClientError, DetectionClient
from endcap.client.results import ImageResult, Task
from endcap.drawing import TrailDrawer
from endcap.errors import EndcapError, InvalidArgumentError, VideoError
from endcap.predictions import ROW_COLUMNS, class_name
from endcap.tracking import Tracker
from endcap.video import VideoFrame, VideoReader, VideoWriter
from endcap.video.detection import detect_video

_USUAL_RATE = 30.0
_MIN_RATE, _MAX_RATE = 0.1, 1000.0  # of trackers and annotated videos
_TRAIL_S = 1.5  # how long the line behind a track is
_MIN_TRAIL, _MAX_TRAIL = 10, 300
_VIDEO_FILES = (".mp4", ".m4v")
_OTHER_VIDEO_FILES = (".avi", ".mkv", ".mov", ".webm")
FRAME_COLUMNS = ("source", "frame_index", "pts_seconds", "dropped")

FrameReport = Callable[[str, VideoFrame, ImageResult], None]


def infer_videos(
    connect: Callable[[], DetectionClient],
    inputs: Sequence[VideoInput],
    options: InferOptions,
    *,
    read: Iterable[Path],
) -> int:
    """Detect in videos, write the report as results come, and draw; return the exit code.

    A signal ends it with the results until then.

    Args:
        connect: Returns the client.
        inputs: The videos.
        options: What is done with them.
        read: Files that are also read, and not written to.

    Raises:
        InvalidArgumentError: Options that do not fit the videos or the model, or a file that cannot
            be written or would replace another.
        ClientError: No server responds, or it does not serve the model.
    """
    targets = video_targets(options.draw, inputs)
    files = (each.file for each in inputs if each.file is not None)
    check_targets([*read, *files], targets, options.output)
    if options.draw is not None and targets != [options.draw]:
        make_folder(options.draw)
    summaries = [VideoSummary(each.name) for each in inputs]
    with report_stream(options.output) as stream:
        client = connect()
        if client.task in (Task.tensors, Task.segmentation):
            raise InvalidArgumentError(
                f"model '{client.model}' returns tensors or segmentations, which are not reported "
                "of videos; give images"
            )
        if options.track and client.task is Task.classification:
            raise InvalidArgumentError(
                f"model '{client.model}' is a classifier, which gives no boxes to track"
            )
        report = _make_frame_report(client, options, stream)
        interrupted = False
        try:
            for summary, given, target in itertools.zip_longest(summaries, inputs, targets):
                try:
                    _infer_video(client, given, options, target, summary, report, stream)
                finally:  # a camera goes on until a signal
                    if options.format is Format.table and summary.frames:
                        write_table(summary.lines(tracked=options.track), stream)
        except StopRequested:
            interrupted = True
    return _end(summaries, interrupted=interrupted)


def video_targets(draw: Path | None, inputs: Sequence[VideoInput]) -> list[Path]:
    """Return the annotated file of each video; none without --draw.

    Raises:
        InvalidArgumentError: One file for several videos, or one of another kind than MP4.
    """
    if draw is None:
        return []
    suffix = draw.suffix.lower()
    if suffix in _OTHER_VIDEO_FILES:
        raise InvalidArgumentError(
            f"--draw {draw}: annotated videos are MP4 files; give {draw.with_suffix('.mp4')}"
        )
    if suffix in _VIDEO_FILES:
        if len(inputs) > 1:
            raise InvalidArgumentError(
                f"--draw {draw} is one file, and there are {len(inputs)} videos; give a folder"
            )
        return [draw]
    taken: set[str] = set()
    return [draw / unused_name(each.stem, ".mp4", taken) for each in inputs]


def _infer_video(
    client: DetectionClient,
    given: VideoInput,
    options: InferOptions,
    target: Path | None,
    summary: VideoSummary,
    report: FrameReport,
    stream: TextIO,
) -> None:
    """Send the frames of a video, and take their results; what ends it early is in the summary."""
    begin = time.perf_counter()
    reader: VideoReader | None = None
    drawn: _AnnotatedVideo | None = None
    try:
        with contextlib.ExitStack() as opened:
            reader = opened.enter_context(
                VideoReader(given.source, rate=options.rate, every=options.every)
            )
            rate = _rate(reader, options)
            tracker = Tracker(frame_rate=rate) if options.track else None
            if target is not None:
                drawn = _AnnotatedVideo(target, client.labels, rate, is_live=reader.is_live)
                opened.enter_context(drawn.writer)
            advance = opened.enter_context(_progress(reader, rate, options, stream))
            results = opened.enter_context(
                contextlib.closing(detect_video(client, reader, tracker=tracker))
            )
            for frame, result in results:
                check_stop()
                result = result.above(options.score_threshold)
                with stop_deferred():  # no line is written in part, or twice
                    report(given.name, frame, result)
                    summary.add(frame, result)
                    if drawn is not None:
                        drawn.add(frame, result)
                advance()
    except (EndcapError, OSError) as error:
        is_of_video = isinstance(error, (VideoError, OSError)) and not isinstance(
            error, (ClientError, BrokenPipeError)
        )
        if not (is_of_video or (isinstance(error, EndcapError) and summary.frames)):
            raise
        summary.error = describe_error(error)
    finally:
        summary.seconds = time.perf_counter() - begin
        summary.damaged = 0 if reader is None else reader.status.damaged
        if drawn is not None and drawn.writer.pictures:
            say(f"{count(drawn.writer.pictures, 'frame')} in {target}")


def _rate(reader: VideoReader, options: InferOptions) -> float:
    """Return the frames a second that are taken."""
    given = float(reader.frame_rate or _USUAL_RATE)
    rate = min(options.rate, given) if options.rate is not None else given / options.every
    return min(max(rate, _MIN_RATE), _MAX_RATE)


def _progress(
    reader: VideoReader, rate: float, options: InferOptions, stream: TextIO
) -> AbstractContextManager[Callable[[], None]]:
    """Return a progress bar, none where lines of the report come on the same terminal."""
    if options.format is not Format.table and stream.isatty():
        return contextlib.nullcontext(lambda: None)
    seconds = None if reader.is_live else reader.duration_s
    return progress_bar("frames", None if seconds is None else max(1, round(seconds * rate)))


class _AnnotatedVideo:
    """Draws frames with their results into an MP4 file."""

    def __init__(
        self, path: Path, labels: Sequence[str] | None, rate: float, *, is_live: bool
    ) -> None:
        self.writer = VideoWriter(
            path, frame_rate=rate, in_pieces=is_live, comment=MADE_BY, follow_links=False
        )
        length = max(_MIN_TRAIL, min(_MAX_TRAIL, round(rate * _TRAIL_S)))
        self._drawer = TrailDrawer(length=length, labels=labels)
        self._is_live = is_live
        self._begin: float | None = None

    def add(self, frame: VideoFrame, result: ImageResult) -> None:
        """Append a frame; one that failed has no boxes.

        The times of a live source are those of decoding, which no reconnection disturbs.
        """
        now = frame.wall_time if self._is_live else frame.seconds
        self._begin = now if self._begin is None else self._begin
        self.writer.write(self._drawer(frame.to_rgb(), result), max(0.0, now - self._begin))


def _end(summaries: Sequence[VideoSummary], *, interrupted: bool) -> int:
    """Print messages about failures; return the exit code."""
    for each in summaries:
        if each.failed:
            say(
                f"endcap: {each.failed} of {count(each.frames, 'frame')} of {each.name} failed, "
                f"first {each.first_failure}"
            )
        if each.error is not None:
            named = each.error if each.name in each.error else f"{each.name}: {each.error}"
            say(f"endcap: {named}")
        if each.damaged:
            say(f"endcap: {each.name}: {count(each.damaged, 'damaged part')} left out")
    frames = sum(each.frames for each in summaries)
    if interrupted:
        say(f"endcap: interrupted after {count(frames, 'frame')}")
        return INTERRUPTED
    if any(each.failed or each.error is not None for each in summaries):
        return SOME_IMAGE_FAILED if frames else CANNOT_RUN
    return 0


def _make_frame_report(
    client: DetectionClient, options: InferOptions, stream: TextIO
) -> FrameReport:
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
