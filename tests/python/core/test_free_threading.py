"""The module without a GIL: it stays off, and threads that share all get the same results."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable

import numpy as np
import pytest

import endcap
from endcap import _core
from tests.support import jpegs

THREADS = 8
ROUNDS = 25


def in_threads(work: Callable[[int], None]) -> None:
    """Calls `work` in threads that begin at once, and raises what one of them raised."""
    begin = threading.Barrier(THREADS)
    failures: list[BaseException] = []

    def run(index: int) -> None:
        begin.wait()
        try:
            for turn in range(ROUNDS):
                work(index + turn)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


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


def test_pooled_arrays_of_threads_never_share_memory() -> None:
    def work(turn: int) -> None:
        array = _core.empty(np.dtype(np.int64), [4096])
        array.fill(turn)
        other = _core.empty(np.dtype(np.int64), [4096])
        other.fill(-1)
        assert (array == turn).all()

    in_threads(work)


def test_threads_read_the_list_of_implementations_while_others_run() -> None:
    image = jpegs.photo_jpeg(40, 50)

    def work(turn: int) -> None:
        if turn % 2:
            endcap.preprocess(image, size=64)
        else:
            assert {row[1] for row in _core.implementations()} >= {"decode", "preprocess", "nms"}

    in_threads(work)
