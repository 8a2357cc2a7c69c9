"""endcap infer on videos, with the shipped models on a real server."""

from __future__ import annotations

import json
import subprocess
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from endcap.drawing import class_color
from tests.support.http_site import content, run_site
from tests.support.videos import RATE, read_pictures, read_times, write_clip
from tests.triton.commands import endcap
from tests.triton.running_server import RunningServer

FRAMES = 112


@pytest.fixture(scope="module")
def server(compiled_server: RunningServer) -> RunningServer:
    compiled_server.load("detect")
    return compiled_server


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clip(tmp_path_factory.mktemp("clip") / "shapes.mp4", FRAMES)


def read_rows(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_tracks_keep_their_ids_and_are_drawn(
    server: RunningServer, clip: Path, tmp_path: Path
) -> None:
    drawn = tmp_path / "tracked.mp4"
    done = endcap("infer", clip, "--track", "--json", "--draw", drawn, "--url", server.grpc)
    assert done.returncode == 0, done.stderr
    assert done.stderr == f"{FRAMES} frames in {drawn}\n"
    rows = read_rows(done)
    assert [row["frame_index"] for row in rows] == list(range(FRAMES))
    assert [row["pts_seconds"] for row in rows] == pytest.approx(
        [number / RATE for number in range(FRAMES)], abs=1e-4
    )
    assert {row["source"] for row in rows} == {str(clip)}
    assert {(row["status"], row["dropped"]) for row in rows} == {("ok", 0)}
    labels: dict[int, Counter[str]] = defaultdict(Counter)
    for row in rows:
        for each in row["detections"]:
            if "track_id" in each:
                labels[each["track_id"]][each["label"]] += 1
    assert len(labels) >= 3
    # An id is of one object, whose class may be taken for another where the edge cuts it.
    assert all(max(each.values()) >= 0.8 * each.total() for each in labels.values()), labels
    assert max(each.total() for each in labels.values()) > 50

    assert read_times(drawn) == pytest.approx(read_times(clip), abs=1e-4)
    plain, pictures = read_pictures(clip), read_pictures(drawn)
    assert len(pictures) == FRAMES
    assert pictures[0].shape == plain[0].shape
    for number in (30, FRAMES - 1):
        for each in rows[number]["detections"]:
            x1, y1, _, _ = (round(side) for side in each["box"])
            edge = pictures[number][max(y1, 1), x1 + 8].astype(int)
            assert np.abs(edge - class_color(each["track_id"])).max() < 60


def test_a_damaged_video_among_good_ones(server: RunningServer, clip: Path, tmp_path: Path) -> None:
    """One of the good ones is at an address."""
    damaged = tmp_path / "damaged.mp4"
    damaged.write_bytes(b"\0\0\0\x20ftypisom" + b"\x55" * 5000)
    folder = tmp_path / "drawn"
    with run_site() as site:
        site.paths["/clip.mp4"] = lambda handler: content(handler, body=clip.read_bytes())
        sources = [clip, damaged, site.url("/clip.mp4")]
        arguments = ["--json", "--draw", folder, "--url", server.grpc, "--every", 8]
        done = endcap("infer", *sources, *arguments)
    assert done.returncode == 1
    assert str(damaged) in done.stderr
    counts = Counter(row["source"] for row in read_rows(done))
    assert counts == {str(clip): FRAMES // 8, str(sources[2]): FRAMES // 8}
    assert sorted(path.name for path in folder.iterdir()) == [
        "clip_detections.mp4", "shapes_detections.mp4"
    ]  # fmt: skip
    assert len(read_times(folder / "clip_detections.mp4")) == FRAMES // 8
    alone = endcap("infer", damaged, "--json", "--url", server.grpc)
    assert (alone.returncode, alone.stdout) == (2, "")
