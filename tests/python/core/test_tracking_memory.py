"""Memory of `endcap.Tracker` over many frames."""

from __future__ import annotations

import json
import subprocess
import sys

FRAMES = (20_000, 100_000)
MOST_GROWTH = 0.01  # between the two, of what the process held at the first
PRESETS = ("bytetrack",)

# Fifty objects that drift; each lives for some dozens of frames, is hidden in some, and then
# another one begins elsewhere. Prints the resident pages, the greatest number of tracks and the
# greatest id of each preset at both moments.
PROGRAM = """
import gc, json, sys
from pathlib import Path
import numpy as np
import endcap

presets, moments = json.loads(sys.argv[1])
random = np.random.default_rng(0)
trackers = [endcap.Tracker(preset) for preset in presets]
most = [0] * len(trackers)
ids = [0] * len(trackers)
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
    for index, tracker in enumerate(trackers):
        ids[index] = max(ids[index], int(tracker(detections).track_ids.max()))
        most[index] = max(most[index], tracker.track_count)
    if frame in moments:
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        print(json.dumps([pages, most, ids]), flush=True)
"""


def test_a_hundred_thousand_frames_take_no_more_memory() -> None:
    arguments = json.dumps([PRESETS, FRAMES])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, arguments],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (early, _, _), (late, most, ids) = map(json.loads, done.stdout.splitlines())
    assert late < early * (1 + MOST_GROWTH)
    for tracks, last in zip(most, ids, strict=True):
        assert 50 <= tracks < 300
        assert last > 50_000  # as many objects have been
