"""Measures the pipelines from the benchmarks' own environment, and gives the JSON document."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks import machine, server_process

_SERVICE_PACKAGES = ("fastapi", "uvicorn", "numpy", "opencv-python-headless", "onnxruntime")


def make(
    python: Path, *, quick: bool, start: Callable[[int], None], done: Callable[[str], None]
) -> dict[str, Any]:
    """Triton and the clients run in the environment of `python`, the FastAPI service in this one.

    `start` is called with the number of visits of pipelines, `done` of each.
    Raises server_process.ServerPartError.
    """
    about = machine.describe()
    options = ["--service-python", sys.executable, *(["--quick"] if quick else [])]
    found = server_process.part(python, "benchmarks.pipelines", options, start, done)
    found["service_versions"] = {name: _version(name) for name in _SERVICE_PACKAGES}
    return {"machine": about, "pipelines": found}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
