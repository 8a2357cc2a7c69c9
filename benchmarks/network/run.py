"""Measurements of the network step: times of single calls, and load at several concurrencies."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnxruntime
from tritonclient import grpc
from tritonclient.utils import InferenceServerException, shared_memory

from benchmarks.network import networks
from benchmarks.timing import Budget, Case, measure
from endcap.server import ServerPorts, ServerSettings, TritonServer

# What an operator could set, by the name in the table; the first is what is set without them.
THREAD_SETTINGS: dict[str, dict[str, int]] = {
    "default": {},
    "all cores, one run at a time": {"max_concurrent_runs": 1},
    "one thread each": {"intra_op_thread_count": 1},
}
BATCHES = (1, 8)
SHAPES = {"sample detector": (3, 640, 640)}
OTHER_SHAPE = (3, networks.IMAGE_SIZE, networks.IMAGE_SIZE)


@dataclass(frozen=True)
class Plan:
    """How much to measure."""

    concurrencies: tuple[int, ...] = (1, 4, 16)
    rounds: int = 5
    seconds: float = 2.0
    step_seconds: float = 12.0


QUICK = Plan(concurrencies=(1, 4), rounds=1, seconds=0.5, step_seconds=1.0)


@dataclass(frozen=True)
class Model:
    """A network as a model of the server."""

    network: str
    setting: str
    name: str
    file: Path

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one image."""
        return SHAPES.get(self.network, OTHER_SHAPE)


def steps(plan: Plan) -> int:
    """Return the number of lines that `run` reports."""
    models = 4 * len(THREAD_SETTINGS)
    return models * len(plan.concurrencies) * plan.rounds + 4 * len(BATCHES)


def run(plan: Plan, folder: Path, done: Callable[[str], None]) -> dict[str, Any]:
    """Measure everything on one server, whose models are written into `folder`."""
    models = _write(folder)
    settings = ServerSettings(
        ports=ServerPorts(http=0, grpc=0, metrics=0), client_shared_memory=True
    )
    with TritonServer(folder / "models", settings) as server:
        authority = f"{settings.host}:{server.ports.grpc}"
        step_rows = [
            _step(each, batch, plan, authority, done)
            for each in models
            if each.setting == "default"
            for batch in BATCHES
        ]
        loads = _loads(models, plan, authority, done)
    return {
        "versions": {"onnxruntime": onnxruntime.__version__},
        "rounds": plan.rounds,
        "seconds": plan.seconds,
        "steps": step_rows,
        "loads": loads,
    }


def _write(folder: Path) -> list[Model]:
    found = []
    for network, file in networks.write_all(folder / "files").items():
        for index, (setting, parameters) in enumerate(THREAD_SETTINGS.items()):
            model = Model(network, setting, f"{network.replace(' ', '_')}_{index}", file)
            version = folder / "models" / model.name / "1"
            version.mkdir(parents=True, exist_ok=True)
            (version / "model.onnx").write_bytes(file.read_bytes())
            lines = ['backend: "endcap_onnx"', "max_batch_size: 16"]
            lines += [
                f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}'
                for key, value in parameters.items()
            ]
            (version.parent / "config.pbtxt").write_text("\n".join(lines) + "\n")
            found.append(model)
    return found


class _Call:
    """Requests for one model whose tensors lie in shared memory, so that little is copied."""

    def __init__(self, authority: str, model: Model, batch: int, key: str) -> None:
        self._client: Any = grpc.InferenceServerClient(authority)
        self._model = model.name
        self._images = _images(model, batch)
        name, size = f"/endcap_bench_{os.getpid()}_{key}", self._images.nbytes
        self._region = shared_memory.create_shared_memory_region(key, name, size)
        shared_memory.set_shared_memory_region(self._region, [self._images])
        self._client.register_system_shared_memory(key, name, size)
        self._key = key
        self._input = grpc.InferInput("images", list(self._images.shape), "FP32")
        self._input.set_shared_memory(key, self._images.nbytes)

    def __call__(self) -> Any:
        return self._client.infer(self._model, [self._input])

    def close(self) -> None:
        """Take the region back, which the server may use for a moment after its response."""
        for pause in (0.01, 0.1, 1.0, 0.0):
            try:
                self._client.unregister_system_shared_memory(self._key)
                break
            except InferenceServerException:
                if not pause:
                    raise
                time.sleep(pause)
        shared_memory.destroy_shared_memory_region(self._region)
        self._client.close()


@contextmanager
def _calls(authority: str, model: Model, batch: int, count: int) -> Iterator[list[_Call]]:
    made: list[_Call] = []
    try:
        for index in range(count):
            made.append(_Call(authority, model, batch, f"{model.name}_{batch}_{index}"))
        yield made
    finally:
        for each in made:
            each.close()


def _step(
    model: Model, batch: int, plan: Plan, authority: str, done: Callable[[str], None]
) -> dict[str, Any]:
    """One call at a time: bare ONNX Runtime, its threads spinning or waiting, and the server.

    The step's own time is the server's statistic: from the tensors of the request to those of the
    response, without their transport. Raises ValueError where the responses differ.
    """
    images = _images(model, batch)
    bare = {
        "spinning": _session(model.file, spin=True),
        "waiting": _session(model.file, spin=False),
    }
    client: Any = grpc.InferenceServerClient(authority)
    with _calls(authority, model, batch, 1) as (call,):
        output = bare["waiting"].get_outputs()[0].name
        expected = bare["waiting"].run(None, {"images": images})[0]
        if not np.array_equal(call().as_numpy(output), expected):
            raise ValueError(f"{model.name} returns other bytes than ONNX Runtime")
        own: list[float] = []

        def send() -> None:
            before = _infer_ns(client, model.name)
            call()
            own.append(_infer_ns(client, model.name) - before)

        cases = {
            "spinning": Case(lambda _: bare["spinning"].run(None, {"images": images})),
            "waiting": Case(lambda _: bare["waiting"].run(None, {"images": images})),
            "request": Case(lambda _: call()),
            "statistic": Case(lambda _: send()),
        }
        times = measure(cases, Budget(plan.step_seconds))
    done(f"{model.network}, batch {batch}")
    return {
        "network": model.network,
        "batch": batch,
        "bare_spinning_ms": times["spinning"].median_ms,
        "bare_waiting_ms": times["waiting"].median_ms,
        "step_ms": median(own) / 1e6,
        "request_ms": times["request"].median_ms,
        "rounds": times["request"].rounds,
    }


def _loads(
    models: Sequence[Model], plan: Plan, authority: str, done: Callable[[str], None]
) -> list[dict[str, Any]]:
    rates: dict[tuple[str, str, int], list[float]] = {}
    for _ in range(plan.rounds):
        for concurrency in plan.concurrencies:
            for model in models:
                with _calls(authority, model, 1, concurrency) as calls:
                    rate = _rate(calls, plan.seconds)
                rates.setdefault((model.network, model.setting, concurrency), []).append(rate)
                done(f"{model.network}, {model.setting}, concurrency {concurrency}")
    return [asdict(Load(*key, images_per_second=median(values))) for key, values in rates.items()]


@dataclass(frozen=True)
class Load:
    """One network with one setting at one concurrency; the median of the rounds."""

    network: str
    setting: str
    concurrency: int
    images_per_second: float


def _rate(calls: Sequence[_Call], seconds: float) -> float:
    """Images per second by a closed loop of so many callers, after a quarter's warm-up."""
    begin = time.perf_counter() + seconds / 4
    end = begin + seconds

    def work(call: _Call) -> float:
        processed = 0.0
        while (start := time.perf_counter()) < end:
            call()
            stop = time.perf_counter()
            inside = min(stop, end) - max(start, begin)
            processed += max(inside, 0.0) / (stop - start)
        return processed

    with ThreadPoolExecutor(len(calls)) as pool:
        return sum(pool.map(work, calls)) / seconds


def _images(model: Model, batch: int) -> Any:
    random = np.random.default_rng(1)
    return random.random((batch, *model.shape), dtype=np.float32)


def _session(file: Path, *, spin: bool) -> Any:
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.intra_op.allow_spinning", "1" if spin else "0")
    options.add_session_config_entry("session.force_spinning_stop", "1")  # so as not to disturb
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def _infer_ns(client: Any, name: str) -> float:
    statistics = client.get_inference_statistics(name, as_json=False)
    return float(statistics.model_stats[0].inference_stats.compute_infer.ns)
