"""Writes the model repository of the benchmark: the shipped models beside those in Python."""

from __future__ import annotations

import shutil
from pathlib import Path

from benchmarks.affinity import cpu_count
from benchmarks.paths import ROOT

SHIPPED = ROOT / "model_repository"
_PYTHON_MODELS = Path(__file__).resolve().parent / "models"


def write(folder: Path) -> None:
    """Replaces `folder` by a repository of seven models.

    The Python models get as many instances as the process has CPUs.
    """
    shutil.rmtree(folder, ignore_errors=True)
    without = shutil.ignore_patterns("samples", "__pycache__", "README.md")
    shutil.copytree(SHIPPED, folder, ignore=without)
    shutil.copytree(_PYTHON_MODELS, folder, dirs_exist_ok=True, ignore=without)
    for model in folder.iterdir():
        (model / "1").mkdir(exist_ok=True)
        config = model / "config.pbtxt"
        config.write_text(config.read_text().replace("@CPUS@", str(cpu_count())))
