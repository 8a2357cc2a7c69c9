"""The load generator of the benchmark of the pipelines, and what it reads of processes."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from aiohttp import web

from benchmarks import closed_loop
from benchmarks.pipelines import load
from benchmarks.pipelines.responses import Response
from benchmarks.pipelines.services import Running

RESPONSE = Response([[1.0, 2.0, 3.0, 4.0]], [0.5], [2], ["red"], [0.75])


@pytest.fixture
def busy_parent() -> Iterator[int]:
    """A process that waits for a child that computes."""
    child = "while True: pass"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with subprocess.Popen([sys.executable, "-c", parent], start_new_session=True) as process:
        yield process.pid
        os.killpg(process.pid, 9)


def test_cpu_time_and_memory_are_those_of_all_processes(busy_parent: int) -> None:
    deadline = time.monotonic() + 30
    while closed_loop.footprint(busy_parent).processes < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    before = closed_loop.cpu_seconds(busy_parent)
    while closed_loop.cpu_seconds(busy_parent) < before + 0.1:  # the parent itself only waits
        assert time.monotonic() < deadline
        time.sleep(0.05)
    found = closed_loop.footprint(busy_parent)
    assert found.memory_bytes > 2**20
    assert (found.processes, found.python_instances, found.shared_memory_bytes) == (2, 0, 0)


class Service:
    """Responses POST /detect after a while, and counts how many requests are there at once."""

    def __init__(self, given: list[Response], takes_s: float = 0.02) -> None:
        self.responses = given
        self.takes_s = takes_s
        self.now = 0
        self.most = 0

    async def detect(self, request: web.Request) -> web.Response:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(self.takes_s)
        self.now -= 1
        response = self.responses.pop(0) if len(self.responses) > 1 else self.responses[0]
        return web.json_response(asdict(response))


def found_by_load(service: Service, image: Path, first: Response | None = None) -> load.Found:
    async def served() -> load.Found:
        app = web.Application()
        app.router.add_post("/detect", service.detect)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        running = Running(f"http://127.0.0.1:{runner.addresses[0][1]}", "", os.getpid())
        job = load.Job(running, "service", "", str(image), True, first, (1, 5), 0.05, 0.3)
        try:
            return await load.run(load.read_job(json.dumps(asdict(job))))
        finally:
            await runner.cleanup()

    return asyncio.run(served())


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "image.jpg"
    path.write_bytes(b"what the service gets")
    return path


def test_so_many_requests_are_on_their_way(image: Path) -> None:
    service = Service([RESPONSE])
    found = found_by_load(service, image, RESPONSE)
    assert found.problem == ""
    assert found.verified == "equal, 1 detections"
    assert service.most == 5
    one, five = found.points
    assert (one.concurrency, five.concurrency) == (1, 5)
    assert one.p50_ms >= 20
    assert one.p99_ms >= one.p50_ms
    assert 0 < one.inferences_per_second <= 50
    assert five.inferences_per_second > one.inferences_per_second
    assert one.client_cpu_ms > 0
    assert found.footprint is not None


def test_a_request_longer_than_the_window_prolongs_it(image: Path) -> None:
    found = found_by_load(Service([RESPONSE], takes_s=0.4), image, RESPONSE)  # a window is 0.3 s
    assert found.problem == ""
    one, _ = found.points
    assert one.p50_ms >= 400
    assert one.inferences_per_second == pytest.approx(1 / 0.4, rel=0.3)


@pytest.mark.parametrize("start", [10.0, 10.3, 10.9])
def test_a_window_counts_alike_wherever_it_begins(start: float) -> None:
    batches = [(float(second), second + 1.0) for second in range(20) for _ in range(16)]
    assert closed_loop.completed_within(batches, start, start + 4.5) == pytest.approx(16 * 4.5)
    assert closed_loop.completed_within(batches, 30, 31) == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([replace(RESPONSE, scores=[0.25])], "scores are not equal: they differ by 0.25"),
        ([RESPONSE, Response([], [], [])], "0 detections under load, not 1"),
    ],
)
def test_a_wrong_response_ends_the_pipeline(given: list[Response], said: str, image: Path) -> None:
    found = found_by_load(Service(given), image, RESPONSE)
    assert said in found.problem
    assert found.footprint is None
