"""Starts the server, verifies each pair of models, and loads the two alternately."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from statistics import median
from typing import Any

from tritonclient import grpc

from benchmarks.paths import LOAD_GENERATOR, SERVER_REPOSITORY
from benchmarks.server import repository, verify
from benchmarks.server.load_generator import Load, LoadGenerator, UnsteadyError, Window
from benchmarks.server.tasks import Task
from endcap.server import ServerPorts, ServerSettings, TritonServer


@dataclass(frozen=True)
class Plan:
    """How much to measure."""

    concurrencies: tuple[int, ...]
    repeats: int
    window: Window


@dataclass(frozen=True)
class Point:
    """Both models at one concurrency: medians over the repeats, and every repeat."""

    concurrency: int
    ours: Load
    theirs: Load
    ours_runs: list[Load]
    theirs_runs: list[Load]


@dataclass(frozen=True)
class ServerComparison:
    """One task: how its models were verified, and a point for each concurrency.

    Attributes:
        problems: Why points are missing: all of them where the models answer differently.
    """

    name: str
    ours: str
    theirs: str
    encoded_bytes: int
    verified: str
    points: list[Point]
    problems: list[str]


def run(wanted: Sequence[Task], plan: Plan, done: Callable[[str], None]) -> list[ServerComparison]:
    """All tasks on one server; `done` is called after each run of the load generator."""
    with _server() as authority:
        generator = LoadGenerator(LOAD_GENERATOR, authority)
        client: Any = grpc.InferenceServerClient(authority)
        return [_comparison(task, plan, client, generator, done) for task in wanted]


def versions() -> dict[str, str]:
    """What the server's side consists of."""
    packages = ("endcap", "nvidia-pytriton", "numpy", "opencv-python-headless", "onnxruntime")
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
        "perf_analyzer": "2.40.0",
    }


def _comparison(
    task: Task,
    plan: Plan,
    client: Any,
    generator: LoadGenerator,
    done: Callable[[str], None],
) -> ServerComparison:
    encoded = task.image.read_bytes()
    empty = ServerComparison(task.name, task.ours, task.theirs, len(encoded), "not", [], [])
    try:
        verified = task.verify(client, task.ours, task.theirs, encoded)
    except verify.VerificationError as error:
        return replace(empty, problems=[str(error)])
    points, problems = [], []
    for concurrency in plan.concurrencies:
        try:
            points.append(_point(task, encoded, concurrency, plan, generator, done))
        except UnsteadyError as error:
            problems.append(f"concurrency {concurrency}: {error}")
    return replace(empty, verified=verified, points=points, problems=problems)


def _point(
    task: Task,
    encoded: bytes,
    concurrency: int,
    plan: Plan,
    generator: LoadGenerator,
    done: Callable[[str], None],
) -> Point:
    runs: dict[str, list[Load]] = {task.ours: [], task.theirs: []}
    for _ in range(plan.repeats):
        for model, measured in runs.items():
            once = partial(generator.run, model, encoded, concurrency, plan.window)
            measured.append(_steady(partial(once, task.output_bytes)))
            done(f"{model}, concurrency {concurrency}")
    ours, theirs = runs.values()
    return Point(concurrency, _medians(ours), _medians(theirs), ours, theirs)


def _steady(once: Callable[[], Load]) -> Load:
    """One more try for a run that something disturbed."""
    try:
        return once()
    except UnsteadyError:
        return once()


def _medians(loads: Sequence[Load]) -> Load:
    return Load(
        inferences_per_second=median(load.inferences_per_second for load in loads),
        p50_ms=median(load.p50_ms for load in loads),
        p99_ms=median(load.p99_ms for load in loads),
    )


@contextmanager
def _server() -> Iterator[str]:
    """A server on free ports of the loopback; give the authority of its gRPC endpoint."""
    repository.write(SERVER_REPOSITORY)
    ports = ServerPorts(http=0, grpc=0, metrics=0)
    settings = ServerSettings(ports=ports, client_shared_memory=True)
    with TritonServer(SERVER_REPOSITORY, settings) as server:
        yield f"{settings.host}:{server.ports.grpc}"
