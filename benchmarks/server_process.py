"""Parts of the benchmark that run in the server's environment, as JSON documents."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks import images, machine, paths

COMPLETE_IMAGES = ("640x427 detailed", "1920x1080")
QUICK_IMAGES = ("640x427 detailed",)
_SERVICE_PACKAGES = ("fastapi", "uvicorn", "numpy", "opencv-python-headless", "onnxruntime")


class ServerPartError(Exception):
    """The server's part could not run; the message says why."""


def run(
    python: Path, *, quick: bool, start: Callable[[int], None], done: Callable[[str], None]
) -> dict[str, Any]:
    """Measure in the environment of `python`, which has a Triton server and NumPy below 2.

    `start` is called with the number of runs of the load generator, `done` of each.
    Raises ServerPartError, SourceMissingError.
    """
    about = machine.describe()
    names = QUICK_IMAGES if quick else COMPLETE_IMAGES
    pictures = [str(images.make(name, paths.IMAGES).path) for name in names]
    options = [*pictures, *(["--quick"] if quick else [])]
    return {"machine": about, "server": part(python, "benchmarks.server.run", options, start, done)}


def run_pipelines(
    python: Path, *, quick: bool, start: Callable[[int], None], done: Callable[[str], None]
) -> dict[str, Any]:
    """Measure the pipelines; Triton and the clients run in the environment of `python`.

    The FastAPI service runs in this one. `start` is called with the number of measurements, `done`
    after each. Raises ServerPartError.
    """
    about = machine.describe()
    options = ["--service-python", sys.executable, *(["--quick"] if quick else [])]
    measured = part(python, "benchmarks.pipelines.run", options, start, done)
    measured["service_versions"] = {name: _version(name) for name in _SERVICE_PACKAGES}
    return {"machine": about, "pipelines": measured}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def part(
    python: Path,
    module: str,
    options: list[str],
    start: Callable[[int], None],
    done: Callable[[str], None],
) -> dict[str, Any]:
    """Run `python -m MODULE OUTPUT.json OPTIONS...` and gives the JSON that it wrote.

    The module prints how many steps there will be, then a line for each. An interrupt goes to it
    once, so that it can end what it started. Raises ServerPartError.
    """
    with tempfile.TemporaryDirectory(prefix="endcap-bench-") as folder:
        output = Path(folder) / "part.json"
        _follow([str(python), "-m", module, str(output), *options], start, done)
        found: dict[str, Any] = json.loads(output.read_text())
        return found


def _follow(command: list[str], start: Callable[[int], None], done: Callable[[str], None]) -> None:
    with tempfile.TemporaryFile("w+") as problems:
        try:
            process = subprocess.Popen(
                command,
                cwd=paths.ROOT,
                stdout=subprocess.PIPE,
                stderr=problems,
                text=True,
                start_new_session=True,
            )
        except OSError as error:
            raise ServerPartError(f"{command[0]} cannot be run: {error.strerror}") from error
        with process:
            try:
                for line in process.stdout or ():
                    if line.strip().isdecimal():
                        start(int(line))
                    else:
                        done(line.strip())
            except BaseException:
                process.send_signal(signal.SIGINT)
                process.wait()  # until it has stopped its server
                raise
        if process.returncode != 0:
            problems.seek(0)
            last = (problems.read().strip().splitlines() or ["it said nothing"])[-1]
            raise ServerPartError(f"the server's part failed: {last}")
