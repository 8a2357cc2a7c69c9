"""The part of endcap infer for videos: frames in, a line for each and annotated videos out."""

from __future__ import annotations

import contextlib
import math
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from endcap.cli.annotated_video import AnnotatedVideo
from endcap.cli.console import (
    CANNOT_RUN,
    INTERRUPTED,
    SOME_IMAGE_FAILED,
    StopRequested,
    check_stop,
    count,
    message_of,
    progress_bar,
    say,
    stop_deferred,
)
from endcap.cli.files import make_folder, refuse_foreign, refuse_to_overwrite
from endcap.cli.pictures import unused_name
from endcap.cli.report import Form, report_stream, write_table
from endcap.cli.results import above, whole_results
from endcap.cli.video_report import CsvRows, FrameReport, JsonLines, Silence, VideoSummary
from endcap.cli.videos import VideoInput
from endcap.client import DetectionClient, ImageResult, Task
from endcap.client.concurrency import map_in_threads
from endcap.client.images import Image
from endcap.errors import EndcapError, InvalidArgumentError
from endcap.tracking import Tracker
from endcap.video import VideoFrame, VideoReader
from endcap.video.detection import FrameResult, detect_videos, tracked

_USUAL_RATE = 30.0
_LEAST_RATE, _MOST_RATE = 0.1, 1000.0  # of trackers and annotated videos
_OPENED_AT_ONCE = 16
_VIDEO_FILES = (".mp4", ".m4v")
_OTHER_VIDEO_FILES = (".avi", ".mkv", ".mov", ".webm")


@dataclass(frozen=True)
class VideoOptions:
    """Options of endcap infer for videos.

    Attributes:
        track: Whether detections get ids here.
        sequence: The id of the sequence that the frames are for the server; None for none.
        stream: Whether frames are sent over one gRPC stream.
        rate: Frames a second that are taken; None for all.
        every: Takes one frame in so many.
        threshold: The least score of what is reported and drawn.
        form: Of the report.
        output: The report's file; None for standard output.
        draw: An MP4 file, or a folder for them; None for none.
    """

    track: bool
    sequence: str | None
    stream: bool
    rate: float | None
    every: int
    threshold: float
    form: Form
    output: Path | None
    draw: Path | None

    @property
    def is_tracked(self) -> bool:
        """Whether detections have ids."""
        return self.track or self.sequence is not None


def refuse_image_options(
    inputs: Sequence[VideoInput], *, compare: bool, batch: int, form: Form
) -> None:
    """Raise InvalidArgumentError for options that are of images alone."""
    given = {"--coco": form is Form.coco, "--compare": compare, "--batch": batch > 1}
    for name, is_given in given.items():
        if is_given:
            raise InvalidArgumentError(
                f"{inputs[0].name} is a video, and {name} is of images; leave it out"
            )


def infer_videos(
    connect: Callable[[], DetectionClient],
    inputs: Sequence[VideoInput],
    options: VideoOptions,
    *,
    read: Iterable[Path],
    closing: contextlib.ExitStack,
) -> int:
    """Detect in videos, write the report as results come, and draw; return the exit code.

    A signal ends it with the results until then.

    Args:
        connect: Returns the client.
        inputs: The videos.
        options: What is done with them.
        read: Files that are read beside them, and not written to.
        closing: Closes the client, after the report is written.

    Raises:
        InvalidArgumentError: Options that do not fit the videos or the model, or a file that cannot
            be written or would replace another.
        ClientError: No server responds, or it does not serve the model.
    """
    _check_options(options, inputs)
    targets = video_targets(options.draw, inputs)
    _keep_files(inputs, read, targets, options)
    with report_stream(options.output) as report:
        client = closing.enter_context(connect())
        if client.task is Task.tensors:
            raise InvalidArgumentError(
                f"model '{client.model}' returns tensors, which are not reported of videos; give "
                "images"
            )
        if options.is_tracked and client.task is Task.classification:
            raise InvalidArgumentError(
                f"model '{client.model}' is a classifier, which gives no boxes to track"
            )
        run = _Run(client, options, report)
        interrupted = False
        with contextlib.ExitStack() as until_ended:
            try:
                run.open(inputs, targets, until_ended)
                run.detect()
            except StopRequested:
                interrupted = True
        return run.finish(interrupted=interrupted)


def _check_options(options: VideoOptions, inputs: Sequence[VideoInput]) -> None:
    """Raise InvalidArgumentError for options that do not go together, or with several videos."""
    if options.rate is not None and not 0 < options.rate < math.inf:
        raise InvalidArgumentError(f"--rate is {options.rate:g}: give frames a second, above 0")
    if options.rate is not None and options.every != 1:
        raise InvalidArgumentError("--rate and --every both choose frames; give one of them")
    given = {"--sequence": options.sequence is not None, "--stream": options.stream}
    for name, is_given in given.items():
        if is_given and len(inputs) > 1:
            raise InvalidArgumentError(
                f"{name} sends the frames of one video, and there are {len(inputs)}; give one, or "
                f"leave {name} out"
            )


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


def _keep_files(
    inputs: Sequence[VideoInput],
    others: Iterable[Path],
    targets: Sequence[Path],
    options: VideoOptions,
) -> None:
    """Raise InvalidArgumentError where a file that is read or not ours would be replaced.

    A folder for annotated videos is made.
    """
    read = [*others, *(each.file for each in inputs if each.file is not None)]
    refuse_to_overwrite(read, targets, advice="give --draw another file or folder")
    output = options.output
    if output is not None:
        refuse_to_overwrite(read, [output], advice="give --output another file")
        if output.resolve() in [target.resolve() for target in targets]:
            raise InvalidArgumentError(f"--output {output} is a video of --draw; give another file")
    if options.draw is not None:
        refuse_foreign(targets, advice="give --draw another file or folder")
        if list(targets) != [options.draw]:
            make_folder(options.draw)


class _Video:
    """One video while it is read."""

    def __init__(self, number: int, given: VideoInput, target: Path | None) -> None:
        self.number = number
        self.given = given
        self.target = target
        self.summary = VideoSummary(given.name)
        self.reader: VideoReader | None = None
        self.rate = _USUAL_RATE
        self.tracker: Tracker | None = None
        self.drawn: AnnotatedVideo | None = None

    def open(self, options: VideoOptions) -> None:
        """Open the reader. Raises EndcapError or OSError."""
        self.reader = VideoReader(self.given.source, rate=options.rate, every=options.every)
        given = self.reader.frame_rate or _USUAL_RATE
        rate = min(options.rate, given) if options.rate is not None else given / options.every
        self.rate = min(max(float(rate), _LEAST_RATE), _MOST_RATE)

    @property
    def frames(self) -> int | None:
        """The number of frames that will be read, as far as that is known."""
        reader = self.reader
        if reader is None or reader.is_live:
            return None
        if reader.frame_count is not None and reader.frame_rate:
            share = self.rate / float(reader.frame_rate)
            return max(1, round(reader.frame_count * min(1.0, share)))
        if reader.duration_s is not None:
            return max(1, round(reader.duration_s * self.rate))
        return None

    def end(self, error: Exception | None = None) -> None:
        """Finish the annotated file."""
        self.summary.end(None if error is None else message_of(error))
        if self.drawn is not None:
            self.drawn.close()


class _Run:
    """All videos of a command."""

    def __init__(self, client: DetectionClient, options: VideoOptions, stream: TextIO) -> None:
        self._client = client
        self._options = options
        self._stream = stream
        self._report = self._new_report()
        self._videos: list[_Video] = []

    def open(
        self, inputs: Sequence[VideoInput], targets: Sequence[Path], closing: contextlib.ExitStack
    ) -> None:
        """Open the videos at the same time; name those that cannot be opened."""
        paths: Sequence[Path | None] = targets or [None] * len(inputs)
        self._videos = [
            _Video(number, given, path)
            for number, (given, path) in enumerate(zip(inputs, paths, strict=True))
        ]

        def opened(video: _Video) -> tuple[_Video, Exception | None]:
            try:
                video.open(self._options)
            except (EndcapError, OSError) as error:
                return video, error
            return video, None

        videos = (video for video in self._videos)
        closing.callback(self._close_readers)  # last: a silent camera may need some seconds
        for video in self._videos:
            closing.callback(video.end)
        with contextlib.closing(map_in_threads(opened, videos, _OPENED_AT_ONCE)) as results:
            for video, error in results:
                if error is not None:
                    video.end(error)
        for video in self._videos:
            if self._options.track:
                video.tracker = Tracker(frame_rate=video.rate)
            if video.target is not None and video.reader is not None:
                video.drawn = AnnotatedVideo(
                    video.target,
                    self._client.labels,
                    frame_rate=video.rate,
                    live=video.reader.is_live,
                )

    def _close_readers(self) -> None:
        """Close all readers at the same time."""
        readers = (video.reader for video in self._videos if video.reader is not None)
        for _ in map_in_threads(VideoReader.close, readers, max(1, len(self._videos))):
            pass

    def detect(self) -> None:
        """Send the frames, and take their results."""
        videos = [video for video in self._videos if video.reader is not None]
        if not videos:
            return
        with (
            self._progress(videos) as advance,
            contextlib.closing(self._results(videos)) as results,
        ):
            for each in results:
                check_stop()
                self._take(videos[each.source], each.frame, each.result)
                advance()

    def _progress(self, videos: Sequence[_Video]) -> AbstractContextManager[Callable[[], None]]:
        """Return a progress bar, none where lines of the report come on the same terminal."""
        if self._options.form is not Form.table and self._stream.isatty():
            return contextlib.nullcontext(lambda: None)
        counts = [video.frames for video in videos]
        known = [each for each in counts if each is not None]
        return progress_bar("frames", sum(known) if len(known) == len(counts) else None)

    def finish(self, *, interrupted: bool) -> int:
        """Write the summary and messages about failures; return the exit code."""
        summaries = [video.summary for video in self._videos]
        if self._options.form is Form.table:
            for summary in summaries:
                if summary.frames:
                    write_table(summary.lines(tracked=self._options.is_tracked), self._stream)
        failed = False
        for video in self._videos:
            for message in video.summary.failures():
                failed = True
                say(f"endcap: {message}")
            if video.reader is not None and video.reader.status.damaged:
                damaged = count(video.reader.status.damaged, "damaged part")
                say(f"endcap: {video.given.name}: {damaged} left out")
            drawn = video.drawn
            if drawn is not None and drawn.error is not None:
                failed = True
                say(f"endcap: {drawn.path} is not written: {message_of(drawn.error)}")
            elif drawn is not None and drawn.pictures:
                say(f"{count(drawn.pictures, 'frame')} in {drawn.path}")
        frames = sum(summary.frames for summary in summaries)
        if interrupted:
            say(f"endcap: interrupted after {count(frames, 'frame')}")
            return INTERRUPTED
        if failed:
            return SOME_IMAGE_FAILED if frames else CANNOT_RUN
        return 0

    def _new_report(self) -> FrameReport:
        if self._options.form is Form.json:
            return JsonLines(self._stream)
        if self._options.form is Form.csv:
            extra = ["angle"] if "detection_angles" in self._client.outputs else []
            return CsvRows(self._stream, [*extra, *["track_id"] * self._options.is_tracked])
        return Silence()

    def _results(self, videos: Sequence[_Video]) -> Generator[FrameResult, None, None]:
        readers = [video.reader for video in videos if video.reader is not None]
        if self._options.sequence is not None or self._options.stream:
            return self._in_one_stream(videos[0], readers[0])
        return detect_videos(
            self._client,
            readers,
            trackers=[video.tracker for video in videos],
            on_end=lambda number, error: videos[number].end(error),
        )

    def _in_one_stream(
        self, video: _Video, reader: VideoReader
    ) -> Generator[FrameResult, None, None]:
        """Yield the results of frames that are sent over one stream."""
        sent: deque[VideoFrame] = deque()

        def images() -> Iterator[Image]:
            for frame in reader:
                sent.append(frame)
                yield frame.image

        if self._options.sequence is not None:
            results = self._client.track(images(), sequence=self._options.sequence)
        else:
            results = self._client.detect_stream(images())
        try:
            with contextlib.closing(results):
                for result in whole_results(results):
                    frame = sent.popleft()
                    if video.tracker is not None:
                        result = tracked(result, video.tracker, skipped=frame.dropped)
                    yield FrameResult(0, frame, result)
        except (EndcapError, OSError) as error:
            if not sent and not video.summary.frames:
                raise
            video.end(error)

    def _take(self, video: _Video, frame: VideoFrame, result: ImageResult) -> None:
        result = above(result, self._options.threshold)
        with stop_deferred():  # no line is written in part, or twice
            self._report.add(video.given.name, frame, result)
            video.summary.add(frame, result)
        if video.drawn is not None:
            video.drawn.add(frame, result)
