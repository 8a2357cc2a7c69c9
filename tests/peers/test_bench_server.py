"""`make bench-server --quick` as a whole: every pipeline is verified and measured."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from benchmarks import BUILD, ROOT, results


def test_every_pipeline_is_verified_and_measured() -> None:
    python = os.environ["ENDCAP_SERVER_PYTHON"]
    command = [python, "-m", "benchmarks.server", "--quick", "--bench-python", sys.executable]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=250, check=False
    )
    if "cannot be downloaded" in done.stderr:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    _, tables = results.read(BUILD / "bench-quick" / "server.json")
    preprocess, detect = tables[:4], tables[4:]
    for table in (*preprocess, *detect):
        assert all(cell and cell.median > 0 for row in table.rows.values() for cell in row)
    assert preprocess[0].columns == ["endcap", "Python model, OpenCV"]
    assert preprocess[0].notes == dict.fromkeys(preprocess[0].columns, "equal")
    assert detect[0].columns[1:] == [
        "endcap, one process",
        "Python models, OpenCV",
        "FastAPI, OpenCV",
    ]
    assert all(note.startswith("same 10 detections") for note in detect[0].notes.values())
    assert (BUILD / "bench-quick" / "server.png").exists()
