"""Load a Triton server, a FastAPI service and one process; writes benchmarks/results/server.json.

perf_analyzer loads the models `preprocess` and `detect` and their counterparts of OpenCV and NumPy
in the Python backend. The FastAPI service and the process without a server, whose requests
perf_analyzer cannot send, have a closed loop here. It runs in the environment of the Triton server.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
from tritonclient import grpc

import endcap
from benchmarks import BUILD, ROOT, machine, results
from benchmarks.cpu.peers import SIZE
from benchmarks.cpu.tensors import compare
from benchmarks.results import Table
from benchmarks.server.opencv_service import IOU_THRESHOLD, NUM_CLASSES, SCORE_THRESHOLD
from benchmarks.server.perf_analyzer import LoadError, LoadGenerator, UnsteadyError, Window
from benchmarks.timing import cpu_count, summarize
from endcap.server import ServerError, ServerPorts, ServerSettings, TritonServer

SHIPPED = ROOT / "model_repository"
NETWORK = SHIPPED / "detector" / "1" / "model.onnx"
SAMPLE = SHIPPED / "detect" / "samples" / "shapes_1920x1080.jpg"
OPENCV_MODELS = Path(__file__).resolve().parent / "models"
PHOTOGRAPHS = ("640x427 detailed", "1920x1080")
_MODELS = ("preprocess", "detector", "postprocess", "detect", "detector_python")
_TENSOR_BYTES = 3 * SIZE * SIZE * 4
# Boxes and scores come through one network from tensors that may differ by a step here and there.
BOX_PIXELS = 0.5
SCORE = 1e-2
_METRICS = ("images/s", "p50 ms", "p99 ms", "CPU ms an image")
_TICKS = os.sysconf("SC_CLK_TCK")


class Detections(NamedTuple):
    """The detections of one image, best first."""

    boxes: Any
    scores: Any
    classes: Any


@dataclass(frozen=True)
class Plan:
    """How much to measure."""

    concurrencies: tuple[int, ...]
    repeats: int
    window: Window
    seconds: float  # of the closed loop


COMPLETE = Plan((1, 4, 16), 3, Window(1000, max_trials=10, stability_percent=30), seconds=4.0)
QUICK = Plan((4,), 1, Window(500, max_trials=10, stability_percent=60), seconds=1.0)


@dataclass(frozen=True)
class Pipeline:
    """One way to do a task.

    Attributes:
        respond: The tensor or the detections of an image.
        load: Returns the figures of _METRICS at a concurrency.
    """

    respond: Callable[[bytes], Any]
    load: Callable[[bytes, int, Plan], tuple[float, ...]]


class Triton:
    """Models of a running server."""

    def __init__(self, server: TritonServer) -> None:
        authority = server.grpc_url.removeprefix("grpc://")
        self._generator = LoadGenerator(authority)
        self._client: Any = grpc.InferenceServerClient(authority)
        assert server.pid is not None  # it has started
        self._pid = server.pid

    def tensor(self, model: str) -> Pipeline:
        """Return the pipeline of a model from `encoded` to `images`."""
        return self._pipeline(model, lambda got: got.as_numpy("images")[0], _TENSOR_BYTES)

    def detections(self, model: str) -> Pipeline:
        """Return the pipeline of a model from `encoded` to detections."""
        names = ("detection_boxes", "detection_scores", "detection_classes")

        def read(got: Any) -> Detections:
            count = int(got.as_numpy("num_detections")[0, 0])
            return Detections(*(got.as_numpy(name)[0, :count] for name in names))

        return self._pipeline(model, read, 0)

    def _pipeline(self, model: str, read: Callable[[Any], Any], output_bytes: int) -> Pipeline:
        def respond(encoded: bytes) -> Any:
            image = grpc.InferInput("encoded", [1, 1], "BYTES")
            image.set_data_from_numpy(np.array([[encoded]], np.object_))
            return read(self._client.infer(model, [image]))

        def load(encoded: bytes, concurrency: int, plan: Plan) -> tuple[float, ...]:
            before = cpu_seconds(self._pid), self._inferences(model)
            try:
                found = self._generator.run(model, encoded, concurrency, plan.window, output_bytes)
            except UnsteadyError:  # something else ran on the machine: once more
                before = cpu_seconds(self._pid), self._inferences(model)
                found = self._generator.run(model, encoded, concurrency, plan.window, output_bytes)
            spent = cpu_seconds(self._pid) - before[0]
            cpu_ms = 1e3 * spent / (self._inferences(model) - before[1])
            return found.inferences_per_second, found.p50_ms, found.p99_ms, cpu_ms

        return Pipeline(respond, load)

    def _inferences(self, model: str) -> int:
        statistics = self._client.get_inference_statistics(model).model_stats[0]
        return int(statistics.inference_stats.success.count)


def fastapi(port: int, pid: int) -> Pipeline:
    """Return the pipeline of the FastAPI service on a port of the loopback."""
    local = threading.local()

    def respond(encoded: bytes) -> Detections:
        if not hasattr(local, "connection"):
            local.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        local.connection.request("POST", "/detect", encoded)
        response = local.connection.getresponse()
        body = response.read()
        if response.status != 200:
            raise LoadError(f"the FastAPI service responded with {response.status}: {body!r}")
        return Detections(*map(np.asarray, json.loads(body).values()))

    return Pipeline(respond, lambda *given: closed_loop(respond, pid, *given))


def in_process() -> Pipeline:
    """Return endcap around onnxruntime without a server; a thread for each CPU works at a time.

    The network has all CPUs where one request is in flight, else one.
    """
    preprocess = endcap.Preprocessor(preset="ultralytics", size=SIZE)
    postprocess = endcap.Postprocessor(
        "yolov8", NUM_CLASSES, score_threshold=SCORE_THRESHOLD, iou_threshold=IOU_THRESHOLD
    )
    alone, shared = _session(0), _session(1)
    workers = ThreadPoolExecutor(cpu_count())

    def work(encoded: bytes, session: Any) -> Detections:
        made: Any = preprocess(encoded)
        (head,) = session.run(["head"], {"images": made.images})
        found: Any = postprocess(head, made.geometry)[0]
        return Detections(found.boxes, found.scores, found.class_ids)

    def load(encoded: bytes, concurrency: int, plan: Plan) -> tuple[float, ...]:
        session = alone if concurrency == 1 else shared

        def respond(encoded: bytes) -> Detections:
            return workers.submit(work, encoded, session).result()

        return closed_loop(respond, os.getpid(), encoded, concurrency, plan)

    return Pipeline(partial(work, session=alone), load)


def _session(threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(NETWORK, options, providers=["CPUExecutionProvider"])


def closed_loop(
    respond: Callable[[bytes], Any], pid: int, encoded: bytes, concurrency: int, plan: Plan
) -> tuple[float, ...]:
    """Return the figures of `concurrency` threads, each with its next request after a response.

    A quarter of the time comes before, to warm up. A request that lies partly in the measured time
    counts by that part, since many may be completed at once. CPU time is that of the process `pid`
    and its children.

    Raises:
        LoadError: A request failed.
    """
    spans: list[tuple[float, float]] = []
    failures: list[BaseException] = []
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            begin = time.perf_counter()
            try:
                respond(encoded)
            except Exception as error:
                failures.append(error)
                return
            spans.append((begin, time.perf_counter()))

    threads = [threading.Thread(target=work) for _ in range(concurrency)]
    for thread in threads:
        thread.start()
    time.sleep(plan.seconds / 4)
    start, cpu = time.perf_counter(), cpu_seconds(pid)
    time.sleep(plan.seconds)
    end, cpu = time.perf_counter(), cpu_seconds(pid) - cpu
    stop.set()
    for thread in threads:
        thread.join()
    if failures:
        raise LoadError(f"a request failed: {failures[0]}") from failures[0]
    took = [1e3 * (last - first) for first, last in spans if start <= first < end]
    if not took:
        raise LoadError(f"no request began within {plan.seconds:g} s")
    p50, p99 = np.percentile(took, (50, 99))
    parts = ((min(last, end) - max(first, start)) / (last - first) for first, last in spans)
    count = sum(part for part in parts if part > 0)
    return count / (end - start), float(p50), float(p99), 1e3 * cpu / count


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and of its descendants that still run."""
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):  # it has ended meanwhile
                numbers = (entry / "stat").read_text().rpartition(")")[2].split()
                children.setdefault(int(numbers[1]), []).append(int(entry.name))
                ticks[int(entry.name)] = int(numbers[11]) + int(numbers[12])
    total, waiting = 0, [pid]
    while waiting:
        each = waiting.pop()
        total += ticks.get(each, 0)
        waiting += children.get(each, [])
    return total / _TICKS


def verify(response: Any, first: Any) -> str:
    """Compare a pipeline's response with that of endcap's; return a note.

    Raises:
        LoadError: They differ by more than OpenCV's arithmetic explains.
    """
    if not isinstance(first, Detections):
        agreement = compare(response, first, None)
        if not agreement.passed:
            raise LoadError(f"not verified: {agreement.text}")
        return agreement.text
    if len(first.scores) == 0 or not np.array_equal(response.classes, first.classes):
        raise LoadError(f"not verified: {len(response.scores)} detections, or other classes")
    pixels = float(np.abs(np.subtract(response.boxes, first.boxes)).max())
    score = float(np.abs(np.subtract(response.scores, first.scores)).max())
    if pixels > BOX_PIXELS or score > SCORE:
        raise LoadError(f"not verified: boxes differ by {pixels:.2g} pixels, scores by {score:.2g}")
    return f"same {len(first.scores)} detections, boxes within {pixels:.2g} pixels"


def measure(
    name: str,
    image: Path,
    pipelines: Mapping[str, Pipeline | str],
    plan: Plan,
    say: Callable[[str], None],
) -> list[Table]:
    """Return a table for each metric; the first pipeline is what the others are verified against.

    Args:
        name: The task.
        image: What is sent.
        pipelines: By name; a text says why one cannot be measured.
        plan: How much to measure.
        say: Is called after each run.
    """
    encoded = image.read_bytes()
    tables = [Table(name, metric, list(pipelines)) for metric in _METRICS]
    ready: dict[str, Pipeline] = {}
    first: Any = None
    for key, pipeline in pipelines.items():
        try:
            if isinstance(pipeline, str):
                raise LoadError(pipeline)
            response = pipeline.respond(encoded)
            first = response if first is None else first
            tables[0].notes[key] = verify(response, first)
            ready[key] = pipeline
        except LoadError as error:
            tables[0].notes[key] = str(error)
    for concurrency in plan.concurrencies:
        runs: dict[str, list[tuple[float, ...]]] = {key: [] for key in pipelines}
        for _ in range(plan.repeats):
            for key, pipeline in ready.items():
                try:
                    runs[key].append(pipeline.load(encoded, concurrency, plan))
                except UnsteadyError as error:
                    tables[0].notes[f"{key}, {concurrency} at once"] = str(error)
                say(f"{name}: {key}, {concurrency} at once")
        for index, table in enumerate(tables):
            cells = [
                summarize([each[index] for each in own]) if own else None for own in runs.values()
            ]
            table.rows[f"{concurrency} at once"] = cells
    for table in (tables[0], tables[3]):
        table.drawn = list(table.rows)[-1:]
    return tables


def write_repository(folder: Path) -> Path:
    """Replace `folder` by the shipped models and those of OpenCV, with an instance for each CPU."""
    shutil.rmtree(folder, ignore_errors=True)
    left_out = shutil.ignore_patterns("samples", "__pycache__", "README.md")
    for source in (*(SHIPPED / name for name in _MODELS), *OPENCV_MODELS.iterdir()):
        shutil.copytree(source, folder / source.name, ignore=left_out)
        (folder / source.name / "1").mkdir(exist_ok=True)
        config = folder / source.name / "config.pbtxt"
        config.write_text(config.read_text().replace("@CPUS@", str(cpu_count())))
    return folder


@contextmanager
def fastapi_service(python: Path) -> Iterator[Pipeline | str]:
    """Yield the service, run by a Python that has FastAPI, or why it does not run."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = int(listener.getsockname()[1])
    command = [str(python), "-m", "benchmarks.server.opencv_service", str(NETWORK), str(port)]
    log = BUILD / "bench-fastapi.log"
    with log.open("w") as output:
        process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output)
    try:
        problem = _wait_until_ready(process, port)
        last = (log.read_text().strip().splitlines() or ["no output"])[-1]
        yield f"{problem}: {last}" if problem else fastapi(port, process.pid)
    finally:
        process.terminate()
        process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes], port: int) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for _ in range(600):
        if process.poll() is not None:
            return "the FastAPI service ended"
        with suppress(OSError), opener.open(f"http://127.0.0.1:{port}/openapi.json", timeout=5):
            return ""
        time.sleep(0.1)
    return "the FastAPI service did not respond within 60 s"


def run(photographs: Mapping[str, Path], python: Path, plan: Plan) -> list[Table]:
    """Return all tables.

    Args:
        photographs: For `preprocess`, by name.
        python: The Python of the FastAPI service.
        plan: How much to measure.
    """
    settings = ServerSettings(
        ports=ServerPorts(http=0, grpc=0, metrics=0), client_shared_memory=True
    )
    repository = write_repository(BUILD / "bench-models")
    runs = (2 * len(photographs) + 4) * len(plan.concurrencies) * plan.repeats
    say = results.announce(runs)
    with TritonServer(repository, settings) as server, fastapi_service(python) as service:
        triton = Triton(server)
        preprocess = {
            "endcap": triton.tensor("preprocess"),
            "Python model, OpenCV": triton.tensor("preprocess_opencv"),
        }
        detect: dict[str, Pipeline | str] = {
            "endcap": triton.detections("detect"),
            "endcap, one process": in_process(),
            "Python models, OpenCV": triton.detections("detect_opencv"),
            "FastAPI, OpenCV": service,
        }
        tables = []
        for name, photograph in photographs.items():
            tables += measure(f"preprocess, {name}", photograph, preprocess, plan, say)
        return tables + measure("detect, 1920x1080", SAMPLE, detect, plan, say)


def main() -> None:
    """Measure, write and show."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.server", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="rough figures, in build/bench-quick")
    parser.add_argument(
        "--bench-python",
        type=Path,
        default=BUILD / "bench-venv" / "bin" / "python",
        help="of the environment that has FastAPI, the photographs and matplotlib",
    )
    arguments = parser.parse_args()
    plan = QUICK if arguments.quick else COMPLETE
    names = PHOTOGRAPHS[:1] if arguments.quick else PHOTOGRAPHS
    about = machine.describe()
    try:
        make = [str(arguments.bench_python), "-m", "benchmarks.images", *names]
        paths = subprocess.run(make, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
        photographs = dict(zip(names, map(Path, paths.splitlines()), strict=True))
        tables = run(photographs, arguments.bench_python, plan)
    except (LoadError, ServerError, OSError, subprocess.CalledProcessError) as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        raise SystemExit(1) from error
    path = results.write("server", about, tables, quick=arguments.quick)
    show = [str(arguments.bench_python), "-m", "benchmarks.results", str(path)]
    subprocess.run(show, cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
