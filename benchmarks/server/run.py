"""python -m benchmarks.server.run OUTPUT.json IMAGE... [--quick]: the server's part as JSON.

Starts the server, verifies each pair of models, and loads the two alternately.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from tritonclient import grpc

from benchmarks.paths import LOAD_GENERATOR, SERVER_REPOSITORY
from benchmarks.server import repository, verify
from benchmarks.server.load_generator import Load, LoadError, LoadGenerator, UnsteadyError, Window
from endcap.server import ServerError, ServerPorts, ServerSettings, TritonServer

_DETECT_IMAGE = repository.SHIPPED / "detect" / "samples" / "shapes_1920x1080.jpg"
_TENSOR_BYTES = 3 * 640 * 640 * 4
_DETECTIONS_BYTES = 300 * 4 * 4


@dataclass(frozen=True)
class Task:
    """Two models with the same outputs, and the image they get."""

    name: str
    ours: str
    theirs: str
    image: Path
    output_bytes: int
    verify: Callable[[Any, str, str, bytes], str]


def tasks(images: Sequence[Path]) -> list[Task]:
    """Preprocessing of each image, and the whole ensemble on a picture with objects in it."""
    found = [
        Task(
            f"preprocess, {image.stem.replace('_', ' ')}",
            "preprocess",
            "preprocess_opencv",
            image,
            _TENSOR_BYTES,
            verify.tensors,
        )
        for image in images
    ]
    detect = Task(
        "detect, 1920x1080 with shapes",
        "detect",
        "detect_opencv",
        _DETECT_IMAGE,
        _DETECTIONS_BYTES,
        verify.detections,
    )
    return [*found, detect]


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
        problems: Why points are missing: all of them where the models' outputs differ.
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
    """Return the versions on the server's side."""
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
    """Yield a server on free ports of the loopback; give the authority of its gRPC endpoint."""
    repository.write(SERVER_REPOSITORY)
    ports = ServerPorts(http=0, grpc=0, metrics=0)
    settings = ServerSettings(ports=ports, client_shared_memory=True)
    with TritonServer(SERVER_REPOSITORY, settings) as server:
        yield f"{settings.host}:{server.ports.grpc}"


COMPLETE = Plan(
    concurrencies=(1, 4, 16),
    repeats=2,
    window=Window(interval_ms=1000, most_trials=12, stability_percent=30),
)
QUICK = Plan(
    concurrencies=(4,),
    repeats=1,
    window=Window(interval_ms=500, most_trials=10, stability_percent=60),
)


def main() -> int:
    """Run and write the figures; return 1, with a message on stderr, where it cannot."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.server.run")
    parser.add_argument("output", type=Path)
    parser.add_argument("images", type=Path, nargs="+")
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    plan = QUICK if arguments.quick else COMPLETE
    wanted = tasks(arguments.images)
    print(len(wanted) * len(plan.concurrencies) * plan.repeats * 2, flush=True)
    try:
        comparisons = run(wanted, plan, lambda what: print(what, flush=True))
    except (LoadError, ServerError) as error:
        print(error, file=sys.stderr)
        return 1
    result = {"versions": versions(), "comparisons": [asdict(each) for each in comparisons]}
    arguments.output.write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
