"""python -m benchmarks.clients.run OUTPUT.json [--quick]: the transports' figures as JSON.

Measures each transport in turn, several rounds of all, on one server, and takes medians. It runs in
the server's environment and prints the number of measurements, then a line for each.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from benchmarks.clients.calls import IMAGE, tensor
from benchmarks.clients.load import Job
from benchmarks.clients.transports import TRANSPORTS, Transport
from benchmarks.paths import CLIENTS_REPOSITORY, ROOT
from benchmarks.pipelines import services
from benchmarks.pipelines.responses import Response
from benchmarks.pipelines.services import Running
from benchmarks.server.repository import SHIPPED, write_models

_OWN_MODELS = Path(__file__).resolve().parent / "models"
_SOURCE = Path(__file__).resolve().parent / "recorded_network.cc"
_PAGE_VALUES = 1024


class CompileError(Exception):
    """The network's stand-in cannot be compiled; the message says why."""


def write(folder: Path) -> None:
    """Replace `folder` by the models, the head of IMAGE recorded. Raises CompileError."""
    sources = [SHIPPED / name for name in ("preprocess", "postprocess", "detect")]
    write_models(folder, [*sources, _OWN_MODELS / "detector"])
    version = folder / "detector" / "1"
    images = tensor(IMAGE.read_bytes()).images
    session = onnxruntime.InferenceSession(
        SHIPPED / "detector" / "1" / "model.onnx", providers=["CPUExecutionProvider"]
    )
    (head,) = session.run(None, {"images": images})
    (version / "recorded.bin").write_bytes(recording(images, np.asarray(head)))
    compile_network(version / "libtriton_recorded_network.so")


def recording(images: NDArray[np.float32], head: NDArray[np.float32]) -> bytes:
    """Return what recorded_network.cc reads: a fingerprint of the tensor, and its head."""
    fingerprint = images.view(np.uint32).ravel()[::_PAGE_VALUES].sum(dtype=np.uint32)
    return struct.pack("<I", int(fingerprint)) + head.astype("<f4").tobytes()


def compile_network(library: Path) -> None:
    """Compile the backend; the server provides Triton's functions. Raises CompileError."""
    compiler = shutil.which("g++")
    if compiler is None:
        raise CompileError("there is no C++ compiler `g++`: apt-get install g++")
    backends = ROOT / "backends"
    options = ["-std=c++20", "-O2", "-shared", "-fPIC", "-static-libstdc++", f"-I{backends}"]
    exports = f"-Wl,--version-script={backends / 'exports.map'}"
    command = [compiler, *options, exports, "-o", str(library), str(_SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CompileError(f"{_SOURCE.name} cannot be compiled: {done.stderr.strip()}")


Json = dict[str, Any]
_VISIT_WITHIN_S = 120


@dataclass(frozen=True)
class Plan:
    """How much to measure: `seconds` at each concurrency, after a warm-up, in every round."""

    transports: tuple[Transport, ...]
    concurrencies: tuple[int, ...]
    rounds: int
    warm_up_s: float
    seconds: float

    @property
    def visits(self) -> int:
        """How often `run` will say that something is done."""
        return len(self.transports) * self.rounds


COMPLETE = Plan(TRANSPORTS, (1, 4), rounds=3, warm_up_s=0.5, seconds=1.5)
QUICK = Plan(TRANSPORTS, (1, 4), rounds=1, warm_up_s=0.3, seconds=0.6)


@dataclass
class _Log:
    """What the visits of one transport found; a problem ends its visits."""

    transport: Transport
    verified: str = ""
    problem: str = ""
    visits: list[Json] = field(default_factory=list)


def run(plan: Plan, done: Callable[[str], None]) -> Json:
    """All transports; `done` is called after each visit.

    Raises endcap.server.ServerError, CompileError.
    """
    folder = CLIENTS_REPOSITORY / "models"
    write(folder)
    logs = [_Log(transport) for transport in plan.transports]
    first: Response | None = None
    with services.triton(folder) as running:
        for _ in range(plan.rounds):
            for log in logs:
                if not log.problem:
                    _visit(log, running, first, plan)
                if first is None and log.visits:
                    first = Response(**log.visits[0]["response"])
                done(f"{log.transport.comparison}: {log.transport.name}")
    return {
        "versions": versions(),
        "rounds": plan.rounds,
        "seconds": plan.seconds,
        "encoded_bytes": IMAGE.stat().st_size,
        "detections": len(first) if first else 0,
        "ways": [_summary(log) for log in logs],
    }


def versions() -> dict[str, str]:
    """Return the versions of client and server."""
    names = ("endcap", "nvidia-pytriton", "numpy", "tritonclient", "grpcio", "geventhttpclient")
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in (*names, "aiohttp")},
    }


def _visit(log: _Log, running: Running, first: Response | None, plan: Plan) -> None:
    """Add a visit to the log, or the problem that there was."""
    job = Job(
        service=running,
        comparison=log.transport.comparison,
        name=log.transport.name,
        image=str(IMAGE),
        first=first,
        concurrencies=plan.concurrencies,
        warm_up_s=plan.warm_up_s,
        seconds=plan.seconds,
    )
    try:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.clients.load"],
            input=json.dumps(asdict(job)),
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=_VISIT_WITHIN_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        log.problem = f"the load generator did not end within {_VISIT_WITHIN_S} s"
        return
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        log.problem = f"the load generator failed: {last}"
        return
    found: Json = json.loads(done.stdout)
    log.verified, log.problem = found["verified"], found["problem"]
    if not log.problem:
        log.visits.append(found)


def _summary(log: _Log) -> Json:
    """Medians over the visits, and every visit's points."""
    measured = bool(log.visits) and not log.problem
    points = zip(*(visit["points"] for visit in log.visits), strict=True)
    return {
        **asdict(log.transport),
        "outcome": "measured" if measured else "not measured",
        "note": log.problem or log.verified,
        "wire": _medians([visit["wire"] for visit in log.visits]) if measured else None,
        "points": [_medians(each) for each in points] if measured else [],
        "visits": [visit["points"] for visit in log.visits],
    }


def _medians(rows: Sequence[Json]) -> Json:
    """Field by field."""
    return {name: median(row[name] for row in rows) for name in rows[0]}


def main() -> int:
    """Run and write the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clients.run")
    parser.add_argument("output", type=Path)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    plan = QUICK if arguments.quick else COMPLETE
    print(plan.visits, flush=True)
    result = run(plan, lambda what: print(what, flush=True))
    arguments.output.write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
