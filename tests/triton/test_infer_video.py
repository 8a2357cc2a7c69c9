"""endcap infer on videos, with the shipped models on a real server."""

from __future__ import annotations

import csv
import functools
import http.server
import json
import signal
import subprocess
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from endcap.cli.files import find_repository
from endcap.drawing import class_color
from tests.support.moving_shapes import FRAME_RATE as RATE
from tests.support.videos import pictures_of, times_of, write_clip
from tests.triton.commands import ENDCAP
from tests.triton.commands import endcap as endcap_command
from tests.triton.running_server import RunningServer, run_server

FRAMES = 112


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    """The shipped models."""
    models = ("--load-model=detect", "--load-model=detect_track")
    with run_server(find_repository(), "--model-control-mode=explicit", *models) as running:
        yield running


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clip(tmp_path_factory.mktemp("clip") / "shapes.mp4", FRAMES)


def rows_of(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_tracks_keep_their_ids_and_are_drawn(
    server: RunningServer, clip: Path, tmp_path: Path
) -> None:
    drawn = tmp_path / "tracked.mp4"
    done = endcap_command("infer", clip, "--track", "--json", "--draw", drawn, "--url", server.grpc)
    assert done.returncode == 0, done.stderr
    assert done.stderr == f"{FRAMES} frames in {drawn}\n"
    rows = rows_of(done)
    assert [row["frame_index"] for row in rows] == list(range(FRAMES))
    assert [row["pts_seconds"] for row in rows] == pytest.approx(
        [number / RATE for number in range(FRAMES)], abs=1e-4
    )
    assert {row["source"] for row in rows} == {str(clip)}
    assert {(row["status"], row["dropped"]) for row in rows} == {("ok", 0)}
    ids: dict[str, Counter[int]] = defaultdict(Counter)
    for row in rows:
        for each in row["detections"]:
            if "track_id" in each:
                ids[each["label"]][each["track_id"]] += 1
    assert set(ids) == {"circle", "square", "triangle", "star", "cross", "ring"}
    # Two of them are hidden for some time, and have the ids that they had before.
    assert sorted(track for each in ids.values() for track in each) == [1, 2, 3, 4, 5, 6]
    assert min(each.total() for each in ids.values()) > 80

    assert times_of(drawn) == pytest.approx(times_of(clip), abs=1e-4)
    plain, pictures = pictures_of(clip), pictures_of(drawn)
    assert len(pictures) == FRAMES
    assert pictures[0].shape == plain[0].shape
    for number in (30, FRAMES - 1):
        for each in rows[number]["detections"]:
            x1, y1, _, _ = (round(side) for side in each["box"])
            label = pictures[number][max(y1 - 12, 2), x1 + 2].astype(int)
            assert np.abs(label - class_color(each["track_id"])).max() < 60


def test_frames_by_rate_as_rows(server: RunningServer, clip: Path) -> None:
    done = endcap_command("infer", clip, "--rate", 5, "--csv", "--url", server.grpc)
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert list(rows[0])[:5] == ["source", "frame_index", "pts_seconds", "dropped", "status"]
    assert "track_id" not in rows[0]
    seconds = sorted({float(row["pts_seconds"]) for row in rows})
    assert len(seconds) == pytest.approx(FRAMES / RATE * 5, abs=1)
    assert np.diff(seconds) == pytest.approx(0.2, abs=1e-4)
    assert {row["label"] for row in rows} >= {"circle", "ring"}
    tracked = endcap_command("infer", clip, "--rate", 5, "--csv", "--track", "--url", server.grpc)
    assert tracked.stdout.splitlines()[0].endswith(",track_id")


def test_the_summary(server: RunningServer, clip: Path) -> None:
    done = endcap_command("infer", clip, "--track", "--every", 2, "--url", server.grpc)
    assert done.returncode == 0, done.stderr
    name, speed, found = done.stdout.splitlines()
    assert str(clip).startswith(name)
    assert speed.startswith(f"  {FRAMES // 2} frames in ")
    assert ", 6 tracks: " in found
    assert "56 circle" in found


def test_a_damaged_video_among_good_ones(server: RunningServer, clip: Path, tmp_path: Path) -> None:
    other = write_clip(tmp_path / "other.mp4", 20)
    damaged = tmp_path / "damaged.mp4"
    damaged.write_bytes(b"\0\0\0\x20ftypisom" + b"\x55" * 5000)
    folder = tmp_path / "drawn"
    arguments = ["--json", "--draw", folder, "--url", server.grpc, "--every", 2]
    done = endcap_command("infer", clip, damaged, other, *arguments)
    assert done.returncode == 1
    assert str(damaged) in done.stderr
    counts = Counter(row["source"] for row in rows_of(done))
    assert counts == {str(clip): FRAMES // 2, str(other): 10}
    assert sorted(path.name for path in folder.iterdir()) == [
        "other_detections.mp4", "shapes_detections.mp4"
    ]  # fmt: skip
    assert len(times_of(folder / "other_detections.mp4")) == 10
    alone = endcap_command("infer", damaged, "--json", "--url", server.grpc)
    assert alone.returncode == 2
    assert alone.stdout == ""


def test_an_interrupted_video_plays_until_there(server: RunningServer, tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "long.mp4", 600)
    drawn = tmp_path / "drawn.mp4"
    command = [ENDCAP, "infer", clip, "--track", "--json", "--draw", drawn, "--url", server.grpc]
    with subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        lines = [process.stdout.readline() for _ in range(25)]
        process.send_signal(signal.SIGINT)
        rest, messages = process.stdout.read(), process.stderr.read()
    assert process.returncode == 130
    rows = [json.loads(line) for line in [*lines, *rest.splitlines()]]
    assert [row["frame_index"] for row in rows] == list(range(len(rows)))
    assert 25 <= len(rows) < 600
    assert f"endcap: interrupted after {len(rows)} frames" in messages
    times = times_of(drawn)
    assert len(rows) - 1 <= len(times) <= len(rows)
    assert times == pytest.approx([row["pts_seconds"] for row in rows[: len(times)]], abs=1e-4)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["drawn.mp4", "long.mp4"]


def test_the_server_tracks_a_sequence(server: RunningServer, clip: Path, tmp_path: Path) -> None:
    arguments = ["--json", "--every", 2, "--url", server.grpc]
    done = endcap_command(
        "infer", clip, "--sequence", "camera 7", *arguments, "--draw", tmp_path / "drawn.mp4"
    )
    assert done.returncode == 0, done.stderr
    ids = {each.get("track_id") for row in rows_of(done) for each in row["detections"]}
    assert ids - {None} == {1, 2, 3, 4, 5, 6}
    assert len(times_of(tmp_path / "drawn.mp4")) == FRAMES // 2
    refused = endcap_command("infer", clip, "--track", "--sequence", "7", *arguments)
    assert refused.returncode == 2


def test_frames_over_one_stream(server: RunningServer, clip: Path) -> None:
    arguments = ["--json", "--track", "--every", 8, "--url", server.grpc]
    streamed = endcap_command("infer", clip, "--stream", *arguments)
    assert streamed.returncode == 0, streamed.stderr
    assert rows_of(streamed) == rows_of(endcap_command("infer", clip, *arguments))


@pytest.fixture
def address(clip: Path) -> Iterator[str]:
    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            pass

        def translate_path(self, path: str) -> str:
            return str(clip)

        def guess_type(self, path: object) -> str:
            return "video/mp4"

    handler = functools.partial(Handler, directory=str(clip.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as web:
        thread = threading.Thread(target=web.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{web.server_port}"
        web.shutdown()
        thread.join()


@pytest.mark.parametrize("path", ["/clip.mp4", "/watch?v=7"])
def test_a_video_at_an_address(
    server: RunningServer, address: str, tmp_path: Path, path: str
) -> None:
    folder = tmp_path / "drawn"
    arguments = ["--json", "--every", 8, "--draw", folder, "--url", server.grpc]
    done = endcap_command("infer", f"{address}{path}", *arguments)
    assert done.returncode == 0, done.stderr
    rows = rows_of(done)
    assert len(rows) == FRAMES // 8
    assert {row["source"] for row in rows} == {f"{address}{path}"}
    (drawn,) = folder.iterdir()
    assert drawn.name == ("clip_detections.mp4" if "mp4" in path else "watch_detections.mp4")
