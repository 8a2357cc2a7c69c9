"""endcap infer that is interrupted: what was answered is reported."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_runs import answering_server
from PIL import Image

DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with answering_server(tmp_path_factory.mktemp("models")) as urls:
        yield urls["grpc"]


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Two images that are answered at once, and then twenty that take three seconds each."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    for name in ("a.jpg", "b.jpg"):
        Image.new("RGB", (320, 240)).save(folder / name)
    for number in range(20):
        (folder / f"slow_{number}.jpg").write_bytes(b"S")
    return folder


def interrupt_when_drawn(
    url: str, pictures: Path, drawn: Path, *options: object
) -> tuple[int, str, str]:
    """Sends SIGINT when the second image is drawn; returns exit code and both streams."""
    command = [sys.executable, "-m", "endcap", "infer", pictures, "--url", url]
    process = subprocess.Popen(
        [*map(str, command), "--concurrency", "1", "--draw", str(drawn), *map(str, options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
    )
    deadline = time.monotonic() + DEADLINE_S
    while not (drawn / "b_detections.jpg").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "the second image was never drawn"
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=DEADLINE_S)
    return process.returncode, out, err


def test_what_was_answered_is_reported_and_drawn(url: str, pictures: Path, tmp_path: Path) -> None:
    drawn = tmp_path / "drawn"
    code, out, err = interrupt_when_drawn(url, pictures, drawn, "--json")
    assert code == 130
    rows = json.loads(out)
    assert [Path(row["image"]).name for row in rows] == ["a.jpg", "b.jpg"]
    assert {row["status"] for row in rows} == {"ok"}
    assert "interrupted when 2 of 22 images were answered" in err
    assert "Traceback" not in err
    assert sorted(path.name for path in drawn.iterdir()) == [
        "a_detections.jpg", "b_detections.jpg"
    ]  # fmt: skip


def test_the_report_goes_to_its_file(url: str, pictures: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.csv"
    code, out, _ = interrupt_when_drawn(
        url, pictures, tmp_path / "drawn", "--csv", "--output", file
    )
    assert code == 130
    assert out == ""
    assert {line.split(",")[0] for line in file.read_text().splitlines()[1:]} == {
        str(pictures / "a.jpg"), str(pictures / "b.jpg")
    }  # fmt: skip
