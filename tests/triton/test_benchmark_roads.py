"""The benchmark of the roads, on real servers and for a moment."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.pipelines import run, tables
from benchmarks.pipelines.roads import CLASSIFY, DETECT, Contest

BY_NAME = {road.name: road for road in DETECT.roads}
PLAN = replace(run.QUICK, concurrencies=(1, 2), warm_up_s=0.1, seconds=0.4)


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "PIPELINES_REPOSITORY", tmp_path)


def test_roads_are_verified_and_measured_or_say_why_not() -> None:
    absent = replace(BY_NAME["Python models"], models=("nobody_has_it",))
    measured = ("ensemble", "one process", "Python network", "client side")
    roads = (*map(BY_NAME.__getitem__, measured), absent, BY_NAME["FastAPI service"])
    # A Python outside any environment, so that the packages of the service are not there.
    without_packages = Path(sys.executable).resolve()
    visited: list[str] = []
    plan = replace(PLAN, contests=(Contest("detect", roads),))
    (contest,) = run.run(plan, without_packages, visited.append)
    *answered, missing, service = contest["roads"]

    assert len(visited) == plan.visits == 6
    assert contest["detections"] > 3
    for road in answered[1:]:
        assert road["note"] == f"equal, {contest['detections']} detections"
    for road in answered:
        in_python = road["name"] == "Python network"
        assert road["outcome"] == "measured", road["note"]
        assert [point["concurrency"] for point in road["points"]] == [1, 2]
        for point in road["points"]:
            assert (point["service_cpu_ms"] > 0) == (road["name"] != "one process")
            assert point["client_cpu_ms"] > 0
        assert road["footprint"]["python_instances"] == in_python
        assert (road["footprint"]["shared_memory_bytes"] >= 2**20) == in_python
        assert road["footprint"]["memory_bytes"] > road["footprint"]["shared_memory_bytes"]
    assert missing["note"] == "there is no model nobody_has_it in model_repository"
    assert service["note"].startswith("the FastAPI service ended: ModuleNotFoundError")
    assert [road["outcome"] for road in (missing, service)] == ["not measured"] * 2
    assert [row[0] for row in tables.loads(contest).rows] == [*measured]


def test_the_cascade_by_its_steps_and_by_streams() -> None:
    steps, _, decoupled, _ = CLASSIFY.roads
    plan = replace(PLAN, contests=(Contest("cascade", (steps, decoupled)),), seconds=1.0)
    (contest,) = run.run(replace(plan, concurrencies=(1,)), Path(sys.executable), lambda _: None)
    by_hand, streamed = contest["roads"]
    assert by_hand["outcome"] == "measured", by_hand["note"]
    assert streamed["note"] == f"equal, {contest['detections']} detections"
    assert streamed["outcome"] == "measured"
