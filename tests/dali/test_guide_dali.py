"""The Python of docs/dali.md runs, and gives what the page says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import jpegs
from tests.support.doc_pages import ROOT, blocks, run_python

PAGE = ROOT / "docs" / "dali.md"


def test_the_python_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("photo.jpg").write_bytes(jpegs.photo_jpeg(720, 1280))
    head = np.random.default_rng(1).uniform(0, 1, (1, 84, 8400)).astype(np.float32)
    names: dict[str, Any] = {"head": head}
    python = [block for block in blocks(PAGE) if block.language == "python"]
    assert sum([run_python(block, names) for block in python]) >= 5
