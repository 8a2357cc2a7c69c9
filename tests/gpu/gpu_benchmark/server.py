"""Pictures per second that a real server preprocesses, on the GPU and on the CPU."""

from __future__ import annotations

import multiprocessing
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import endcap
from gpu_benchmark.inputs import HEIGHT, SIZE, WIDTH, files
from gpu_benchmark.rows import Results, Row
from gpu_benchmark.triton import (
    KINDS,
    Connection,
    model_of,
    request_bytes,
    running,
    write_repository,
)

CONCURRENCIES = (1, 16, 64)
WORK = f"server: {WIDTH}x{HEIGHT} JPEG -> {SIZE}x{SIZE}"
_PROCESSES = 8  # of clients
_WARM_UP_SECONDS = 1.0
_SECONDS = 4.0
_DIFFERENT = 8


def _check(port: int, model: str) -> None:
    """The tensor and the geometry of one picture are the CPU's."""
    expected = endcap.preprocess(files()[0])
    answer = Connection(port).exchange(request_bytes(model, files()[0], ["images", "geometry"]))
    values = np.frombuffer(answer.tensors, np.float32)
    np.testing.assert_array_equal(values[: expected.images.size], expected.images.ravel())
    np.testing.assert_array_equal(values[expected.images.size :], expected.geometry.ravel())


def _client(port: int, requests: Sequence[bytes], connections: int, counts: object) -> None:
    """Sends on several connections for a while; puts how many answers came, or what went wrong."""
    start = time.monotonic() + _WARM_UP_SECONDS
    end = start + _SECONDS
    totals = [0] * connections
    errors: list[str] = []

    def send(number: int) -> None:
        turn = number
        try:
            connection = Connection(port)
            while (now := time.monotonic()) < end:
                connection.exchange(requests[turn % len(requests)])
                turn += 1
                totals[number] += start <= now
        except (OSError, RuntimeError) as error:
            errors.append(str(error))

    threads = [threading.Thread(target=send, args=(number,)) for number in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts.put(errors[0] if errors else sum(totals))  # type: ignore[attr-defined]


def images_per_second(port: int, model: str, concurrency: int) -> float:
    """Answers per second to so many connections; only geometry and status travel back."""
    requests = [request_bytes(model, file, ["geometry", "status"]) for file in files()[:_DIFFERENT]]
    processes = min(_PROCESSES, concurrency)
    spawn = multiprocessing.get_context("spawn")  # this process has threads and a GPU
    counts = spawn.Queue()
    clients = [
        spawn.Process(target=_client, args=(port, requests, concurrency // processes, counts))
        for _ in range(processes)
    ]
    for client in clients:
        client.start()
    answered = [counts.get(timeout=60) for _ in clients]
    for client in clients:
        client.join()
    if errors := [each for each in answered if isinstance(each, str)]:
        raise RuntimeError(errors[0])
    return float(sum(answered)) / _SECONDS


def measure_server(
    server: Path,
    results: Results,
    kinds: Sequence[str] = KINDS,
    concurrencies: Sequence[int] = CONCURRENCIES,
) -> None:
    """One model for each kind of instance, one after the other."""
    with tempfile.TemporaryDirectory(prefix="endcap-gpu-server-") as folder:
        repository = Path(folder) / "models"
        write_repository(repository, kinds)
        with running(server, repository) as port:
            for kind in kinds:
                with results.part(f"{WORK}, {kind}"):
                    _check(port, model_of(kind))
                    for concurrency in concurrencies:
                        value = images_per_second(port, model_of(kind), concurrency)
                        who, note = f"{kind}, {concurrency} at once", "no tensor travels back"
                        results.rows.append(Row(WORK, who, value, "images/s", note))
