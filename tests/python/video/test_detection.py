"""Frames that are sent several at a time, their results in order, and their tracks."""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import endcap
from endcap.client import Detection, ImageResult, Task
from endcap.video import VideoFrame, detect_video
from endcap.video.detection import track_result
from endcap.video.in_order import submit_in_order
from endcap.video.served import VideoJob
from endcap.video.settings import VideoOptions, VideoSettings
from tests.support.videos import encode


def in_order(
    function: Callable[[Any], Any], items: Iterable[Any], *, threads: int = 4
) -> Iterator[Any]:
    """The results of a function with so many threads, and twice as many items ahead."""
    with ThreadPoolExecutor(threads) as pool:
        submit = functools.partial(pool.submit, function)
        with contextlib.closing(submit_in_order(submit, items, ahead=2 * threads)) as results:
            for _, result in results:
                yield result


def test_results_are_in_the_order_of_the_items() -> None:
    delays = itertools.cycle([0.004, 0.0, 0.002, 0.001, 0.0])

    def call(item: int) -> int:
        time.sleep(next(delays))
        return -item

    assert list(in_order(call, range(100))) == [-item for item in range(100)]


def test_a_result_does_not_wait_for_later_items() -> None:
    first_taken = threading.Event()

    def items() -> Iterator[str]:
        yield "a"
        assert first_taken.wait(20)
        yield "b"

    results = in_order(str, items())
    assert next(results) == "a"
    first_taken.set()
    assert list(results) == ["b"]


def test_a_slow_caller_is_waited_for() -> None:
    read = 0

    def items() -> Iterator[int]:
        nonlocal read
        while True:
            read += 1
            yield read

    results = in_order(str, items())
    next(results)
    time.sleep(0.2)
    assert read <= 1 + 2 * 4
    for _ in itertools.islice(results, 20):
        pass
    time.sleep(0.2)
    assert 21 <= read <= 21 + 2 * 4
    results.close()  # type: ignore[attr-defined]


def test_errors_come_in_their_place() -> None:
    def broken() -> Iterator[int]:
        yield from range(3)
        raise endcap.CorruptImageError("damaged")

    results = in_order(str, broken())
    assert list(itertools.islice(results, 3)) == ["0", "1", "2"]
    with pytest.raises(endcap.CorruptImageError, match="damaged"):
        next(results)

    results = in_order(lambda item: 1 // (item - 3), range(10))
    assert list(itertools.islice(results, 3)) == [-1, -1, -1]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_closing_ends_the_thread() -> None:
    before = set(threading.enumerate())
    results = in_order(str, itertools.count())
    next(results)
    threads = set(threading.enumerate()) - before
    results.close()  # type: ignore[attr-defined]
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()


def test_frames_are_not_kept() -> None:
    class Frame:
        pass

    made: list[weakref.ref[Frame]] = []

    def frames() -> Iterator[Frame]:
        for _ in range(200):
            frame = Frame()
            made.append(weakref.ref(frame))
            yield frame
            del frame

    alive = []
    for _ in in_order(id, frames()):
        alive.append(sum(each() is not None for each in made))
    gc.collect()
    assert max(alive) <= 2 * 4 + 4 + 2  # ahead, in the threads, and here


def test_tracks_of_a_frame_that_failed() -> None:
    """It is a frame in which nothing was seen: a track survives it, and ages."""

    def at(x: float) -> ImageResult:
        detection = Detection((x, 10, x + 50, 60), 0.9, 1)
        return ImageResult("", "ok", endcap.ImageDetections.from_list([detection]))

    tracker, direct = endcap.Tracker(), endcap.Tracker()
    ids = []
    for x in (10, 14, None, 22):
        given = ImageResult("", "timeout", error="late") if x is None else at(x)
        taken = track_result(given, tracker)
        assert taken.status == given.status
        ids.append([each.track_id for each in taken.detections])
        direct(given.detections)
    assert ids == [[1], [1], [], [1]]
    assert tracker.frames == 4
    assert tracker.save() == direct.save()


def frame_with(index: int, dropped: int, pts: int | None = None) -> VideoFrame:
    """A gray frame with a bright square 8 * index pixels from the left."""
    image = np.zeros((100, 1500), np.uint8)
    image[20:70, 8 * index : 8 * index + 50] = 255
    return VideoFrame(
        index=index,
        pts=pts,
        time_base=Fraction(1, 25),
        seconds=index / 25,
        wall_time=0.0,
        is_key=False,
        image=image,
        width=1500,
        height=100,
        rotation=0,
        dropped=dropped,
    )


class BrightSquares:
    """What `detect_video` uses of a client: detects the square of `frame_with`."""

    concurrency = 2

    def detect_one(self, image: Any) -> ImageResult:
        ys, xs = np.nonzero(image)
        box = tuple(map(float, (xs.min(), ys.min(), xs.max() + 1, ys.max() + 1)))
        found = endcap.ImageDetections.from_list([Detection(box, 0.9, 0)])
        return ImageResult("", "ok", found)


class Frames(list[VideoFrame]):
    def close(self) -> None:
        pass


DROPPED = [0] * 5 + [5] * 10


def live_frames() -> Frames:
    indices = np.cumsum(np.array(DROPPED) + 1)
    return Frames(frame_with(int(i), n) for i, n in zip(indices, DROPPED, strict=True))


def test_an_object_keeps_its_id_over_frames_that_a_live_source_dropped() -> None:
    tracker = endcap.Tracker()
    client: Any = BrightSquares()
    results = [result for _, result in detect_video(client, live_frames(), tracker=tracker)]
    assert [each.detections[0].track_id for each in results] == [1] * len(DROPPED)
    assert tracker.frames == len(DROPPED) + sum(DROPPED)


def test_an_object_keeps_its_id_over_frames_that_time_stamps_leave_out() -> None:
    """A frame without one, or with an earlier one, follows the previous frame."""
    client: Any = BrightSquares()
    timed = [frame_with(frame.index, 0, pts=1) for frame in live_frames()]
    last = timed[-1].index
    odd = [frame_with(last, 0), frame_with(last - 1, 0, pts=1), frame_with(last, 0, pts=1)]
    tracker = endcap.Tracker(frame_rate=25)
    for frames in (timed, odd):  # time begins again
        results = detect_video(client, Frames(frames), tracker=tracker)
        assert {result.detections[0].track_id for _, result in results} == {1}


def test_the_model_video_tracks_by_time_stamps() -> None:
    indices = [frame.index for frame in live_frames()]
    data = encode([np.zeros((64, 64, 3), np.uint8)] * 15, times_ms=[40 * i for i in indices])
    places = iter(indices)

    def call(_: object) -> Any:
        x = 8 * next(places)
        tensors: Any = {f"detection_{name}": [[1]] for name in ROWS}
        tensors |= {"num_detections": [[1]], "status": [[0]]}
        tensors["detection_boxes"] = [[[x, 20, x + 50, 70]]]
        return {
            k: SimpleNamespace(as_numpy=functools.partial(np.array, v)) for k, v in tensors.items()
        }

    with ThreadPoolExecutor(1) as threads:
        options = VideoOptions(frame_rate=25)
        job = VideoJob(data, VideoSettings(), options, call=call, threads=threads)
        assert [row["track_ids"].tolist() for row in job.frames()] == [[1]] * 15


ROWS = {"boxes": (1, 3, 4), "scores": (1, 3), "classes": (1, 3), "indices": (1, 3)}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, ""),
        ({"detection_boxes": np.zeros((1, 2, 4), np.float32)}, "2 detections in"),
        ({"num_detections": np.int32([[2], [1]])}, "not the detections of one image"),
        ({"num_detections": np.int32([[4]])}, "4 detections in"),
        ({"detection_scores": None}, "'detection_scores'"),
    ],
)
def test_malformed_response_fails_its_frame(changes: dict[str, Any], says: str) -> None:
    tensors: dict[str, Any] = {f"detection_{k}": np.ones(v, np.float32) for k, v in ROWS.items()}
    tensors |= {"num_detections": np.int32([[2]]), "status": np.int32([[0]]), **changes}
    outputs: Any = {
        name: SimpleNamespace(as_numpy=lambda array=array: array)
        for name, array in tensors.items()
        if array is not None
    }
    with ThreadPoolExecutor() as threads:
        job = VideoJob(
            b"a video", VideoSettings(), VideoOptions(),
            call=lambda call: outputs, threads=threads,
        )  # fmt: skip
        detected = job._detect_frame(frame_with(0, 0))
    assert len(detected.detections) == (0 if says else 2)
    assert says in str(detected.error or "")


def test_classes_are_not_tracked() -> None:
    classified = ImageResult("", "ok", task=Task.classification)
    tracker = endcap.Tracker()
    assert track_result(classified, tracker) is classified
    assert tracker.frames == 0
    assert np.size(classified.detections.scores) == 0
