"""Visits every road in turn, several rounds of it, and takes medians.

A visit starts the road's own server, with no other model on it, loads it at each concurrency and
ends it: so memory is that of the road, and no road has a busier machine than another.
"""

from __future__ import annotations

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
from benchmarks.pipelines.answers import Answer
from benchmarks.pipelines.load import Job
from benchmarks.pipelines.roads import CONTESTS, NETWORKS, Contest, Network, Road
from benchmarks.pipelines.services import Running
from endcap.server import ServerError

Json = dict[str, Any]
_VISIT_WITHIN_S = 600


@dataclass(frozen=True)
class Plan:
    """How much to measure: `seconds` at each concurrency, after a warm-up, in every round."""

    contests: tuple[Contest, ...]
    networks: tuple[Network, ...]
    concurrencies: tuple[int, ...]
    rounds: int
    warm_up_s: float
    seconds: float

    @property
    def visits(self) -> int:
        """How often `run` will say that something is done."""
        roads = sum(len(contest.roads) for contest in self.contests)
        return roads * len(self.networks) * self.rounds


COMPLETE = Plan(CONTESTS, NETWORKS, (1, 4, 16), rounds=3, warm_up_s=1.0, seconds=2.5)
QUICK = Plan(CONTESTS, ("recorded head",), (4,), rounds=1, warm_up_s=0.5, seconds=1.0)


@dataclass
class _Log:
    """What the visits of one road found; a problem ends its visits."""

    road: Road
    verified: str = ""
    problem: str = ""
    visits: list[Json] = field(default_factory=list)


class _VisitError(Exception):
    """The load generator itself failed; the message says how."""


def run(plan: Plan, service_python: Path, done: Callable[[str], None]) -> list[Json]:
    """All contests with all networks; `done` hears of each visit.

    service_python: of an environment that has FastAPI, OpenCV and onnxruntime.
    """
    networks = repository.write_networks(PIPELINES_REPOSITORY / "networks")
    return [
        _contest(contest, network, networks[network], plan, service_python, done)
        for contest in plan.contests
        for network in plan.networks
    ]


def versions() -> dict[str, str]:
    """What the side of the server consists of."""
    packages = ("endcap", "nvidia-pytriton", "numpy", "opencv-python-headless", "onnxruntime")
    names = (*packages, "tritonclient", "aiohttp")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


def _contest(
    contest: Contest,
    name: Network,
    network: Path,
    plan: Plan,
    service_python: Path,
    done: Callable[[str], None],
) -> Json:
    logs = [_Log(road) for road in contest.roads]
    first: Answer | None = None
    for _ in range(plan.rounds):
        for log in logs:
            if not log.problem:
                with_first = first if log is not logs[0] else None
                answer = _visit(log, network, with_first, plan, service_python)
                first = first or (answer if log is logs[0] else None)
            done(f"{contest.task}, {name}: {log.road.name}")
    return {
        "task": contest.task,
        "network": name,
        "encoded_bytes": repository.IMAGE.stat().st_size,
        "detections": len(first) if first else 0,
        "roads": [_summary(log) for log in logs],
    }


def _visit(
    log: _Log, network: Path, first: Answer | None, plan: Plan, service_python: Path
) -> Answer | None:
    """Adds a visit to the log, or the problem that there was; gives the road's answer."""
    try:
        with _service(log.road, network, service_python) as running:
            found = _load(log.road, running, first, plan)
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
    return Answer(**found["answer"]) if found["answer"] else None


def _service(road: Road, network: Path, python: Path) -> AbstractContextManager[Running]:
    if road.call == "service":
        return services.opencv(python, network)
    if road.call == "in process":
        return nullcontext(Running("", "", 0, str(network)))
    folder = PIPELINES_REPOSITORY / "models"
    repository.write(folder, road, network)
    return services.triton(folder)


def _load(road: Road, running: Running, first: Answer | None, plan: Plan) -> Json:
    job = Job(
        service=running,
        call=road.call,
        model=road.model,
        image=str(repository.IMAGE),
        exact=road.exact,
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
        "name": log.road.name,
        "model": log.road.model,
        "how": log.road.how,
        "outcome": outcome,
        "note": log.problem or log.verified,
        "points": [_medians(each) for each in points],
        "footprint": _medians([visit["footprint"] for visit in log.visits]),
        "visits": [visit["points"] for visit in log.visits],
    }


def _medians(rows: Sequence[Json]) -> Json | None:
    """Field by field; None of nothing."""
    return {name: median(row[name] for row in rows) for name in rows[0]} if rows else None
