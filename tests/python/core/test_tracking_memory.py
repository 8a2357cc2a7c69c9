"""Memory of `endcap.Tracker` over many frames."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

FRAMES = (2_000, 8_000)
MAX_GROWTH = 0.01  # between the two, of what the process held at the first

# Fifty objects that drift; each lives for some dozens of frames, is hidden in some, and then
# another one begins elsewhere. Prints the resident pages, the greatest number of tracks and the
# greatest id at both moments.
PROGRAM = """
import gc, json, sys
from pathlib import Path
import numpy as np
import endcap

preset, moments = json.loads(sys.argv[1])
random = np.random.default_rng(0)
tracker = endcap.Tracker(preset)
most = last = 0
classes, numbers = np.zeros(50, np.int32), np.arange(50, dtype=np.int32)
boxes = np.zeros((50, 4), np.float32)
steps = np.zeros((50, 4), np.float32)
left = np.zeros(50, np.int64)
for frame in range(1, moments[-1] + 1):
    left -= 1
    ended = np.flatnonzero(left < 0)
    if len(ended):
        corners = random.uniform(0, 1500, (len(ended), 2))
        boxes[ended] = np.hstack([corners, corners + random.uniform(30, 120, corners.shape)])
        steps[ended] = np.tile(random.normal(0, 3, (len(ended), 2)), 2)
        left[ended] = random.integers(5, 60, len(ended))
    boxes += steps
    scores = np.where(left % 9 == 4, 0.05, 0.6 + left / 200).astype(np.float32)
    detections = endcap.ImageDetections(boxes, scores, classes, numbers)
    last = max(last, int(tracker(detections).track_ids.max()))
    most = max(most, tracker.track_count)
    if frame in moments:
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        print(json.dumps([pages, most, last]), flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["bytetrack", "bytetrack_trackers", "ocsort"])
def test_many_frames_take_no_more_memory(preset: str) -> None:
    arguments = json.dumps([preset, FRAMES])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, arguments],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (early, _, _), (late, most, last) = map(json.loads, done.stdout.splitlines())
    assert late < early * (1 + MAX_GROWTH)
    assert 50 <= most < 300
    assert last > 4_000  # as many objects have been
