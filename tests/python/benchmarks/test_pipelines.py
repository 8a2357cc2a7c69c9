"""The benchmark of the pipelines: responses, models, tables and the page."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from benchmarks import chart, closed_loop
from benchmarks.pipelines import repository, responses, run, tables
from benchmarks.pipelines.pipelines import COMPARISONS, Pipeline
from benchmarks.pipelines.responses import Response
from benchmarks.server.verify import VerificationError

RESPONSE = Response([[1.0, 2.0, 3.0, 4.0]], [0.5], [2], ["red"], [0.75])
PIPELINES = [pipeline for comparison in COMPARISONS for pipeline in comparison.pipelines]


@pytest.mark.parametrize("exact", [True, False])
def test_the_same_response_is_verified(exact: bool) -> None:
    assert "1 detections" in responses.compare(RESPONSE, RESPONSE, exact=exact)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"boxes": [[1.0, 2.0, 3.0, 4.25]]}, "boxes are not equal: they differ by 0.25"),
        ({"class_labels": ["blue"]}, "class_labels are not equal"),
        ({"class_scores": [0.5]}, "class_scores are not equal: they differ by 0.25"),
    ],
)
def test_an_exact_pipeline_may_differ_in_nothing(change: dict[str, Any], said: str) -> None:
    with pytest.raises(VerificationError, match=said):
        responses.compare(replace(RESPONSE, **change), RESPONSE, exact=True)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"boxes": [[1.0, 2.0, 3.0, 4.75]]}, "boxes differ by 0.75"),
        ({"scores": [0.52]}, "scores differ by 0.02"),
        ({"classes": [3]}, "classes are not equal"),
        ({"scores": [0.5, 0.4]}, "2 detections, not 1"),
        ({"scores": []}, "0 detections, not 1"),
    ],
)
def test_opencv_may_differ_a_little(change: dict[str, Any], said: str) -> None:
    near = replace(RESPONSE, boxes=[[1.0, 2.25, 3.0, 4.0]])
    assert "within 0.25 pixels" in responses.compare(near, RESPONSE, exact=False)
    with pytest.raises(VerificationError, match=said):
        responses.compare(replace(RESPONSE, **change), RESPONSE, exact=False)


def test_nothing_detected_verifies_nothing() -> None:
    nothing = Response([], [], [])
    with pytest.raises(VerificationError, match="0 detections"):
        responses.compare(nothing, nothing, exact=True)


@pytest.mark.parametrize("batch", [1, 3])
def test_the_recorded_head_is_returned_for_any_image(batch: int) -> None:
    random = np.random.default_rng(2)
    head = random.uniform(0, 640, (1, 10, 50)).astype(np.float32)
    session = onnxruntime.InferenceSession(repository.model(head).SerializeToString())
    images = random.uniform(0, 1, (batch, 3, 640, 640)).astype(np.float32)
    (returned,) = session.run(["head"], {"images": images})
    np.testing.assert_array_equal(returned, np.repeat(head, batch, axis=0))


@pytest.mark.parametrize(
    "pipeline", PIPELINES, ids=lambda pipeline: f"{pipeline.model} {pipeline.name}"
)
def test_every_pipeline_has_its_models(pipeline: Pipeline, tmp_path: Path) -> None:
    network = tmp_path / "network.onnx"
    network.write_bytes(b"any")
    if not pipeline.models:
        assert pipeline.call in ("service", "in process")
        return
    repository.write(tmp_path / "models", pipeline, network)
    assert {each.name for each in (tmp_path / "models").iterdir()} == set(pipeline.models)
    networks = [*(tmp_path / "models").glob("detector*/1/model.onnx")]
    assert [network.read_bytes() for network in networks] == [b"any"]
    assert pipeline.model in pipeline.models


def test_a_missing_model_is_said(tmp_path: Path) -> None:
    pipeline = replace(PIPELINES[0], models=("detector", "nobody_has_it"))
    with pytest.raises(repository.ModelMissingError, match="no model nobody_has_it"):
        repository.write(tmp_path, pipeline, tmp_path)


def test_figures_are_medians_over_the_visits() -> None:
    log = run._Log(PIPELINES[0], verified="equal")
    use = asdict(closed_loop.Footprint(10, 1, 0, 0, 0))
    for rate in (10.0, 30.0, 20.0):
        point = closed_loop.Point(4, rate, 1.0, 2.0, 3.0, 100 - rate)
        log.visits.append({"points": [asdict(point)], "footprint": use})
    summary = run._summary(log)
    (point,) = summary["points"]
    assert (point["inferences_per_second"], point["client_cpu_ms"]) == (20.0, 80.0)
    assert (summary["outcome"], summary["footprint"]["memory_bytes"]) == ("measured", 10)
    assert len(summary["visits"]) == 3
    log.problem = "it ended"
    assert (run._summary(log)["outcome"], run._summary(log)["note"]) == ("not measured", "it ended")


def document() -> dict[str, Any]:
    """As a run writes it: one pipeline measured, one not."""
    point = closed_loop.Point(16, 123.4, 5.678, 61.24, 9.87, 1.25)
    use = closed_loop.Footprint(150 * 2**20, 3, 2, 24 * 2**20, 16 * 2**20)
    measured = {
        "name": "ensemble",
        "how": "compiled",
        "outcome": "measured",
        "note": "equal, 10 detections",
        "points": [asdict(replace(point, concurrency=1)), asdict(point)],
        "footprint": asdict(use),
    }
    absent = {
        "name": "FastAPI service",
        "how": "no Triton",
        "outcome": "not measured",
        "note": "No module named 'fastapi'",
        "points": [],
        "footprint": None,
    }
    comparison = {
        "task": "detect",
        "network": "recorded head",
        "encoded_bytes": 200_000,
        "detections": 10,
        "pipelines": [measured, absent],
    }
    versions = dict.fromkeys(
        ("nvidia-pytriton", "fastapi", "opencv-python-headless", "onnxruntime"), "1.0"
    )
    machine = {"cpu": "c", "cpus": 2, "commit": "0", "date": "2000-01-01T00", "load_average": 0.1}
    found = {
        "versions": versions,
        "service_versions": versions,
        "rounds": 3,
        "seconds": 4.0,
        "comparisons": [comparison],
    }
    return {"machine": machine, "pipelines": found}


def test_the_tables_have_every_pipeline() -> None:
    (comparison,) = document()["pipelines"]["comparisons"]
    assert tables.loads(comparison).rows == [
        ("ensemble", "123 / 123", "5.68 / 5.68", "61.2 / 61.2", "11.1 / 11.1")
    ]
    assert tables.costs(comparison).rows == [
        ("ensemble", "9.87", "1.25", "150", "3", "2", "24", "16")
    ]
    assert [row[0] for row in tables.notes(comparison).rows] == ["ensemble", "FastAPI service"]
    assert "No module named 'fastapi'" in tables.notes(comparison).markdown()


def test_the_chart_has_every_pipeline_that_was_measured() -> None:
    rates, costs = chart.panels_of(document())
    assert rates.title == "detect, recorded head, at 16"
    assert rates.bars == [("ensemble", 123.4)]
    assert costs.bars == [("ensemble", pytest.approx(11.12))]


def test_the_page_takes_the_figures_between_its_marks() -> None:
    bare = f"before\n\n{tables.BEGIN}\nold\n{tables.END}\n\nafter\n"
    filled = tables.fill(bare, document())
    assert filled.startswith(f"before\n\n{tables.BEGIN}\n\nc, 2 CPUs, 2000-01-01, commit 0")
    assert "| ensemble | 123 / 123 |" in filled
    assert filled.endswith(f"{tables.END}\n\nafter\n")
    assert "old" not in filled
    assert tables.fill(filled, None) == bare.replace("\nold\n", "\n\nNot measured yet.\n\n")
    with pytest.raises(ValueError, match="lacks"):
        tables.fill("no marks", None)


def test_the_page_has_the_committed_figures() -> None:
    written = tables.PAGE.read_text(encoding="utf-8")
    assert written == tables.fill(written, tables.committed()), (
        "run: python scripts/pipelines_page.py"
    )
