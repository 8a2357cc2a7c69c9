"""Images per second through both ends of a pipeline in a server, on the GPU and on the CPU."""

from __future__ import annotations

import multiprocessing
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from gpu_check.records import Records, Row

import endcap
from gpu_benchmark.gpus import UnavailableError
from gpu_benchmark.inputs import Sizes, files
from gpu_benchmark.triton import (
    PIPELINES,
    Connection,
    Pipeline,
    Server,
    request_bytes,
    running,
    write_repository,
)

_PROCESSES = 8  # of clients
_WARM_UP_SECONDS = 0.7
_DIFFERENT = 8
_OUTPUTS = ["geometry", "num_detections"]
_NEAR_JPEG = 6.01 / 255  # nvJPEG's, as in preprocess.py


def measure_server(records: Records, sizes: Sizes, server: Path, logs: Path) -> None:
    """Measure one pipeline after the other, at each number of requests in flight.

    Args:
        records: gets the rows and checks.
        sizes: of the files and of the load.
        server: folder with bin/ and lib/.
        logs: folder that gets tritonserver.log.
    """
    work = f"server: {sizes.width}x{sizes.height} JPEG -> 640x640 -> detections"
    batch = files(sizes.height, sizes.width, sizes.batch)[:_DIFFERENT]
    with tempfile.TemporaryDirectory(prefix="endcap-gpu-server-") as folder:
        repository = Path(folder) / "models"
        write_repository(repository, PIPELINES)
        log = logs / "tritonserver.log"
        with running(server, repository, log, gpu=not records.emulated) as started:
            missing = started.unavailable()
            for pipeline in PIPELINES:
                # The server itself refuses KIND_GPU where the driver is not NVIDIA's.
                optional = (UnavailableError,) if records.emulated else ()
                with records.part(f"{work}, {pipeline.name}", optional):
                    if reason := missing.get(pipeline.steps[0]):
                        raise UnavailableError(f"{pipeline.steps[0]} was not loaded: {reason}")
                    _measure(records, sizes, started, pipeline, work, batch)


def _measure(
    records: Records,
    sizes: Sizes,
    server: Server,
    pipeline: Pipeline,
    work: str,
    batch: Sequence[bytes],
) -> None:
    by = f"endcap, {pipeline.kind}, {pipeline.decode}"
    kind = "near the CPU's" if pipeline.decode == "fast" else "equals the CPU's"
    with records.check(f"{work}, {pipeline.name}: the tensor {kind}"):
        _check_tensor(server.http, pipeline, batch[0])
    for concurrency in sizes.concurrencies:
        value = images_per_second(server.http, pipeline.name, concurrency, batch, sizes.seconds)
        metric = f"throughput at {concurrency}"
        notes = "requests in flight; the images stay in the server"
        records.rows.append(Row(work, by, metric, value, "images/s", notes))
        records.write()
    for step in pipeline.steps:
        mean = server.mean_batch(step)
        records.rows.append(Row(work, by, f"mean batch of {step}", mean, "requests"))
    with records.check(f"{work}, {pipeline.name}: no tensor spills out of GPU memory"):
        for stage, step in zip(("preprocess", "postprocess"), pipeline.steps, strict=True):
            spills = server.metric(f"endcap_{stage}_spills_total", step)
            records.rows.append(Row(work, by, f"spills of {step}", spills, "outputs"))
            if spills:
                raise AssertionError(f"{step}: {spills:g} outputs had no GPU memory")


def _check_tensor(port: int, pipeline: Pipeline, file: bytes) -> None:
    expected = endcap.preprocess(file)
    request = request_bytes(pipeline.steps[0], file, ["images", "geometry"])
    values = np.frombuffer(Connection(port).exchange(request), np.float32)
    images, geometry = np.split(values, [expected.images.size])
    np.testing.assert_array_equal(geometry, expected.geometry.ravel())
    if pipeline.decode == "fast":
        np.testing.assert_allclose(images, expected.images.ravel(), rtol=0, atol=_NEAR_JPEG)
    else:
        np.testing.assert_array_equal(images, expected.images.ravel())


def _client(
    port: int, requests: Sequence[bytes], connections: int, seconds: float, counts: object
) -> None:
    """Send on several connections for a while; put the number of responses, or an error."""
    start = time.monotonic() + _WARM_UP_SECONDS
    end = start + seconds
    totals = [0] * connections
    errors: list[str] = []

    def send(number: int) -> None:
        turn = number
        try:
            connection = Connection(port)
            while True:
                connection.exchange(requests[turn % len(requests)])
                turn += 1
                if (now := time.monotonic()) >= end:
                    return
                totals[number] += now >= start
        except (OSError, RuntimeError) as error:
            errors.append(str(error))

    threads = [threading.Thread(target=send, args=(number,)) for number in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts.put(errors[0] if errors else sum(totals))  # type: ignore[attr-defined]


def images_per_second(
    port: int, model: str, concurrency: int, batch: Sequence[bytes], seconds: float
) -> float:
    """Return the responses per second on so many connections.

    Raises:
        RuntimeError: a request failed.
    """
    requests = [request_bytes(model, file, _OUTPUTS, with_head=True) for file in batch]
    processes = min(_PROCESSES, concurrency)
    spawn = multiprocessing.get_context("spawn")  # this process has threads and a GPU
    counts = spawn.Queue()
    clients = [
        spawn.Process(
            target=_client, args=(port, requests, concurrency // processes, seconds, counts)
        )
        for _ in range(processes)
    ]
    for client in clients:
        client.start()
    counted = [counts.get(timeout=30 + seconds) for _ in clients]
    for client in clients:
        client.join()
    if errors := [each for each in counted if isinstance(each, str)]:
        raise RuntimeError(errors[0])
    return float(sum(counted)) / seconds
