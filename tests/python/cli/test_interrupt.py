"""endcap infer when interrupted: the results until then are reported."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from endcap.server import ServerPorts, ServerSettings, TritonServer
from tests.support.echo_model import write_model
from tests.support.responding_model import CONFIG, MODEL

DEADLINE_S = 60.0


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Two images with a response at once, and then twenty that take three seconds each."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    for name in ("a.jpg", "b.jpg"):
        Image.new("RGB", (320, 240)).save(folder / name)
    for number in range(20):
        (folder / f"slow_{number}.jpg").write_bytes(b"S")
    return folder


def infer_until_drawn(
    url: str, pictures: Path, drawn: Path, *options: object
) -> subprocess.Popen[str]:
    """Starts endcap infer, and returns when the first two images are drawn."""
    command = [sys.executable, "-m", "endcap", "infer", pictures, "--url", url, "--json"]
    process = subprocess.Popen(
        [*map(str, command), "--draw", str(drawn), *map(str, options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
    )
    deadline = time.monotonic() + DEADLINE_S
    while len(list(drawn.glob("[ab]_detections.jpg"))) < 2:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "the second image was never drawn"
        time.sleep(0.02)
    return process


def test_results_until_then_are_reported_and_drawn(
    url: str, pictures: Path, tmp_path: Path
) -> None:
    drawn = tmp_path / "drawn"
    process = infer_until_drawn(url, pictures, drawn, "--concurrency", 1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    rows = json.loads(out)
    assert [Path(row["image"]).name for row in rows] == ["a.jpg", "b.jpg"]
    assert {row["status"] for row in rows} == {"ok"}
    assert "interrupted after 2 of 22 images" in err
    assert "Traceback" not in err
    assert sorted(path.name for path in drawn.iterdir()) == [
        "a_detections.jpg", "b_detections.jpg"
    ]  # fmt: skip


# --- a server that hangs --------------------------------------------------------------------------


@pytest.fixture
def server(tmp_path: Path) -> Iterator[TritonServer]:
    repository = write_model(tmp_path / "models", "detect", CONFIG, MODEL)
    ports = ServerPorts(http=0, grpc=0, metrics=0)
    with TritonServer(repository, ServerSettings(ports=ports, stop_timeout_s=5)) as server:
        yield server
        os.killpg(server_group(server), signal.SIGCONT)


def server_group(server: TritonServer) -> int:
    assert server.pid is not None
    return server.pid


def infer_until_the_server_hangs(
    server: TritonServer, url: str, pictures: Path, report: Path
) -> subprocess.Popen[str]:
    """Starts endcap infer, and stops the server after two results."""
    options = ("--timeout", 3600, "--concurrency", 2, "--output", report)
    process = infer_until_drawn(url, pictures, report.with_suffix(".drawn"), *options)
    os.killpg(server_group(server), signal.SIGSTOP)
    return process


def test_what_is_in_flight_over_grpc_is_given_up(
    server: TritonServer, pictures: Path, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    process = infer_until_the_server_hangs(server, server.grpc_url, pictures, report)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    assert err.splitlines()[1:] == ["endcap: interrupted after 2 of 22 images"]
    assert len(json.loads(report.read_text())) == 2


def test_a_second_signal_ends_it_with_its_report_written(
    server: TritonServer, pictures: Path, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    process = infer_until_the_server_hangs(server, server.http_url, pictures, report)
    signals = 0
    while process.poll() is None and signals < 5:
        process.send_signal((signal.SIGTERM, signal.SIGINT)[signals % 2])
        signals += 1
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(DEADLINE_S if signals == 2 else 5)
    _, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    assert signals <= 2
    assert "Traceback" not in err
    assert len(json.loads(report.read_text())) == 2
    assert not list(tmp_path.glob(".*.partial"))
