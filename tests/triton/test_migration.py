"""docs/opencv.md and docs/migration.md as a reader follows them: old and new models compared."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.support.doc_pages import ROOT, blocks, run_python
from tests.support.tolerances import COMPARED_SCORE, SERVED_BOX_PIXELS, SERVED_SCORE
from tests.triton.running_server import RunningServer, run_server

PAGES = [ROOT / "docs" / name for name in ("opencv.md", "migration.md")]
BLOCKS = [block for page in PAGES for block in blocks(page)]
SAMPLES = sorted((ROOT / "model_repository" / "detect" / "samples").glob("*.jpg"))
MODELS = {"detector", "preprocess_cv2", "postprocess_cv2", "preprocess_step", "postprocess_step"}
MODELS |= {"preprocess", "postprocess", "detect_cv2", "detect_step", "detect"}
CLIENT_URL = "127.0.0.1:8001"
# Sides are rounded by up to half a pixel of the tensor, which the old models do not map back. The
# samples' tensors are shrunk by up to 6.25 (4000 pixels to 640).
COMMON_RATIO_PIXELS = 0.5 * 6.25


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reader's folder: the pages' files, and what their commands make."""
    folder = tmp_path_factory.mktemp("reader")
    commands = [b.text for b in BLOCKS if b.language == "sh" and "endcap " not in b.text]
    make_folders, compare, make_configs = commands
    assert compare.startswith("python compare.py")
    run_shell(make_folders, folder)
    for block in BLOCKS:
        if block.caption:
            (folder / block.caption).write_text(block.text, encoding="utf-8")
    run_shell(make_configs, folder)
    return folder


def run_shell(command: str, folder: Path) -> str:
    environment = {"PATH": f"{sysconfig.get_path('scripts')}:/usr/bin:/bin"}
    done = subprocess.run(
        ["bash", "-eu", "-c", command], cwd=folder, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def migrating_server(reader: Path) -> Iterator[RunningServer]:
    with run_server(reader / "models") as running:
        running.expect_all()
        yield running


def compare(server: RunningServer, reader: Path, *words: object) -> list[tuple[int, float, float]]:
    """What the page's compare.py prints: number of detections, edges, scores; classes agree."""
    script = reader / "compare_here.py"
    text = (reader / "compare.py").read_text(encoding="utf-8")
    assert CLIENT_URL in text
    script.write_text(text.replace(CLIENT_URL, server.grpc), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, script, *words], capture_output=True, text=True, check=False, cwd=reader
    )
    assert done.returncode == 0, done.stderr
    rows = []
    for line in done.stdout.splitlines():
        numbers = re.search(r": (\d+) detections, edges within (\S+) .* within (\S+)$", line)
        assert numbers, line
        rows.append((int(numbers[1]), float(numbers[2]), float(numbers[3])))
    return rows


def test_the_pages_show_whole_models(migrating_server: RunningServer) -> None:
    assert set(migrating_server.index()) == MODELS


def test_validate_finds_nothing(reader: Path) -> None:
    done = run_shell("endcap validate models", reader)
    assert done.splitlines()[-1] == f"{len(MODELS)} models, 0 errors, 0 warnings"


def test_endcap_in_python_models_is_the_backends(
    migrating_server: RunningServer, reader: Path
) -> None:
    rows = compare(migrating_server, reader, "detect_step", "detect", *SAMPLES)
    assert len(rows) == len(SAMPLES)
    assert sum(count for count, _, _ in rows) > 30
    assert max(edge for _, edge, _ in rows) <= SERVED_BOX_PIXELS
    assert max(score for _, _, score in rows) <= SERVED_SCORE


def test_opencv_is_what_the_pages_say(migrating_server: RunningServer, reader: Path) -> None:
    rows = compare(migrating_server, reader, "detect_cv2", "detect", *SAMPLES)
    assert sum(count for count, _, _ in rows) > 30
    assert max(edge for _, edge, _ in rows) <= COMMON_RATIO_PIXELS
    assert max(score for _, _, score in rows) <= COMPARED_SCORE


def test_the_python_of_the_pages(reader: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(reader)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(sys.modules, "triton_python_backend_utils", ModuleType("pb_utils"))
    monkeypatch.delitem(sys.modules, "model", raising=False)
    names: dict[str, Any] = {}
    inline = [b for b in BLOCKS if b.language == "python" and not b.caption]
    assert sum(run_python(block, names) for block in inline) >= 2
    assert np.ptp(names["before"]) > 0.5
