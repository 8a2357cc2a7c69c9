"""The benchmark of the clients' transports: loading, models, tables and the page."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import os
import struct
import time
from collections.abc import AsyncIterator
from dataclasses import asdict
from io import StringIO
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from benchmarks import chart, closed_loop, report
from benchmarks.clients import run, tables, transports
from benchmarks.clients.load import Window, with_tasks, with_threads
from benchmarks.closed_loop import LoadError, Point
from benchmarks.pipelines.responses import Response

RESPONSE = Response([[1.0, 2.0, 3.0, 4.0]], [0.5], [2])


class Asked:
    """Responses after a while; counts how many ask at once."""

    def __init__(self, responses: list[Response], takes_s: float = 0.02) -> None:
        self.responses = responses
        self.takes_s = takes_s
        self.now = 0
        self.most = 0

    def _respond(self) -> Response:
        self.now -= 1
        return self.responses.pop(0) if len(self.responses) > 1 else self.responses[0]

    def _begins(self) -> None:
        self.now += 1
        self.most = max(self.most, self.now)

    def send(self) -> Response:
        self._begins()
        time.sleep(self.takes_s)
        return self._respond()

    async def send_later(self) -> Response:
        self._begins()
        await asyncio.sleep(self.takes_s)
        return self._respond()


def point_of(asked: Asked, window: Window, *, by_tasks: bool) -> Point:
    if not by_tasks:
        return with_threads(contextlib.nullcontext(asked.send), window)

    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[Any]:
        yield asked.send_later

    return asyncio.run(with_tasks(opened(), window))


BOTH = pytest.mark.parametrize("by_tasks", [False, True], ids=["threads", "tasks"])


@BOTH
def test_so_many_requests_are_on_their_way(by_tasks: bool) -> None:
    asked = Asked([RESPONSE])
    point = point_of(asked, Window(os.getpid(), 1, 5, 0.05, 0.3), by_tasks=by_tasks)
    assert (asked.most, point.concurrency) == (5, 5)
    assert point.p50_ms >= 20
    assert 50 < point.inferences_per_second <= 250


@BOTH
def test_a_request_longer_than_the_window_prolongs_it(by_tasks: bool) -> None:
    point = point_of(
        Asked([RESPONSE], 0.4), Window(os.getpid(), 1, 1, 0.05, 0.2), by_tasks=by_tasks
    )
    assert point.inferences_per_second == pytest.approx(1 / 0.4, rel=0.3)


@BOTH
def test_another_response_ends_it_at_once(by_tasks: bool) -> None:
    asked = Asked([RESPONSE, Response([], [], [])])
    begin = time.monotonic()
    with pytest.raises(LoadError, match="0 detections under load, not 1"):
        point_of(asked, Window(os.getpid(), 1, 2, 0.05, 30), by_tasks=by_tasks)
    assert time.monotonic() - begin < 10


def test_a_window_without_a_request_has_no_figures() -> None:
    with pytest.raises(LoadError, match=r"no request began within 1\.0 s at concurrency 4"):
        closed_loop.figures(4, [(0.0, 5.0)], (1.0, 0, 0), (2.0, 0, 0))


def test_a_recording_is_the_tensors_fingerprint_and_the_head() -> None:
    images = np.zeros((1, 3, 640, 640), np.float32)
    images.flat[[0, 1, 1024]] = (1.0, 7.0, 2.0)  # of each page the first number counts
    head = np.arange(10 * 8400, dtype=np.float32).reshape(1, 10, 8400)
    made = run.recording(images, head)
    one, two = np.array([1, 2], np.float32).view(np.uint32).tolist()
    assert struct.unpack("<I", made[:4]) == ((one + two) % 2**32,)
    assert made[4:] == head.tobytes()


def test_each_way_has_a_name_of_its_own() -> None:
    assert [
        transports.find(transport.comparison, transport.name) for transport in transports.TRANSPORTS
    ] == list(transports.TRANSPORTS)
    with pytest.raises(KeyError):
        transports.find("file", "pigeon")


def test_figures_are_medians_over_the_visits() -> None:
    log = run._Log(transports.TRANSPORTS[0], verified="equal")
    for rate in (10.0, 30.0, 20.0):
        point = asdict(Point(4, rate, 1.0, 2.0, 3.0, 100 - rate))
        log.visits.append({"points": [point], "wire": {"up": 5, "down": 7}})
    summary = run._summary(log)
    assert summary["points"][0]["inferences_per_second"] == 20.0
    assert summary["points"][0]["client_cpu_ms"] == 80.0
    assert (summary["outcome"], summary["wire"]) == ("measured", {"up": 5, "down": 7})
    log.problem = "it ended"
    summary = run._summary(log)
    assert (summary["outcome"], summary["note"]) == ("not measured", "it ended")
    assert (summary["points"], summary["wire"]) == ([], None)


def transport(comparison: str, name: str, up: int, rate: float) -> dict[str, Any]:
    point = asdict(Point(1, rate, 5.678, 61.24, 9.87, 1.25))
    return {
        **asdict(transports.find(comparison, name)),
        "outcome": "measured",
        "note": "equal, 10 detections",
        "wire": {"up": up, "down": 8000},
        "points": [point, {**point, "concurrency": 4}],
    }


@pytest.fixture
def document() -> dict[str, Any]:
    """As a run writes it: four transports measured, one not."""
    measured = [
        transport("file", "JPEG, gRPC", 300_000, 100.0),
        transport("file", "tensor, gRPC", 4_500_000, 20.0),
        transport("tensor", "gRPC", 4_500_000, 40.0),
        transport("tensor", "system shm", 900, 200.0),
    ]
    absent = {
        **transport("tensor", "CUDA shm", 0, 0.0),
        "outcome": "not measured",
        "note": "there is no GPU",
        "wire": None,
        "points": [],
    }
    versions = dict.fromkeys(("nvidia-pytriton", "tritonclient", "grpcio"), "1.0")
    machine = {"cpu": "c", "cpus": 2, "commit": "0", "date": "2000-01-01T00", "load_average": 0.1}
    found = {
        "versions": versions,
        "rounds": 3,
        "seconds": 1.5,
        "encoded_bytes": 331_000,
        "detections": 10,
        "ways": [*measured, absent],
    }
    return {"machine": machine, "clients": found}


def test_claims_are_ratios_of_two_ways(document: dict[str, Any]) -> None:
    found = tables.claims(document["clients"])
    assert [claim.ratio for claim in found] == [15.0, 5.0, 5.0]
    assert all(claim.holds for claim in found)
    slow = copy.deepcopy(document["clients"])
    slow["ways"][3]["points"][0]["inferences_per_second"] = 119.0
    assert [claim.holds for claim in tables.claims(slow)] == [True, False, True]
    del slow["ways"][0]
    assert tables.claims(slow)[0].ratio is None
    assert not tables.claims(slow)[0].holds


def test_the_tables_have_every_way(document: dict[str, Any]) -> None:
    found = document["clients"]
    load, cost = (make(found, "tensor", "a tensor").rows for make in (tables.loads, tables.costs))
    assert load == [
        ("gRPC", "40.0 / 40.0", "5.68 / 5.68", "61.2 / 61.2"),
        ("system shm", "200 / 200", "5.68 / 5.68", "61.2 / 61.2"),
    ]
    assert cost[1] == ("system shm", "900", "8,000", "1.25 / 1.25", "9.87 / 9.87")
    assert [row[1:] for row in tables.notes(found).rows][-1] == ("CUDA shm", "there is no GPU")
    assert [row[2] for row in tables.ratios(found).rows] == ["15.0", "5.00", "5.00"]
    assert len(list(tables.every(found))) == 6
    assert list(tables.every({})) == []


def test_the_chart_has_every_way_that_was_measured(document: dict[str, Any]) -> None:
    panels = {panel.title: panel.bars for panel in chart.panels_of(document)}
    assert panels["From a file to detections, at 4"] == [("JPEG, gRPC", 100), ("tensor, gRPC", 20)]
    sent = panels["From a tensor to the head, sent"]
    assert sent == [("gRPC", 4500), ("system shm", 0.9)]


def test_the_page_takes_the_figures_between_its_marks(document: dict[str, Any]) -> None:
    written = tables.PAGE.read_text(encoding="utf-8")
    filled = tables.fill(written, document)
    assert "c, 2 CPUs, 2000-01-01, commit 0" in filled
    assert "| system shm | 200 / 200 |" in filled
    assert "Not measured: CUDA shm (there is no GPU)." in filled
    assert "Not measured yet." in tables.fill(filled, None)


def test_the_page_has_the_committed_figures() -> None:
    written = tables.PAGE.read_text(encoding="utf-8")
    assert written == tables.fill(written, tables.committed()), (
        "run: python scripts/clients_page.py"
    )


def test_the_screen_shows_a_note_as_it_is(document: dict[str, Any]) -> None:
    document["clients"]["ways"][-1]["note"] = "pip install 'endcap[cuda]'"
    console = Console(width=200, file=StringIO())
    report.show(document, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "pip install 'endcap[cuda]'" in text
    assert "system shm by gRPC" in text
