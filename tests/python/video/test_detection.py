"""Items of several sources, sent at the same time, and their results in order."""

from __future__ import annotations

import gc
import itertools
import threading
import time
import weakref
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import endcap
from endcap.client import Detection, ImageResult, Task
from endcap.triton.video_settings import VideoOptions, VideoSettings
from endcap.video import VideoFrame, detect_video
from endcap.video.detection import _End, _Work, tracked
from endcap.video.served import VideoInput, VideoJob, _Detected


def result(name: object) -> ImageResult:
    return ImageResult(str(name), "ok")


def run(work: _Work[Any]) -> Iterator[tuple[int, str]]:
    """The number of each source with the names of its results, and "end" at its end."""
    try:
        for number, done in work.run():
            yield number, "end" if isinstance(done, _End) else done[1].image
    finally:
        work.stop()


def test_results_of_each_source_are_in_its_order() -> None:
    delays = itertools.cycle([0.004, 0.0, 0.002, 0.001, 0.0])

    def send(item: str) -> ImageResult:
        time.sleep(next(delays))
        return result(item)

    sources = [[f"{name}{number}" for number in range(50)] for name in "abc"]
    found: dict[int, list[str]] = {0: [], 1: [], 2: []}
    for number, name in run(_Work(send, sources, 4)):
        found[number].append(name)
    assert found == {number: [*source, "end"] for number, source in enumerate(sources)}


def test_a_result_does_not_wait_for_later_items() -> None:
    first_taken = threading.Event()

    def items() -> Iterator[str]:
        yield "a"
        assert first_taken.wait(20)
        yield "b"

    results = run(_Work(result, [items()], 4))
    assert next(results) == (0, "a")
    first_taken.set()
    assert list(results) == [(0, "b"), (0, "end")]


def test_at_most_so_many_are_sent_at_once_and_as_many_as_that() -> None:
    sending, most = 0, 0
    lock = threading.Lock()
    all_at_once = threading.Barrier(3)

    def send(item: int) -> ImageResult:
        nonlocal sending, most
        with lock:
            sending += 1
            most = max(most, sending)
        if item < 3:
            all_at_once.wait(20)  # breaks where fewer are sent at once
        with lock:
            sending -= 1
        return result(item)

    assert len(list(run(_Work(send, [range(40)], 3)))) == 41
    assert most == 3


def test_sources_take_turns() -> None:
    """A source that always has an item leaves others their share."""
    sent: list[str] = []
    may_begin = threading.Event()

    def send(item: str) -> ImageResult:
        assert may_begin.wait(20)
        sent.append(item[0])
        time.sleep(0.0005)
        return result(item)

    endless = [(f"{name}{number}" for number in itertools.count()) for name in "abc"]
    work = _Work(send, endless, 2)
    time.sleep(0.05)  # until all have an item
    may_begin.set()
    for _ in itertools.islice(run(work), 300):
        pass
    work.stop()
    counts = Counter(sent[:300])
    assert min(counts.values()) > 80, counts


def test_a_slow_caller_is_waited_for() -> None:
    sent = 0

    def send(item: int) -> ImageResult:
        nonlocal sent
        sent += 1
        return result(item)

    work = _Work(send, [itertools.count()], 4)
    results = run(work)
    next(results)
    time.sleep(0.2)
    assert sent <= 1 + 2 * 4
    for _ in itertools.islice(results, 20):
        pass
    time.sleep(0.2)
    assert 21 <= sent <= 21 + 2 * 4
    work.stop()


def test_the_last_source_has_all_requests() -> None:
    """The share of those that have ended goes to the others."""
    waiting = threading.Barrier(4)

    def send(item: str) -> ImageResult:
        if item.startswith("long"):
            waiting.wait(20)
        return result(item)

    def later() -> Iterator[str]:
        ended.wait(20)
        for number in range(8):
            yield f"long{number}"

    ended = threading.Event()
    sources = [["a"], ["b"], ["c"], ["d"], later()]
    names = []
    for _, name in run(_Work(send, sources, 4)):
        names.append(name)
        if names.count("end") == 4:
            ended.set()
    assert names.count("end") == 5
    assert sum(name.startswith("long") for name in names) == 8


def test_an_error_of_a_source_comes_after_its_results() -> None:
    def broken() -> Iterator[str]:
        yield "a0"
        yield "a1"
        raise endcap.CorruptImageError("damaged")

    ends: dict[int, Exception | None] = {}
    names: dict[int, list[str]] = {0: [], 1: []}
    for number, done in _Work(result, [broken(), ["b0", "b1", "b2"]], 2).run():
        if isinstance(done, _End):
            ends[number] = done.error
        else:
            names[number].append(done[1].image)
    assert names == {0: ["a0", "a1"], 1: ["b0", "b1", "b2"]}
    assert isinstance(ends[0], endcap.CorruptImageError)
    assert ends[1] is None


def test_an_error_of_sending_ends_all() -> None:
    def send(item: int) -> ImageResult:
        if item == 3:
            raise endcap.UnsupportedError("not such a model")
        return result(item)

    work = _Work(send, [range(10)], 1)
    with pytest.raises(endcap.UnsupportedError, match="not such a model"):
        list(run(work))
    work.stop()


def test_stopping_ends_the_threads() -> None:
    before = set(threading.enumerate())
    work = _Work(result, [itertools.count() for _ in range(3)], 4)
    threads = set(threading.enumerate()) - before
    assert len(threads) == 3 + 4
    for _ in itertools.islice(run(work), 10):
        pass
    work.stop()
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
    for _ in _Work(result, [frames()], 4).run():
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
        taken = tracked(given, tracker)
        assert taken.status == given.status
        ids.append([each.track_id for each in taken.detections])
        direct(given.detections)
    assert ids == [[1], [1], [], [1]]
    assert tracker.frames == 4
    assert tracker.save() == direct.save()


def frame_with(index: int, dropped: int) -> VideoFrame:
    """A gray frame with a bright square 8 * index pixels from the left."""
    image = np.zeros((100, 1500), np.uint8)
    image[20:70, 8 * index : 8 * index + 50] = 255
    return VideoFrame(
        index=index,
        pts=None,
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


def test_an_object_keeps_its_id_over_dropped_frames_in_the_served_model() -> None:
    settings = VideoSettings(model="detect")
    with ThreadPoolExecutor() as threads:
        job = VideoJob(
            VideoInput(encoded=b"a video"),
            settings,
            VideoOptions(),
            call=lambda call: {},
            threads=threads,
        )
        tracker = endcap.Tracker()
        rows = [
            job._row(frame, _Detected(BrightSquares().detect_one(frame.image).detections), tracker)
            for frame in live_frames()
        ]
    assert [row["track_ids"].tolist() for row in rows] == [[1]] * len(DROPPED)


def test_classes_are_not_tracked() -> None:
    classified = ImageResult("", "ok", task=Task.classification)
    tracker = endcap.Tracker()
    assert tracked(classified, tracker) is classified
    assert tracker.frames == 0
    assert np.size(classified.detections.scores) == 0
