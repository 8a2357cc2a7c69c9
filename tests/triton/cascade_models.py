"""The shipped models, as a repository for tests of their pipelines."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tests.support.damage import SHIPPED, copy_model

CASCADE = "cascade"


def write_all(repository: Path) -> None:
    """The shipped models, and `detect_python`: `detect` with the Python models as its steps."""
    shutil.copytree(SHIPPED, repository, ignore=shutil.ignore_patterns("samples", "__pycache__"))
    config = copy_model("detect", repository, name="detect_python") / "config.pbtxt"
    steps = r'(model_name: "(?:preprocess|detector|postprocess))"'
    text, count = re.subn(steps, r'\1_python"', config.read_text())
    assert count == 3
    config.write_text(text)
