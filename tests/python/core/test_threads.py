"""Results depend on the input alone: not on threads, batch, neighbours, order or repetition."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import endcap
from endcap import _core
from tests.support import jpegs
from tests.support.bad_jpegs import bomb
from tests.support.sample_heads import yolov8_head

SIZE = (64, 80)
IMAGES = [
    *(jpegs.photo_jpeg(20 + 9 * i, 90 - 7 * i, seed=i) for i in range(8)),
    jpegs.encode(jpegs.photo(50, 60), progressive=True),
    jpegs.encode(jpegs.photo(50, 60, channels=4)),
    jpegs.encode(jpegs.photo(50, 60, channels=1), orientation=7),
    jpegs.photo_jpeg(60, 50)[:300],
    bomb(64250, 64250),
    jpegs.photo(33, 44),
]
FAILING = (11, 12)


def assert_same(first: endcap.PreprocessResult, second: endcap.PreprocessResult) -> None:
    np.testing.assert_array_equal(first.images, second.images)
    np.testing.assert_array_equal(first.geometry, second.geometry)
    np.testing.assert_array_equal(first.status, second.status)


def test_thread_count_does_not_matter() -> None:
    expected = endcap.preprocess(IMAGES, size=SIZE, on_error="blank", threads=1)
    assert np.flatnonzero(expected.status).tolist() == list(FAILING)
    for threads in (2, 3, 16, None):
        actual = endcap.preprocess(IMAGES, size=SIZE, on_error="blank", threads=threads)
        assert_same(actual, expected)


@settings(max_examples=25)
@given(st.lists(st.integers(0, len(IMAGES) - 1), min_size=1, max_size=12), st.integers(1, 4))
def test_batch_equals_single_images_whoever_the_neighbours(picks: list[int], threads: int) -> None:
    batch = endcap.preprocess(
        [IMAGES[i] for i in picks], size=SIZE, on_error="blank", threads=threads
    )
    assert batch.images.shape == (len(picks), 3, *SIZE)
    assert (batch.geometry.dtype, batch.status.dtype) == (np.float32, np.int32)
    assert batch.geometry[:, 7].tolist() == list(range(len(picks)))
    for position, i in enumerate(picks):
        alone = endcap.preprocess(IMAGES[i], size=SIZE, on_error="blank")
        np.testing.assert_array_equal(batch.images[position], alone.images[0])
        np.testing.assert_array_equal(batch.geometry[position, :7], alone.geometry[0, :7])
        assert batch.status[position] == alone.status[0]


def test_one_preprocessor_serves_many_callers_at_once() -> None:
    preprocessor = endcap.Preprocessor(size=SIZE, on_error="blank", threads=2)
    rotations = [IMAGES[i:] + IMAGES[:i] for i in range(len(IMAGES))]
    expected = [preprocessor(images) for images in rotations]
    with ThreadPoolExecutor(6) as callers:
        for _ in range(3):
            for actual, wanted in zip(callers.map(preprocessor, rotations), expected, strict=True):
                assert_same(actual, wanted)


def test_one_postprocessor_serves_many_callers_at_once() -> None:
    heads = [yolov8_head(seed, anchors=400, num_classes=5) for seed in range(12)]
    postprocessor = endcap.Postprocessor(num_classes=5, threads=2)
    expected = [postprocessor(head) for head in heads]
    batch = postprocessor(np.stack(heads))
    with ThreadPoolExecutor(6) as callers:
        for i, actual in enumerate(callers.map(postprocessor, heads)):
            for name in ("num_detections", "boxes", "scores", "class_ids", "indices"):
                np.testing.assert_array_equal(getattr(actual, name), getattr(expected[i], name))
                np.testing.assert_array_equal(getattr(batch, name)[i], getattr(actual, name)[0])


def test_the_interpreter_runs_on_during_native_work() -> None:
    images = [jpegs.photo_jpeg(1200, 1600)] * 20
    preprocessor = endcap.Preprocessor(threads=1)
    ticks: list[float] = []
    stop = threading.Event()

    def tick() -> None:
        while not stop.wait(0.001):
            ticks.append(time.perf_counter())

    ticker = threading.Thread(target=tick)
    ticker.start()
    try:
        start = time.perf_counter()
        preprocessor(images)
        took = time.perf_counter() - start
    finally:
        stop.set()
        ticker.join()
    # A call that kept the GIL would leave the other thread a turn at its ends only.
    in_the_middle = [t for t in ticks if 0.25 * took < t - start < 0.75 * took]
    assert took > 0.05  # many turns of the other thread
    assert len(in_the_middle) >= 3


WORK_AFTER_FORK = """
import os, signal, sys, warnings
import endcap

warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of fork beside threads
data = sys.stdin.buffer.read()
kept = endcap.Preprocessor(size=32, threads=3)
expected = kept([data, data]).images.tobytes()
if os.fork() == 0:
    signal.alarm(20)  # a child that hangs is ended, and the exit status tells
    inherited = kept([data, data]).images.tobytes()
    fresh = endcap.preprocess([data, data], size=32, threads=2).images.tobytes()
    del kept
    sys.exit(0 if inherited == fresh == expected else 1)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


def test_a_forked_child_works_with_what_it_inherits_and_ends() -> None:
    # A child of fork has none of the parent's threads, as in multiprocessing and pre-fork servers.
    child = subprocess.run(
        [sys.executable, "-c", WORK_AFTER_FORK],
        input=IMAGES[0],
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert child.returncode == 0, child.stderr.decode()


@pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python always has its GIL"
)
def test_the_gil_stays_off() -> None:
    # Of another module that needs it Python takes the GIL again, with a warning.
    code = "import endcap, sys; print(sys._is_gil_enabled())"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_pooled_arrays_and_the_list_of_implementations_are_safe_in_threads() -> None:
    begin = threading.Barrier(8)

    def work(index: int) -> None:
        begin.wait()
        for turn in range(index, index + 25):
            array, other = (_core.empty(np.dtype(np.int64), [4096]) for _ in range(2))
            array.fill(turn)
            other.fill(-1)
            endcap.preprocess(IMAGES[0], size=SIZE)
            assert (array == turn).all()
            assert {row[1] for row in _core.implementations()} >= {"decode", "preprocess", "nms"}

    with ThreadPoolExecutor(8) as callers:
        list(callers.map(work, range(8)))
