"""Writes the model repository of the benchmark: shipped models beside those with OpenCV."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from benchmarks.paths import ROOT
from benchmarks.timing import cpu_count

SHIPPED = ROOT / "model_repository"
OPENCV_MODELS = Path(__file__).resolve().parent / "models"
_COMPILED = ("preprocess", "detector", "postprocess", "detect")
_OPENCV = ("preprocess_opencv", "postprocess_opencv", "detect_opencv")
_PYTHON_NETWORK = "detector_python"  # of the counterpart


def write(folder: Path) -> None:
    """Replace `folder` by a repository of the ensemble `detect` and its counterpart in Python."""
    shipped = [SHIPPED / name for name in (*_COMPILED, _PYTHON_NETWORK)]
    sources = [*shipped, *(OPENCV_MODELS / name for name in _OPENCV)]
    write_models(folder, sources)


def write_models(folder: Path, sources: Sequence[Path]) -> None:
    """Replace `folder` by a repository of copies of some model folders.

    `@CPUS@` in a config becomes the number of CPUs that the process may use.
    """
    shutil.rmtree(folder, ignore_errors=True)
    without = shutil.ignore_patterns("samples", "__pycache__", "README.md")
    for source in sources:
        model = folder / source.name
        shutil.copytree(source, model, ignore=without)
        (model / "1").mkdir(exist_ok=True)
        config = model / "config.pbtxt"
        config.write_text(config.read_text().replace("@CPUS@", str(cpu_count())))
