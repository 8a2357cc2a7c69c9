"""Exit and Ctrl-C while threads are inside native calls."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import jpegs

REPETITIONS = 6

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


# Interrupts itself when the first results of a batch are there, and prints how many more came. Then
# it uses the same object again.
INTERRUPTED = """
import json, os, signal, sys, threading, time
import numpy as np
import endcap

signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background inherit SIG_IGN
N = 500
STAGE = sys.argv[1]
if STAGE == "preprocess":
    run = endcap.Preprocessor(size=16, threads=2)
    batch = [open(sys.argv[2], "rb").read()] * N
    results = np.full((N, 3, 16, 16), -1, np.float32)
    call = lambda batch: run(batch, out=results[: len(batch)])
else:
    from endcap import _core
    endcap.force_implementation("scalar")
    run = _core.Postprocessor([("num_classes", "1"), ("max_candidates", "8400")], 2)
    head = np.random.default_rng(0).random((1, 5, 8400), np.float32)
    head[:, :4] *= 600
    head[:, 2:4] /= 60
    batch = np.repeat(head, N, axis=0)
    specs = [(np.full((N, *shape), -1, dtype) if name == "status" else None)
             for name, dtype, shape in run.outputs]
    results = next(each for each in specs if each is not None)
    call = lambda batch: run.run([([batch], None, None, [
        None if each is None else each[: len(batch)] for each in specs], False)])


def interrupt():
    while results[0].flat[0] == -1:
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGINT)


threading.Thread(target=interrupt).start()
ending = "returned"
try:
    call(batch)
except KeyboardInterrupt:
    ending = "KeyboardInterrupt"
finished = int((results.reshape(N, -1)[:, 0] != -1).sum())
results[:] = -1
call(batch[:3])
again = int((results.reshape(N, -1)[:, 0] != -1).sum())
print(json.dumps([ending, finished, again]))
"""


@pytest.mark.parametrize("stage", ["preprocess", "postprocess"])
def test_ctrl_c_ends_a_batch_between_images(tmp_path: Path, stage: str) -> None:
    jpeg = tmp_path / "photo.jpg"
    jpeg.write_bytes(jpegs.photo_jpeg(1080, 1920))
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, stage, str(jpeg)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    ending, finished, again = json.loads(ended.stdout)
    assert ending == "KeyboardInterrupt"
    assert 0 < finished < 500
    assert again == 3
