"""Cross-check of the chosen point by NVIDIA's perf_analyzer, where it is installed."""

from __future__ import annotations

import base64
import csv
import json
import os
import random
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from endcap._system.scratch import scratch_folder
from endcap.errors import UnsupportedError
from endcap.tools.tune.measurement import Bench
from endcap.tools.tune.outcome import Point
from endcap.tools.tune.report import figure
from endcap.tools.tune.settings import client_options

PROGRAM = "perf_analyzer"
_WINDOW_MS = 4000
_TIMEOUT_S = 60.0
_STABLE_PERCENT = 50  # windows agree within this; the limit of a percentile needs no more
_REQUESTS = 64
_MS_PER_US = 1e-3
_SHOWN_CHARACTERS = 200


@dataclass(frozen=True)
class CrossCheck:
    """What perf_analyzer found at the rate of a point."""

    images_per_s: float
    p99_ms: float

    def describe(self, point: Point) -> str:
        """Return a line beside the figures of the point."""
        without = " without shared memory" if client_options(point.configuration) else ""
        return (
            f"perf_analyzer{without}, {figure(self.images_per_s)} images/s at random times: "
            f"p99 {self.p99_ms:.1f} ms (endcap {point.p99_ms:.1f} ms)"
        )


def cross_check(bench: Bench, point: Point, seed: int) -> CrossCheck:
    """Measure a point on a server of its own.

    perf_analyzer counts latencies from when a request is sent, not from its scheduled arrival.

    Raises:
        UnsupportedError: The program is not there, or gave no figures.
        ServerError: The configuration does not get ready.
    """
    program = shutil.which(PROGRAM)
    if program is None:
        raise UnsupportedError(f"{PROGRAM} is not on $PATH")
    with scratch_folder("tune") as scratch, bench.serve(point.configuration) as served:
        data, figures = scratch / "requests.json", scratch / "figures.csv"
        data.write_text(json.dumps(_requests(bench.traffic.images, seed)))
        rate = point.rate / bench.traffic.batch
        command = [program, "-m", bench.pipeline.model, "-i", "grpc"]
        command += ["-u", served.server.grpc_url.removeprefix("grpc://")]
        command += ["--input-data", str(data), "-f", str(figures), "-b", str(bench.traffic.batch)]
        command += ["--request-rate-range", f"{rate:g}", "--request-distribution", "poisson"]
        command += ["--percentile", "99", "--measurement-interval", str(_WINDOW_MS)]
        command += ["--stability-percentage", str(_STABLE_PERCENT), "--max-trials", "5"]
        return _run(command, figures)


def _run(command: Sequence[str], figures: Path) -> CrossCheck:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
            env={**os.environ, "TMPDIR": str(figures.parent)},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnsupportedError(f"{PROGRAM} gave no figures ({error})") from error
    rows = list(csv.DictReader(figures.read_text().splitlines())) if figures.exists() else []
    rows = [row for row in rows if row.get("Inferences/Second")]
    if not rows:
        said = " ".join((done.stdout + done.stderr).split())[-_SHOWN_CHARACTERS:]
        raise UnsupportedError(f"{PROGRAM} gave no figures ({said or 'it said nothing'})")
    return CrossCheck(
        images_per_s=float(rows[-1]["Inferences/Second"]),
        p99_ms=float(rows[-1]["p99 latency"]) * _MS_PER_US,
    )


def _requests(images: Sequence[bytes], seed: int) -> dict[str, object]:
    """Return images in perf_analyzer's form: a BYTES element goes behind its length."""
    drawn = random.Random(seed).choices(range(len(images)), k=_REQUESTS)
    rows = []
    for number in drawn:
        element = len(images[number]).to_bytes(4, "little") + images[number]
        rows.append(
            {"encoded": {"content": {"b64": base64.b64encode(element).decode()}, "shape": [1]}}
        )
    return {"data": rows}
