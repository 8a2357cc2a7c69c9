"""Runs over data sets on real Ray clusters: whole, interrupted, and with processes killed."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from endcap.batch import BatchError, run
from endcap.batch.run import BatchReport
from endcap.cli.batch import _print_summary
from tests.support.data_sets import write_data_set

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[2] / "model_repository"


def read_rows(output: Path) -> list[dict[str, Any]]:
    return [
        row
        for path in sorted(output.glob("part-*.parquet"))
        for row in pq.read_table(path).to_pylist()
    ]


def endcap_batch(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "endcap", "batch", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=400, check=False, **options
    )


def run_on_cluster(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(HERE / "cluster_run.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)


def assert_each_once(output: Path, count: int, damaged: int) -> None:
    rows = read_rows(output)
    assert len(rows) == len({row["path"] for row in rows}) == count
    expected = Counter(ok=count - damaged, corrupt_image=damaged)
    assert Counter(row["status"] for row in rows) == +expected


def test_on_this_machine(tmp_path: Path) -> None:
    photos, output = tmp_path / "photos", tmp_path / "results"
    write_data_set(photos, 40, damaged=2)
    (photos / "notes.txt").write_text("no image")
    result = endcap_batch(photos, "--repository", REPOSITORY, "--output", output, "--json")
    assert result.returncode == 1, result.stderr  # two images failed
    summary = json.loads(result.stdout)
    assert summary["statuses"] == {"ok": 38, "corrupt_image": 2}
    assert summary["skipped"] == {".txt": 1}
    assert "40 images, 0 done before" in result.stderr
    assert_each_once(output, 40, 2)
    for row in read_rows(output):
        if row["status"] == "ok":
            assert row["width"] > row["height"] > 0
            assert len(row["boxes"]) == len(row["scores"]) == len(row["class_ids"])
            assert set(row["labels"] or []) <= {"circle", "square", "triangle", "star", "cross",
                                                "ring"}  # fmt: skip
        else:
            assert row["boxes"] is None
            assert row["error"]
    assert list(output.glob(".endcap*")) == []

    # The same command has nothing to do, and starts no cluster.
    before = {path.name: path.stat().st_mtime_ns for path in output.glob("part-*")}
    again = endcap_batch(photos, "--repository", REPOSITORY, "--output", output, "--json")
    assert json.loads(again.stdout)["processed"] == 0
    assert {path.name: path.stat().st_mtime_ns for path in output.glob("part-*")} == before

    # Images that were added are the only ones to be processed.
    write_data_set(tmp_path / "more", 1)
    (tmp_path / "more" / "00000.jpg").rename(photos / "00002a.jpg")
    more = endcap_batch(photos, "--repository", REPOSITORY, "--output", output, "--json")
    assert (json.loads(more.stdout)["processed"], len(read_rows(output))) == (1, 41)
    now = {path.name: path.stat().st_mtime_ns for path in output.glob("part-*")}
    assert now.items() > before.items()


@pytest.mark.slow
def test_a_parquet_file_goes_on_where_it_ended(tmp_path: Path) -> None:
    """Images that have a row are left out, also where their file has others."""
    photos, output = tmp_path / "photos", tmp_path / "results"
    write_data_set(photos, 20)
    for count in (8, 20):
        images = [path.read_bytes() for path in sorted(photos.iterdir())[:count]]
        pq.write_table(pa.table({"image": images}), tmp_path / "photos.parquet")
        result = endcap_batch(tmp_path / "photos.parquet", "--repository", REPOSITORY, "--output",
                              output, "--json")  # fmt: skip
        assert result.returncode == 0, result.stderr
        assert json.loads(result.stdout)["processed"] == (8 if count == 8 else 12)
    assert_each_once(output, 20, 0)


@pytest.mark.slow
def test_an_interrupted_run_goes_on(tmp_path: Path) -> None:
    """What is not done is done, a lost file is made again, and nothing else."""
    photos, output = tmp_path / "photos", tmp_path / "results"
    write_data_set(photos, 160)  # in ten parts
    command = [sys.executable, "-m", "endcap", "batch", str(photos), "--repository",
               str(REPOSITORY), "--output", str(output), "--workers", "1"]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 150
        while len(list(output.glob("part-*"))) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    done = {path.name: path.stat().st_mtime_ns for path in output.glob("part-*")}
    assert 1 < len(done) < 10
    lost = min(done)
    del done[lost]
    (output / lost).unlink()
    result = endcap_batch(photos, "--repository", REPOSITORY, "--output", output, "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["processed"] == 160 - 16 * len(done)
    now = {path.name: path.stat().st_mtime_ns for path in output.glob("part-*")}
    assert now.items() >= done.items()
    assert_each_once(output, 160, 0)


@pytest.mark.slow
def test_a_node_is_killed(tmp_path: Path) -> None:
    photos, output = tmp_path / "photos", tmp_path / "results"
    write_data_set(photos, 160, damaged=3)
    result = run_on_cluster(photos, output, "--repository", REPOSITORY, "--kill-node-at", 0.5)
    assert result.returncode == 0, result.stderr[-4000:]
    report = json.loads(result.stdout.splitlines()[-1])
    assert report["killed"]
    assert report["statuses"] == {"ok": 157, "corrupt_image": 3}
    assert_each_once(output, 160, 3)


STRANGER = """
import os, subprocess, sys
from endcap.batch.run import connect_to_ray

def connect(environment):
    program = f"import ray; ray.init(address='{address}', log_to_driver=False)"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          timeout=100, env=environment)

with connect_to_ray(None) as ray:
    address = ray.get_runtime_context().gcs_address
    known = dict(os.environ)
    unknown = {name: value for name, value in known.items() if not name.startswith("RAY_AUTH")}
    refused, taken = connect(unknown), connect(known)
assert taken.returncode == 0, taken.stderr
assert refused.returncode != 0
assert "token" in refused.stderr.lower(), refused.stderr
with connect_to_ray(None) as ray:  # once more in the same process
    assert ray.get(ray.put(7)) == 7
print("refused")
"""


@pytest.mark.slow
def test_the_cluster_of_a_run_takes_no_strangers() -> None:
    """Ray listens on all interfaces: without the token nobody may start a program there."""
    result = subprocess.run(
        [sys.executable, "-c", STRANGER], capture_output=True, text=True, timeout=280, check=False
    )
    assert result.stdout == "refused\n", result.stderr


def test_a_folder_that_ray_cannot_write_to_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_TMPDIR", "/proc/endcap")
    with pytest.raises(BatchError, match=r"'/proc/endcap'; set TMPDIR to a folder"):
        run._start_ray(pytest.importorskip("ray"), None)


@pytest.mark.parametrize(
    ("errors", "is_started"),
    [(["late", "late", None], True), (["late"] * 3, False), (["no such option"], False)],
)
def test_a_node_that_starts_late_is_started_again(
    errors: list[str | None], is_started: bool
) -> None:
    """With a stand-in for Ray, whose own limit of 30 seconds cannot be lowered."""
    waiting = iter(errors)

    def init(**options: object) -> None:
        if error := next(waiting):
            raise RuntimeError(error.replace("late", "The current node timed out during startup."))

    ray = SimpleNamespace(init=init, shutdown=lambda: None)
    with contextlib.nullcontext() if is_started else pytest.raises(BatchError, match="TMPDIR"):
        run._start_ray(ray, None)
    assert list(waiting) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--repository", REPOSITORY, "--url", "127.0.0.1:1"], "give one of --model MODEL.onnx"),
        ([], "give one of --model MODEL.onnx, --repository FOLDER and --url HOST:PORT"),
        (["--repository", REPOSITORY, "--address", "127.0.0.1:1"],
         "no Ray cluster at 127.0.0.1:1"),
        (["--url", "127.0.0.1:1"], "no Triton server responds"),
        (["--repository", REPOSITORY, "--model", "preprocess"], "is not made of one step in"),
    ],
)  # fmt: skip
def test_impossible_runs_are_reported(
    tmp_path: Path, arguments: list[object], message: str
) -> None:
    write_data_set(tmp_path / "photos", 1)
    result = endcap_batch(tmp_path / "photos", "--output", tmp_path / "out", *arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert result.stdout == ""


def test_an_output_folder_of_others_is_left_alone(tmp_path: Path) -> None:
    photos, output = tmp_path / "photos", tmp_path / "results"
    write_data_set(photos, 1)
    output.mkdir()
    (output / "part-000000.parquet").write_text("mine")
    result = endcap_batch(photos, "--repository", REPOSITORY, "--output", output)
    assert result.returncode == 2
    assert "has the file part-000000.parquet, which `endcap batch` has not written" in result.stderr
    assert (output / "part-000000.parquet").read_text() == "mine"
    assert [path.name for path in output.iterdir()] == ["part-000000.parquet"]


def test_texts_of_result_files_do_not_reach_the_terminal_raw(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = BatchReport("out\x1b[2J", Counter({"\x1b]0;pwned\x07": 6}))
    report.skipped[".\x1b[2J"] = 1
    _print_summary(report)
    shown = capsys.readouterr()
    assert "pwned" in shown.out
    assert "\x1b" not in shown.out + shown.err
