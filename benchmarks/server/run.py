"""Starts the server, verifies each pair of models, and loads the two alternately."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from tritonclient import grpc

from benchmarks.paths import LOAD_GENERATOR, SERVER_REPOSITORY
from benchmarks.server import repository, verify
from benchmarks.server.load_generator import Load, LoadGenerator, UnsteadyError, Window
from endcap.server import ServerPorts, ServerSettings, TritonServer

_DETECT_IMAGE = repository.SHIPPED / "detect" / "samples" / "shapes_1920x1080.jpg"
_TENSOR_BYTES = 3 * 640 * 640 * 4
_DETECTIONS_BYTES = 300 * 4 * 4


@dataclass(frozen=True)
class Plan:
    """How much to measure."""

    concurrencies: tuple[int, ...]
    repeats: int
    window: Window


@dataclass(frozen=True)
class Task:
    """Two models that answer the same, and the image they get."""

    name: str
    ours: str
    theirs: str
    image: Path
    output_bytes: int
    verify: Callable[[Any, str, str, bytes], str]


@dataclass(frozen=True)
class Point:
    """Both models at one concurrency: medians over the repeats."""

    concurrency: int
    ours: Load
    theirs: Load

    @property
    def gain(self) -> float:
        """How many times the throughput."""
        return self.ours.inferences_per_second / self.theirs.inferences_per_second


@dataclass(frozen=True)
class ServerContest:
    """One task: verified how, and a point for each concurrency."""

    name: str
    ours: str
    theirs: str
    encoded_bytes: int
    verified: str
    points: list[Point]


def tasks(images: Sequence[Path]) -> list[Task]:
    """Preprocessing of each image, and the whole ensemble on a picture with objects in it."""
    found = [
        Task(
            f"preprocess, {image.stem.replace('_', ' ')}",
            "preprocess",
            "preprocess_python",
            image,
            _TENSOR_BYTES,
            verify.tensors,
        )
        for image in images
    ]
    detect = Task(
        "detect, 1920x1080 with shapes",
        "detect",
        "detect_python",
        _DETECT_IMAGE,
        _DETECTIONS_BYTES,
        verify.detections,
    )
    return [*found, detect]


def run(wanted: Sequence[Task], plan: Plan, done: Callable[[str], None]) -> list[ServerContest]:
    """All tasks on one server; `done` hears of each run of the load generator."""
    with _server() as authority:
        generator = LoadGenerator(LOAD_GENERATOR, authority)
        client: Any = grpc.InferenceServerClient(authority)
        return [_contest(task, plan, client, generator, done) for task in wanted]


def versions() -> dict[str, str]:
    """What the server's side consists of."""
    packages = ("endcap", "nvidia-pytriton", "numpy", "opencv-python-headless", "onnxruntime")
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
        "perf_analyzer": "2.40.0",
    }


def _contest(
    task: Task,
    plan: Plan,
    client: Any,
    generator: LoadGenerator,
    done: Callable[[str], None],
) -> ServerContest:
    encoded = task.image.read_bytes()
    verified = task.verify(client, task.ours, task.theirs, encoded)
    points = []
    for concurrency in plan.concurrencies:
        loads: dict[str, list[Load]] = {task.ours: [], task.theirs: []}
        for _ in range(plan.repeats):
            for model, measured in loads.items():
                once = partial(generator.run, model, encoded, concurrency, plan.window)
                measured.append(_steady(partial(once, task.output_bytes)))
                done(f"{model}, concurrency {concurrency}")
        both = [_medians(measured) for measured in loads.values()]
        points.append(Point(concurrency, *both))
    return ServerContest(task.name, task.ours, task.theirs, len(encoded), verified, points)


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
    """A server on free ports of the loopback; gives the authority of its gRPC endpoint."""
    repository.write(SERVER_REPOSITORY)
    settings = ServerSettings(ports=ServerPorts(http=0, grpc=0, metrics=0))
    with TritonServer(SERVER_REPOSITORY, settings) as server:
        yield f"{settings.host}:{server.ports.grpc}"
