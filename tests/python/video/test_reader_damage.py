"""VideoReader on truncated and damaged files: frames or an error, in time, and no crash.

A process of its own reads them, since a crash of a decoder would end the tests.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from endcap.video import VideoReader
from tests.support.videos import CODINGS, encode, scene

FRAMES = 24
DAMAGED = 60
TRUNCATED = 20
LIMIT_S = 60

# Prints for each file of a folder: its frames and what its status says, or the error.
_PROGRAM = """
import faulthandler, json, sys
from pathlib import Path
from endcap.errors import VideoError
from endcap.preprocess import preprocess
from endcap.video import VideoReader
faulthandler.enable()
for path in sorted(Path(sys.argv[1]).iterdir()):
    frames, error = [], None
    try:
        with VideoReader(path, threads=int(sys.argv[2])) as reader:
            for frame in reader:
                preprocess(frame.image, size=64)
                frames.append(frame.index)
        damaged = reader.status.damaged
    except VideoError as raised:
        error, damaged = str(raised), None
    row = {"name": path.name, "frames": frames, "damaged": damaged, "error": error}
    print(json.dumps(row), flush=True)
"""


def read_all(folder: Path, threads: int) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(folder), str(threads)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("coding", [name for name in CODINGS if name != "raw"])
@pytest.mark.parametrize("container", [None, "mpegts", "matroska"])
def test_any_damage_gives_frames_or_an_error(
    coding: str, container: str | None, tmp_path: Path
) -> None:
    if container == "mpegts" and coding in ("vp8", "vp9", "mjpeg", "av1"):
        container = "nut"
    data = encode(scene(FRAMES), coding, container=container)
    random = np.random.default_rng(len(data))
    for number in range(DAMAGED):
        damaged = np.frombuffer(data, np.uint8).copy()
        places = random.integers(0, len(data), random.integers(1, 30))
        damaged[places] ^= random.integers(1, 256, len(places), np.uint8)
        (tmp_path / f"damaged_{number:03}").write_bytes(damaged.tobytes())
    for number in range(TRUNCATED):
        length = int(random.integers(0, len(data)))
        (tmp_path / f"truncated_{number:03}").write_bytes(data[:length])
    rows = read_all(tmp_path, threads=1 + len(coding) % 2)
    assert len(rows) == DAMAGED + TRUNCATED
    for row in rows:
        assert bool(row["frames"]) == (row["error"] is None), row
        # Damage may make one frame of a file into two.
        assert row["frames"] == list(range(len(row["frames"]))), row
    read = [row for row in rows if row["frames"]]
    assert len(read) >= 5
    assert any(row["damaged"] or len(row["frames"]) < FRAMES for row in read)


def test_frames_that_lack_parts_are_counted(tmp_path: Path) -> None:
    data = bytearray(encode(scene(FRAMES), container="mpegts"))
    packet = 188 * (len(data) // 188 // 2)
    data[packet + 20 : packet + 180] = bytes(160)
    with VideoReader(bytes(data)) as reader:
        frames = list(reader)
    assert len(frames) == FRAMES
    assert 0 < reader.status.damaged < FRAMES


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_frames_before_the_cut_are_those_of_the_whole_file(share: float) -> None:
    data = encode(scene(FRAMES), container="matroska")
    with VideoReader(data) as reader:
        whole = [frame.to_rgb() for frame in reader]
    with VideoReader(data[: int(len(data) * share)]) as reader:
        frames = [frame.to_rgb() for frame in reader]
    assert FRAMES * share - 6 <= len(frames) < FRAMES
    for frame, pixels in zip(frames[:-1], whole, strict=False):
        assert np.array_equal(frame, pixels)
