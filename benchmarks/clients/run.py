"""Visits every way in turn, several rounds of it, on one server, and takes medians."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from statistics import median
from typing import Any

from benchmarks.clients import picture, repository
from benchmarks.clients.load import Job
from benchmarks.clients.ways import WAYS, Way
from benchmarks.paths import CLIENTS_REPOSITORY, ROOT
from benchmarks.pipelines import services
from benchmarks.pipelines.answers import Answer
from benchmarks.pipelines.services import Running

Json = dict[str, Any]
_VISIT_WITHIN_S = 120


@dataclass(frozen=True)
class Plan:
    """How much to measure: `seconds` at each concurrency, after a warm-up, in every round."""

    ways: tuple[Way, ...]
    concurrencies: tuple[int, ...]
    rounds: int
    warm_up_s: float
    seconds: float

    @property
    def visits(self) -> int:
        """How often `run` will say that something is done."""
        return len(self.ways) * self.rounds


COMPLETE = Plan(WAYS, (1, 4), rounds=3, warm_up_s=0.5, seconds=1.5)
QUICK = Plan(WAYS, (1, 4), rounds=1, warm_up_s=0.3, seconds=0.6)


@dataclass
class _Log:
    """What the visits of one way found; a problem ends its visits."""

    way: Way
    verified: str = ""
    problem: str = ""
    visits: list[Json] = field(default_factory=list)


def run(plan: Plan, done: Callable[[str], None]) -> Json:
    """All ways; `done` is called after each visit.

    Raises endcap.server.ServerError, repository.CompileError.
    """
    folder = CLIENTS_REPOSITORY / "models"
    repository.write(folder)
    logs = [_Log(way) for way in plan.ways]
    first: Answer | None = None
    with services.triton(folder) as running:
        for _ in range(plan.rounds):
            for log in logs:
                if not log.problem:
                    _visit(log, running, first, plan)
                if first is None and log.visits:
                    first = Answer(**log.visits[0]["answer"])
                done(f"{log.way.comparison}: {log.way.name}")
    return {
        "versions": versions(),
        "rounds": plan.rounds,
        "seconds": plan.seconds,
        "encoded_bytes": picture.IMAGE.stat().st_size,
        "detections": len(first) if first else 0,
        "ways": [_summary(log) for log in logs],
    }


def versions() -> dict[str, str]:
    """What client and server consist of."""
    names = ("endcap", "nvidia-pytriton", "numpy", "tritonclient", "grpcio", "geventhttpclient")
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in (*names, "aiohttp")},
    }


def _visit(log: _Log, running: Running, first: Answer | None, plan: Plan) -> None:
    """Add a visit to the log, or the problem that there was."""
    job = Job(
        service=running,
        comparison=log.way.comparison,
        name=log.way.name,
        image=str(picture.IMAGE),
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
        **asdict(log.way),
        "outcome": "measured" if measured else "not measured",
        "note": log.problem or log.verified,
        "wire": _medians([visit["wire"] for visit in log.visits]) if measured else None,
        "points": [_medians(each) for each in points] if measured else [],
        "visits": [visit["points"] for visit in log.visits],
    }


def _medians(rows: Sequence[Json]) -> Json:
    """Field by field."""
    return {name: median(row[name] for row in rows) for name in rows[0]}
