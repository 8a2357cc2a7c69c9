"""Exit of the interpreter while daemon threads are inside native calls."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import jpegs
import pytest

REPETITIONS = 20

# Ends while its daemon threads decode, preprocess and suppress boxes. The main thread waits until
# each has returned from a first call, so that all of them are at work when it ends.
PROGRAM = """
import sys, threading
from pathlib import Path
import numpy as np
import endcap

jpeg = Path(sys.argv[1]).read_bytes()
threads = int(sys.argv[2])
head = np.random.default_rng(0).random((2, 84, 8400), np.float32)
postprocessor = endcap.Postprocessor("yolov8", score_threshold=0.9)
calls = [
    lambda: endcap.decode(jpeg),
    lambda: endcap.preprocess([jpeg] * 2, size=(640, 640), threads=2),
    lambda: postprocessor(head),
]
running = threading.Barrier(threads + 1)


def work(index):
    call = calls[index % len(calls)]
    call()
    running.wait()
    while True:
        call()


for index in range(threads):
    threading.Thread(target=work, args=(index + int(sys.argv[3]),), daemon=True).start()
running.wait()
"""


@pytest.mark.parametrize("threads", [1, 4])
def test_a_program_ends_while_daemon_threads_are_in_native_calls(
    tmp_path: Path, threads: int
) -> None:
    jpeg = tmp_path / "photo.jpg"
    jpeg.write_bytes(jpegs.photo_jpeg(1080, 1920))
    for repetition in range(REPETITIONS):
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(jpeg), str(threads), str(repetition)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (ended.returncode, ended.stderr) == (0, ""), f"repetition {repetition}"
