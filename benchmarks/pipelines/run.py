"""Figures of the pipelines: python -m benchmarks.pipelines.run OUTPUT.json --service-python PYTHON.

Measures each pipeline in turn, several rounds of all, and takes medians. It runs in the server's
environment and prints the number of measurements, then a line for each.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.paths import PIPELINES_REPOSITORY, ROOT
from benchmarks.pipelines import repository, services
from benchmarks.pipelines.load import Job
from benchmarks.pipelines.pipelines import COMPARISONS, NETWORKS, Comparison, Network, Pipeline
from benchmarks.pipelines.responses import Response
from benchmarks.pipelines.services import Running
from endcap.server import ServerError

Json = dict[str, Any]
_VISIT_WITHIN_S = 600


@dataclass(frozen=True)
class Plan:
    """How much to measure: `seconds` at each concurrency, after a warm-up, in every round."""

    comparisons: tuple[Comparison, ...]
    networks: tuple[Network, ...]
    concurrencies: tuple[int, ...]
    rounds: int
    warm_up_s: float
    seconds: float

    @property
    def visits(self) -> int:
        """How often `run` will say that something is done."""
        pipelines = sum(len(comparison.pipelines) for comparison in self.comparisons)
        return pipelines * len(self.networks) * self.rounds


COMPLETE = Plan(COMPARISONS, NETWORKS, (1, 4, 16), rounds=3, warm_up_s=1.0, seconds=2.5)
QUICK = Plan(COMPARISONS, ("recorded head",), (4,), rounds=1, warm_up_s=0.5, seconds=1.0)


@dataclass
class _Log:
    """What the visits of one pipeline found; a problem ends its visits."""

    pipeline: Pipeline
    verified: str = ""
    problem: str = ""
    visits: list[Json] = field(default_factory=list)


class _VisitError(Exception):
    """The load generator itself failed; the message says how."""


def run(plan: Plan, service_python: Path, done: Callable[[str], None]) -> list[Json]:
    """All comparisons with all networks; `done` is called after each visit.

    Args:
        plan: How much to measure.
        done: Is called with the name of each measurement that is done.
        service_python: Of an environment that has FastAPI, OpenCV and onnxruntime.
    """
    networks = repository.write_networks(PIPELINES_REPOSITORY / "networks")
    return [
        _comparison(comparison, network, networks[network], plan, service_python, done)
        for comparison in plan.comparisons
        for network in plan.networks
    ]


def versions() -> dict[str, str]:
    """Return the versions on the server's side."""
    packages = ("endcap", "nvidia-pytriton", "numpy", "opencv-python-headless", "onnxruntime")
    names = (*packages, "tritonclient", "aiohttp")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


def _comparison(
    comparison: Comparison,
    name: Network,
    network: Path,
    plan: Plan,
    service_python: Path,
    done: Callable[[str], None],
) -> Json:
    logs = [_Log(pipeline) for pipeline in comparison.pipelines]
    first: Response | None = None
    for _ in range(plan.rounds):
        for log in logs:
            if not log.problem:
                with_first = first if log is not logs[0] else None
                response = _visit(log, network, with_first, plan, service_python)
                first = first or (response if log is logs[0] else None)
            done(f"{comparison.task}, {name}: {log.pipeline.name}")
    return {
        "task": comparison.task,
        "network": name,
        "encoded_bytes": repository.IMAGE.stat().st_size,
        "detections": len(first) if first else 0,
        "pipelines": [_summary(log) for log in logs],
    }


def _visit(
    log: _Log, network: Path, first: Response | None, plan: Plan, service_python: Path
) -> Response | None:
    """Add a visit to the log, or the problem that there was; give the pipeline's response."""
    try:
        with _service(log.pipeline, network, service_python) as running:
            found = _load(log.pipeline, running, first, plan)
    except (
        ServerError,
        services.ServiceError,
        repository.ModelMissingError,
        _VisitError,
    ) as error:
        log.problem = str(error)
        return None
    log.verified, log.problem = found["verified"], found["problem"]
    if not log.problem:
        log.visits.append(found)
    return Response(**found["response"]) if found["response"] else None


def _service(pipeline: Pipeline, network: Path, python: Path) -> AbstractContextManager[Running]:
    if pipeline.call == "service":
        return services.opencv(python, network)
    if pipeline.call == "in process":
        return nullcontext(Running("", "", 0, str(network)))
    folder = PIPELINES_REPOSITORY / "models"
    repository.write(folder, pipeline, network)
    return services.triton(folder)


def _load(pipeline: Pipeline, running: Running, first: Response | None, plan: Plan) -> Json:
    job = Job(
        service=running,
        call=pipeline.call,
        model=pipeline.model,
        image=str(repository.IMAGE),
        exact=pipeline.exact,
        first=first,
        concurrencies=plan.concurrencies,
        warm_up_s=plan.warm_up_s,
        seconds=plan.seconds,
    )
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.pipelines.load"],
        input=json.dumps(asdict(job)),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=_VISIT_WITHIN_S,
        check=False,
    )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise _VisitError(f"the load generator failed: {last}")
    found: Json = json.loads(done.stdout)
    return found


def _summary(log: _Log) -> Json:
    """Medians over the visits, and every visit's points."""
    outcome = "measured" if log.visits and not log.problem else "not measured"
    points = zip(*(visit["points"] for visit in log.visits), strict=True)
    return {
        "name": log.pipeline.name,
        "model": log.pipeline.model,
        "how": log.pipeline.how,
        "outcome": outcome,
        "note": log.problem or log.verified,
        "points": [_medians(each) for each in points],
        "footprint": _medians([visit["footprint"] for visit in log.visits]),
        "visits": [visit["points"] for visit in log.visits],
    }


def _medians(rows: Sequence[Json]) -> Json | None:
    """Field by field; None of nothing."""
    return {name: median(row[name] for row in rows) for name in rows[0]} if rows else None


def main() -> int:
    """Run and write the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pipelines.run")
    parser.add_argument("output", type=Path)
    parser.add_argument("--service-python", type=Path, required=True)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    plan = QUICK if arguments.quick else COMPLETE
    print(plan.visits, flush=True)
    comparisons = run(plan, arguments.service_python, lambda what: print(what, flush=True))
    result = {
        "versions": versions(),
        "rounds": plan.rounds,
        "seconds": plan.seconds,
        "comparisons": comparisons,
    }
    arguments.output.write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
