"""Detection in videos: frames of a reader to a server, and their results in order."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor

from endcap.client import DetectionClient, ImageResult, Task
from endcap.detections import ImageDetections
from endcap.tracking import Tracker
from endcap.video.frames import TrackClock, VideoFrame
from endcap.video.in_order import submit_in_order
from endcap.video.reader import VideoReader

# Items that are sent and whose results the caller has not taken yet, by requests in flight.
_RESULTS_AHEAD = 2


def detect_video(
    client: DetectionClient, reader: VideoReader, *, tracker: Tracker | None = None
) -> Generator[tuple[VideoFrame, ImageResult], None, None]:
    """Yield the frames of a video with their results, in their order.

    For example::

        with VideoReader("clip.mp4") as reader, DetectionClient() as client:
            tracker = endcap.Tracker(frame_rate=reader.frame_rate or 30)
            for frame, result in detect_video(client, reader, tracker=tracker):
                print(frame.seconds, result.detections.track_ids)

    As many requests are in flight as the client's `concurrency` says. Frames are read when there is
    room; a caller that is slow slows a file down, and of a live source frames are dropped, as its
    reader is set. Memory does not grow with the length of a video.

    A frame that fails has its own status, and the video goes on; for its tracks it is one in which
    nothing was seen. The tracker receives the frames' time stamps; without them, frames that the
    reader dropped are skipped. The reader is closed at the end, also of a caller that stops early.

    Args:
        client: Of a detector or classifier.
        reader: The video.
        tracker: Gives the detections ids that stay with an object, in the field `track_ids`.

    Raises:
        VideoError, OSError: The video cannot be read; after the results of the frames before.
        ClientError, UnsupportedError: As `DetectionClient.detect_one`.
    """
    threads = ThreadPoolExecutor(client.concurrency, thread_name_prefix="endcap client")
    results = submit_in_order(
        lambda frame: threads.submit(lambda: client.detect_one(frame.image)),
        reader,
        ahead=_RESULTS_AHEAD * client.concurrency,
    )
    clock = TrackClock()
    if tracker is not None:
        tracker.skip(0)  # time begins again
    try:
        with contextlib.closing(results):
            for frame, result in results:
                result = dataclasses.replace(result, image=f"frame {frame.index}")
                if tracker is not None:
                    timestamp = clock.read(frame)
                    result = track_result(
                        result, tracker, skipped=frame.dropped, timestamp=timestamp
                    )
                yield frame, result
    finally:  # running calls are not waited for, nor a reader that waits for a silent source
        threads.shutdown(wait=False, cancel_futures=True)
        threading.Thread(target=reader.close, name="endcap video", daemon=True).start()


def track_result(
    result: ImageResult, tracker: Tracker, *, skipped: int = 0, timestamp: float | None = None
) -> ImageResult:
    """Return a result with the `track_ids` of a tracker, to which it is the next frame.

    A frame that failed is one in which nothing was seen; a classifier's has no boxes to track.

    Args:
        result: The result.
        tracker: The tracker.
        skipped: Frames before it that were dropped, unless it has a time stamp.
        timestamp: Seconds.
    """
    if result.task is Task.classification:
        return result
    if timestamp is None:
        tracker.skip(skipped)
    if not result.ok:
        tracker(ImageDetections.from_list([]), timestamp=timestamp)
        return result
    return dataclasses.replace(result, detections=tracker(result.detections, timestamp=timestamp))
