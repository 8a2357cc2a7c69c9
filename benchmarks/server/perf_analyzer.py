"""NVIDIA's perf_analyzer: downloads and runs it, and reads its figures."""

from __future__ import annotations

import base64
import csv
import importlib.util
import json
import os
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks import BUILD

WHEEL = "tritonclient==2.40.0"  # the last whose Linux wheel has the program
PERF_ANALYZER = BUILD / "bench-perf-analyzer"
_MICRO = 1e-3  # its latencies are microseconds


class LoadError(Exception):
    """perf_analyzer cannot be downloaded, or failed."""


class UnsteadyError(LoadError):
    """The windows of a run never agreed: the machine has other work to do."""


@dataclass(frozen=True)
class Load:
    """Figures of one run at one concurrency."""

    inferences_per_second: float
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True)
class Window:
    """How a run measures: until three windows of `interval_ms` agree, or after `max_trials`."""

    interval_ms: int
    max_trials: int
    stability_percent: int


class LoadGenerator:
    """perf_analyzer on one server.

    The program is downloaded once, into PERF_ANALYZER.
    """

    def __init__(self, grpc_authority: str) -> None:
        self._authority = grpc_authority
        self._program = _program(PERF_ANALYZER)
        self._libraries = _cuda_runtime(PERF_ANALYZER)

    def run(
        self, model: str, encoded: bytes, concurrency: int, window: Window, output_bytes: int = 0
    ) -> Load:
        """Send one image repeatedly.

        Args:
            model: The model's name.
            encoded: The image.
            concurrency: The number of requests in flight.
            window: How long to measure.
            output_bytes: The size of the model's largest output; inputs and outputs are then in
                system shared memory.

        Raises:
            LoadError: The load generator failed; UnsteadyError, where its figures do not settle.
        """
        requests, figures = PERF_ANALYZER / "requests.json", PERF_ANALYZER / "figures.csv"
        requests.write_text(json.dumps(input_data(encoded)))
        figures.unlink(missing_ok=True)
        command = [str(self._program), "-m", model, "-u", self._authority, "-i", "grpc"]
        command += ["--input-data", str(requests), "-f", str(figures)]
        if output_bytes:
            command += ["--shared-memory", "system"]
            command += ["--output-shared-memory-size", str(output_bytes)]
        command += ["--concurrency-range", str(concurrency)]
        command += ["--measurement-interval", str(window.interval_ms)]
        command += ["--max-trials", str(window.max_trials)]
        command += ["--stability-percentage", str(window.stability_percent)]
        environment = {**os.environ, "LD_LIBRARY_PATH": str(self._libraries)}
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=120, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise UnsteadyError(f"perf_analyzer on {model} took over 120 s") from error
        if not figures.exists():
            raise _error(model, done.stdout + done.stderr)
        return read_figures(figures.read_text())


def input_data(encoded: bytes) -> dict[str, object]:
    """Return the requests for `--input-data`: a BYTES element follows its length."""
    element = len(encoded).to_bytes(4, "little") + encoded
    content = {"b64": base64.b64encode(element).decode()}
    return {"data": [{"encoded": {"content": content, "shape": [1]}}]}


def read_figures(table: str) -> Load:
    """Return the figures of the last row of the CSV table that perf_analyzer writes.

    Raises:
        LoadError: There is none.
    """
    rows = [row for row in csv.DictReader(table.splitlines()) if row.get("Inferences/Second")]
    if not rows:
        raise LoadError("perf_analyzer wrote no figures")
    row = rows[-1]
    return Load(
        inferences_per_second=float(row["Inferences/Second"]),
        p50_ms=float(row["p50 latency"]) * _MICRO,
        p99_ms=float(row["p99 latency"]) * _MICRO,
    )


def _error(model: str, output: str) -> LoadError:
    if "Failed to obtain stable measurement" in output:
        return UnsteadyError(f"the figures of {model} vary too much: is the machine busy?")
    return LoadError(f"perf_analyzer on {model}: {' / '.join(output.strip().splitlines()[-3:])}")


def _program(folder: Path) -> Path:
    program = folder / "perf_analyzer"
    if program.exists():
        return program
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--only-binary", ":all:", "--dest", str(folder), WHEEL]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("tritonclient-*.whl"))
    if done.returncode != 0 or not wheels:
        raise LoadError(f"{WHEEL} cannot be downloaded: {done.stderr.strip()[-300:]}")
    with zipfile.ZipFile(wheels[0]) as wheel:
        (name,) = (each for each in wheel.namelist() if each.endswith("/bin/perf_analyzer"))
        unfinished = folder / "perf_analyzer.part"
        unfinished.write_bytes(wheel.read(name))
    unfinished.chmod(0o755)
    unfinished.rename(program)
    return program


def _cuda_runtime(folder: Path) -> Path:
    """Return a folder with libcudart.so.12, which the server's wheel has under another name."""
    spec = importlib.util.find_spec("pytriton")
    places = (spec.submodule_search_locations or []) if spec else []
    pattern = "nvidia_pytriton.libs/libcudart-*.so.12*"
    found = [file for place in places for file in Path(place).parent.glob(pattern)]
    libraries = folder / "libraries"
    libraries.mkdir(exist_ok=True)
    link = libraries / "libcudart.so.12"
    link.unlink(missing_ok=True)
    if found:
        link.symlink_to(found[0])
    return libraries
