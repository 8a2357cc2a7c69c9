"""The benchmark of the pipelines, on real servers and for a moment."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.pipelines import run, tables
from benchmarks.pipelines.pipelines import CLASSIFY, DETECT, Comparison

BY_NAME = {pipeline.name: pipeline for pipeline in DETECT.pipelines}
PLAN = replace(run.QUICK, concurrencies=(1, 2), warm_up_s=0.1, seconds=0.4)


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "PIPELINES_REPOSITORY", tmp_path)


@pytest.mark.slow
def test_pipelines_are_verified_and_measured_or_say_why_not() -> None:
    absent = replace(BY_NAME["Python models"], models=("nobody_has_it",))
    names = ("ensemble", "one process", "Python network", "client side")
    pipelines = (*map(BY_NAME.__getitem__, names), absent, BY_NAME["FastAPI service"])
    # A Python outside any environment, so that the packages of the service are not there.
    without_packages = Path(sys.executable).resolve()
    visited: list[str] = []
    plan = replace(PLAN, comparisons=(Comparison("detect", pipelines),))
    (comparison,) = run.run(plan, without_packages, visited.append)
    *measured, missing, service = comparison["pipelines"]

    assert len(visited) == plan.visits == 6
    assert comparison["detections"] > 3
    for pipeline in measured[1:]:
        assert pipeline["note"] == f"equal, {comparison['detections']} detections"
    for pipeline in measured:
        in_python = pipeline["name"] == "Python network"
        assert pipeline["outcome"] == "measured", pipeline["note"]
        assert [point["concurrency"] for point in pipeline["points"]] == [1, 2]
        for point in pipeline["points"]:
            assert (point["service_cpu_ms"] > 0) == (pipeline["name"] != "one process")
            assert point["client_cpu_ms"] > 0
        assert pipeline["footprint"]["python_instances"] == in_python
        assert (pipeline["footprint"]["shared_memory_bytes"] >= 2**20) == in_python
        assert pipeline["footprint"]["memory_bytes"] > pipeline["footprint"]["shared_memory_bytes"]
    assert missing["note"] == "there is no model nobody_has_it in model_repository"
    assert service["note"].startswith("the FastAPI service ended: ModuleNotFoundError")
    assert [pipeline["outcome"] for pipeline in (missing, service)] == ["not measured"] * 2
    assert [row[0] for row in tables.loads(comparison).rows] == [*names]


@pytest.mark.slow
def test_the_cascade_by_its_steps_and_by_streams() -> None:
    steps, _, decoupled, _ = CLASSIFY.pipelines
    plan = replace(PLAN, comparisons=(Comparison("cascade", (steps, decoupled)),), seconds=1.0)
    (comparison,) = run.run(replace(plan, concurrencies=(1,)), Path(sys.executable), lambda _: None)
    by_hand, streamed = comparison["pipelines"]
    assert by_hand["outcome"] == "measured", by_hand["note"]
    assert streamed["note"] == f"equal, {comparison['detections']} detections"
    assert streamed["outcome"] == "measured"
