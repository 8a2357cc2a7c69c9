"""Detection in videos: frames of readers to a server, and their results in order."""

from __future__ import annotations

import contextlib
import dataclasses
import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from endcap.client import DetectionClient, ImageResult, Task
from endcap.client.images import Image, refuse_single
from endcap.detections import ImageDetections
from endcap.errors import InvalidArgumentError
from endcap.tracking import Tracker
from endcap.video.frames import VideoFrame

T = TypeVar("T")

# Frames that are sent and whose results the caller has not taken yet: this many times the requests
# in flight, shared by the sources.
_RESULTS_AHEAD = 2
_LEAST_AHEAD = 2  # of each source


class FrameSource(Protocol):
    """What frames are taken from, such as a `VideoReader`."""

    def __iter__(self) -> Iterator[VideoFrame]:
        """Return an iterator over the frames."""

    def close(self) -> None:
        """End the iterator, from another thread, too."""


@dataclass(frozen=True, eq=False)
class FrameResult:
    """The result of one frame.

    Attributes:
        source: The position of its source among those that were given.
        frame: The frame.
        result: Of the frame; one that failed has a status other than "ok" and no detections. Its
            `image` is "frame N" with the frame's index.
    """

    source: int
    frame: VideoFrame
    result: ImageResult


def detect_video(
    client: DetectionClient, reader: FrameSource, *, tracker: Tracker | None = None
) -> Generator[tuple[VideoFrame, ImageResult], None, None]:
    """Yield the frames of a video with their results, in their order.

    As `detect_videos` does of several::

        with VideoReader("clip.mp4") as reader, DetectionClient() as client:
            tracker = endcap.Tracker(frame_rate=reader.frame_rate or 30)
            for frame, result in detect_video(client, reader, tracker=tracker):
                print(frame.seconds, result.detections.track_ids)

    Args:
        client: Of a detector or classifier.
        reader: The video.
        tracker: Gives the detections ids that stay with an object, in the field `track_ids`.

    Raises:
        VideoError, OSError: The video cannot be read; after the results of the frames before.
        ClientError, UnsupportedError: As `DetectionClient.detect_one`.
    """
    trackers = None if tracker is None else [tracker]
    with contextlib.closing(detect_videos(client, [reader], trackers=trackers)) as results:
        for each in results:
            yield each.frame, each.result


def detect_videos(
    client: DetectionClient,
    readers: Sequence[FrameSource],
    *,
    trackers: Sequence[Tracker | None] | None = None,
    on_end: Callable[[int, Exception | None], None] | None = None,
) -> Generator[FrameResult, None, None]:
    """Yield the frames of several videos with their results, each video's in their order.

    As many requests are in flight as the client's `concurrency` says, of which each video gets its
    share: they take turns. Frames are read when there is room; a caller that is slow slows files
    down, and of live sources frames are dropped, as their readers are set. Memory does not grow
    with the length of a video.

    A frame that fails has its own status, and the video goes on; for its tracks it is one in which
    nothing was seen. Frames that a reader dropped are skipped by the tracker. The readers are
    closed at the end, also of a caller that stops early.

    Args:
        client: Of a detector or classifier.
        readers: The videos.
        trackers: For each one its tracker, or None.
        on_end: Called in the caller's thread after the last result of a video, with its position
            and the error that ended it, None for its end. Without it an error is raised.

    Raises:
        InvalidArgumentError: Other than one tracker for each video.
        VideoError, OSError: A video cannot be read, without `on_end`.
        ClientError, UnsupportedError: As `DetectionClient.detect_one`.
    """
    if trackers is not None and len(trackers) != len(readers):
        raise InvalidArgumentError(
            f"trackers are {len(trackers)} and readers {len(readers)}: give one tracker for each"
        )
    work = _Work(lambda frame: client.detect_one(frame.image), readers, client.concurrency)
    try:
        for number, done in work.run():
            if isinstance(done, _End):
                if on_end is not None:
                    on_end(number, done.error)
                elif done.error is not None:
                    raise done.error
                continue
            frame = done[0]
            result = dataclasses.replace(done[1], image=f"frame {frame.index}")
            tracker = None if trackers is None else trackers[number]
            if tracker is not None:
                result = tracked(result, tracker, skipped=frame.dropped)
            yield FrameResult(number, frame, result)
    finally:
        work.stop()
        for reader in readers:  # one that waits for a silent source is not waited for
            _start("endcap video", reader.close)


def detect_in_order(
    client: DetectionClient, images: Iterable[Image]
) -> Generator[ImageResult, None, None]:
    """Yield the results of images in their order, each as soon as those before it are there.

    As `DetectionClient.detect` in all else; no result is kept, so there may be any number of them.

    Args:
        client: Of a detector or classifier.
        images: As for `DetectionClient.detect`, read by a thread.
    """
    refuse_single(images)
    work = _Work(client.detect_one, [images], client.concurrency)
    try:
        for _, done in work.run():
            if not isinstance(done, _End):
                yield done[1]
            elif done.error is not None:
                raise done.error
    finally:
        work.stop()


def tracked(result: ImageResult, tracker: Tracker, *, skipped: int = 0) -> ImageResult:
    """Return a result with the `track_ids` of a tracker, to which it is the next frame.

    A frame that failed is one in which nothing was seen; a classifier's has no boxes to track.

    Args:
        result: The result.
        tracker: The tracker.
        skipped: Frames before it that were dropped.
    """
    if result.task is Task.classification:
        return result
    tracker.skip(skipped)
    if not result.ok:
        tracker(ImageDetections.from_list([]))
        return result
    return dataclasses.replace(result, detections=tracker(result.detections))


@dataclass(frozen=True)
class _End:
    """The end of a source, with the error that it raised."""

    error: Exception | None


@dataclass
class _Job(Generic[T]):
    """An item that is sent, and its result when there is one."""

    item: T
    result: ImageResult | None = None


class _Work(Generic[T]):
    """Items of several sources, each sent by a thread, and their results in each source's order.

    A thread for each source reads its items; one that has an item waits for its turn, which come in
    the order in which sources ask.

    Args:
        send: Returns the result of an item.
        sources: The items.
        limit: The number of items that are sent at once.
    """

    def __init__(
        self, send: Callable[[T], ImageResult], sources: Sequence[Iterable[T]], limit: int
    ) -> None:
        self._send = send
        self._limit = limit
        self._changed = threading.Condition()  # of what the following attributes say
        self._stopped = False
        self._in_flight = 0
        self._active = len(sources)
        self._ahead = [0] * len(sources)  # items that are sent and whose results are not taken yet
        self._waiting: deque[int] = deque()  # sources with an item, the longest waiting first
        self._jobs: list[deque[_Job[T] | _End]] = [deque() for _ in sources]
        self._to_send: queue.SimpleQueue[tuple[int, _Job[T]] | None] = queue.SimpleQueue()
        # Numbers of sources that have a result or have ended, and errors of the caller's client.
        self._events: queue.SimpleQueue[int | BaseException] = queue.SimpleQueue()
        for number, source in enumerate(sources):
            _start("endcap video", self._read, number, source)
        for _ in range(limit):
            _start("endcap client", self._work)

    def run(self) -> Iterator[tuple[int, tuple[T, ImageResult] | _End]]:
        """Yield the number of a source, with an item and its result, or with its end."""
        active = len(self._jobs)
        while active:
            event = self._events.get()
            if isinstance(event, BaseException):
                raise event
            jobs = self._jobs[event]
            while jobs:
                first = jobs[0]
                if isinstance(first, _End):
                    jobs.popleft()
                    active -= 1
                    self._change(active=-1)
                    yield event, first
                    break
                if first.result is None:
                    break
                jobs.popleft()
                self._change(taken_of=event)
                yield event, (first.item, first.result)

    def stop(self) -> None:
        """Send nothing more. Running calls are not waited for."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        for _ in range(self._limit):
            self._to_send.put(None)

    def _read(self, number: int, source: Iterable[T]) -> None:
        error: Exception | None = None
        try:
            for item in source:
                if not self._admit(number):
                    return
                job = _Job(item)
                self._jobs[number].append(job)
                self._to_send.put((number, job))
                del item, job  # not to be kept alive until the next one
        except Exception as raised:
            error = raised
        self._jobs[number].append(_End(error))
        self._events.put(number)

    def _admit(self, number: int) -> bool:
        """Wait until an item of a source may be sent; return False where none may any more."""
        with self._changed:
            self._waiting.append(number)
            self._changed.wait_for(lambda: self._stopped or self._next() == number)
            if self._stopped:
                return False
            self._waiting.remove(number)
            self._in_flight += 1
            self._ahead[number] += 1
            self._changed.notify_all()
        return True

    def _next(self) -> int | None:
        """Return the source whose turn it is, None where none may send."""
        if self._in_flight >= self._limit:
            return None
        share = -(-_RESULTS_AHEAD * self._limit // max(1, self._active))
        most = max(_LEAST_AHEAD, share)
        return next((number for number in self._waiting if self._ahead[number] < most), None)

    def _work(self) -> None:
        while (entry := self._to_send.get()) is not None:
            number, job = entry
            del entry
            try:
                job.result = self._send(job.item)
            except BaseException as error:
                self._events.put(error)
                return
            del job
            self._change(in_flight=-1)
            self._events.put(number)

    def _change(self, *, active: int = 0, in_flight: int = 0, taken_of: int | None = None) -> None:
        with self._changed:
            self._active += active
            self._in_flight += in_flight
            if taken_of is not None:
                self._ahead[taken_of] -= 1
            self._changed.notify_all()


def _start(name: str, function: Callable[..., None], *arguments: object) -> None:
    threading.Thread(target=function, args=arguments, name=name, daemon=True).start()
