"""The benchmarks' own arithmetic, and a small real run; peers that are not here are rows too."""

from __future__ import annotations

import json
from dataclasses import asdict
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from benchmarks import chart, images, report
from benchmarks.postprocess import head, nms_peers
from benchmarks.postprocess import run as postprocess
from benchmarks.postprocess import verify as verify_kept
from benchmarks.preprocess import bare_decode, entries, memory, one_thread, regions
from benchmarks.preprocess.peer import letterbox
from benchmarks.server import load_generator, repository
from benchmarks.timing import (
    Budget,
    Case,
    Ready,
    Row,
    comparison,
    geometric_mean,
    load,
    measure,
    summary,
)
from reference import boxes as oracle

SAMPLE = repository.SHIPPED / "detect" / "samples" / "shapes_640x427.jpg"
SHORT = Budget(0.0, fewest=2, most=2)


def test_summary_is_median_and_quartiles() -> None:
    timing = summary([0.005, 0.001, 0.002, 0.004, 0.003])
    assert (timing.median_ms, timing.low_ms, timing.high_ms) == pytest.approx((3.0, 2.0, 4.0))
    assert timing.rounds == 5


def test_geometric_mean() -> None:
    assert geometric_mean([2.0, 0.5, 8.0]) == pytest.approx(2.0)
    with pytest.raises(ValueError, match="no ratios"):
        geometric_mean([])


@pytest.mark.parametrize(("one_round", "rounds"), [(1.0, 5), (0.1, 10), (0.0001, 60)])
def test_budget_fits_whole_rounds(one_round: float, rounds: int) -> None:
    assert Budget(1.05, fewest=5, most=60).rounds(one_round) == rounds


def test_cases_alternate_and_each_call_is_prepared() -> None:
    calls: list[str] = []

    def case(name: str) -> Case:
        return Case(
            run=lambda argument: calls.append(name + argument),
            prepare=lambda: calls.append(f"prepare {name}") or "!",
        )

    timings = measure({"a": case("a"), "b": case("b")}, SHORT)
    runs = [call for call in calls if not call.startswith("prepare")]
    assert runs == ["a!", "b!", "a!", "b!", "b!", "a!"]  # a warm-up, then each begins once
    assert calls[0::2] == [f"prepare {run[0]}" for run in runs]
    assert {name: timing.rounds for name, timing in timings.items()} == {"a": 2, "b": 2}


def test_an_entry_without_a_time_keeps_its_row() -> None:
    absent = Row("not installed", "No module named 'x'")
    ready = Ready(Case(run=lambda _: sum(range(1000))), "equal")
    rows = comparison({"ours": ready, "theirs": absent}, "ours", SHORT)
    assert rows["theirs"] is absent
    assert rows["ours"].outcome == "timed"
    assert rows["ours"].ratio == 1.0


def test_a_missing_library_is_a_row() -> None:
    def make() -> object:
        import a_module_that_nobody_has  # noqa: F401

        return object()

    row = load(make)
    assert isinstance(row, Row)
    assert row.outcome == "not installed"
    assert "a_module_that_nobody_has" in row.note


@pytest.mark.parametrize(
    ("change", "psnr_db", "passed"),
    [
        (0, None, True),
        (1, None, True),  # one value by a step: far less than one in a thousand
        (2, None, False),
        (2, 50.0, True),
    ],
)
def test_verification_of_tensors(change: int, psnr_db: float | None, passed: bool) -> None:
    reference = np.full((3, 640, 640), 100 / 255, np.float32)
    tensor = reference.copy()
    tensor[1, 2, 3] += np.float32(change / 255)
    agreement = entries.compare(tensor, reference, psnr_db)
    assert agreement.passed == passed
    assert (agreement.largest_step, agreement.differing) == (change, min(change, 1))
    assert (agreement.text == "equal") == (change == 0)


def test_verification_fails_where_many_values_differ() -> None:
    reference = np.zeros((3, 640, 640), np.float32)
    assert not entries.compare(reference + np.float32(1 / 255), reference, None).passed
    with pytest.raises(ValueError, match="float64"):
        entries.compare(reference.astype(np.float64), reference, None)


def test_verification_of_kept_boxes() -> None:
    assert verify_kept.compare([2, 1], [1, 2]).passed
    assert not verify_kept.compare([1], [1, 2]).passed
    assert not verify_kept.compare([], []).passed  # nothing kept proves nothing
    assert verify_kept.compare(range(99), range(100), share=0.99).passed
    with pytest.raises(ValueError, match="twice"):
        verify_kept.compare([1, 1], [1, 2])


def test_letterbox_puts_an_odd_pixel_behind() -> None:
    place = letterbox(640, 427)
    assert (place.width, place.height, place.left, place.top) == (640, 427, 0, 106)
    assert place.rows == slice(106, 533)


def test_the_head_is_as_it_says() -> None:
    made = head.make()
    assert made.shape == (4 + head.NUM_CLASSES, 8400)
    assert made.dtype == np.float32
    np.testing.assert_array_equal(made, head.make())
    assert 200 < (made[4:] > 0.25).any(axis=0).sum() < 1000
    assert (made[4:] > 0.001).sum() > postprocess.NUM_BOXES
    boxes, scores, class_ids = head.candidates(made, 0.001, 500)
    assert boxes.shape == (500, 4)
    assert (boxes[:, 2:] > boxes[:, :2]).all()
    assert (np.diff(scores) <= 0).all()
    assert class_ids.max() < head.NUM_CLASSES


def test_the_numpy_peer_is_greedy_suppression() -> None:
    boxes, scores, class_ids = head.candidates(head.make(), 0.001, 300)
    threshold = nms_peers.IOU_THRESHOLD
    kept = nms_peers.nms(boxes, scores, threshold)
    np.testing.assert_array_equal(kept, oracle.nms(boxes, scores, threshold))
    kept = nms_peers.batched_nms(boxes, scores, class_ids, threshold)
    expected = oracle.batched_nms(boxes, scores, class_ids, threshold)
    np.testing.assert_array_equal(kept, expected)


def test_regions_lie_in_the_picture_and_stay_the_same() -> None:
    made = regions.scattered(4000, 3000)
    np.testing.assert_array_equal(made, regions.scattered(4000, 3000))
    assert made.shape == (regions.COUNT, 4)
    assert (made[:, :2] >= 0).all()
    assert (made[:, 2:] <= (4000, 3000)).all()
    sides = made[:, 2:] - made[:, :2]
    assert sides.min() >= 60
    assert sides.max() <= 400
    assert (regions.scattered(90, 70)[:, 2:] <= (90, 70)).all()


def test_recipes_have_what_the_tables_need() -> None:
    assert set(images.QUICK) <= set(images.RECIPES)
    assert images.LARGEST in images.RECIPES
    large = images.Photograph("x", Path("x"), 1280, 300)
    assert large.is_at_least(2.0, 640)
    assert not large.is_at_least(2.1, 640)


def test_load_generator_input_has_the_length_in_front() -> None:
    (element,) = load_generator.input_data(b"abc")["data"]  # type: ignore[misc]
    assert element["encoded"] == {"content": {"b64": "AwAAAGFiYw=="}, "shape": [1]}


def test_load_generator_figures_are_read() -> None:
    table = (
        "Concurrency,Inferences/Second,Client Send,p50 latency,p90 latency,p99 latency\n"
        "4,156.688,8,24196,35691,46142\n\n"
    )
    load = load_generator.read_figures(table)
    assert load == load_generator.Load(156.688, pytest.approx(24.196), pytest.approx(46.142))
    with pytest.raises(load_generator.LoadError):
        load_generator.read_figures("Concurrency,Inferences/Second\n")


def test_repository_has_both_sides(tmp_path: Path) -> None:
    repository.write(tmp_path / "models")
    names = {folder.name for folder in (tmp_path / "models").iterdir()}
    opencv = {"preprocess_opencv", "postprocess_opencv", "detect_opencv"}
    assert names == {"preprocess", "detector", "postprocess", "detect", "detector_python"} | opencv
    config = (tmp_path / "models" / "preprocess_opencv" / "config.pbtxt").read_text()
    assert "@" not in config


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A real run on one small image and few boxes, as it would be written."""
    image = images.Photograph("640x427", SAMPLE, 640, 427)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bare_decode, "COMPILED", tmp_path_factory.mktemp("compiled"))
        latency = one_thread.run([image], SHORT, lambda _: None)
    comparisons = postprocess.run(300, SHORT, lambda _: None)
    machine = {"cpu": "c", "cpus": 1, "commit": "0", "date": "2000-01-01", "load_average": 0.0}
    throughput = {"threads": 1, "batch": [image.name], "rows": {}, "images_per_second": {}}
    peaks = {"image": image.name, "peers": {"x": asdict(memory.Memory(None, None, "absent"))}}
    cuts = {name: asdict(row) for name, row in regions.run(image, SHORT).items()}
    parts = {
        "one_thread": asdict(latency),
        "all_threads": throughput,
        "memory": peaks,
        "regions": {"image": image.name, "rows": cuts},
    }
    made = {
        "machine": machine,
        "preprocess": parts,
        "postprocess": [asdict(each) for each in comparisons],
    }
    return dict(json.loads(json.dumps(made)))


def test_a_real_run_times_and_verifies(document: dict[str, Any]) -> None:
    (image,) = document["preprocess"]["one_thread"]["images"]
    for name in ("endcap", "OpenCV", "Pillow", "bare decode"):
        assert image["rows"][name]["outcome"] == "timed", (name, image["rows"][name]["note"])
        assert image["rows"][name]["timing"]["median_ms"] > 0
    assert image["rows"]["OpenCV"]["note"] == "equal"
    assert image["rows"]["bare decode"]["note"] == "427 rows"
    assert image["rows"]["endcap fast"]["outcome"] == "not applicable"
    assert image["share_beyond_decode"] < 1
    cuts = document["preprocess"]["regions"]["rows"]
    assert {row["outcome"] for row in cuts.values()} == {"timed"}
    assert cuts["endcap, 100 regions"]["note"] == "equal"
    for comparison_rows in document["postprocess"]:
        for name, row in comparison_rows["rows"].items():
            assert row["outcome"] in ("timed", "not installed"), (name, row["note"])


def test_every_entry_is_in_the_tables(document: dict[str, Any]) -> None:
    console = Console(width=200, file=StringIO())
    report.show(document, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    for name in ("endcap", "OpenCV", "Pillow", "torchvision", "DALI CPU", "ultralytics", "NumPy"):
        assert name in text
    assert "beyond decode" in text


def test_the_chart_has_a_bar_for_every_time(document: dict[str, Any]) -> None:
    panels = chart.panels_of(document)
    named = {panel.title: dict(panel.bars) for panel in panels}
    (rows,) = (c["rows"] for c in document["postprocess"] if c["name"] == "nms, 300 boxes")
    timed = {name: row["timing"]["median_ms"] for name, row in rows.items() if row["timing"]}
    assert named["nms, 300 boxes"] == timed
    columns = chart.in_columns(panels)
    assert [panel for column in columns for panel in column] == panels


@pytest.mark.parametrize(
    ("value", "text"), [(0.5381, "0.538"), (5.0, "5"), (43.93, "43.9"), (1488.6, "1,489")]
)
def test_numbers_of_the_chart(value: float, text: str) -> None:
    assert chart.number(value) == text


def test_a_fresh_process_tells_its_peak() -> None:
    peak = memory.run_one("endcap", SAMPLE)
    assert peak.peak_over_idle_bytes is not None
    assert peak.idle_bytes is not None
    assert peak.peak_over_idle_bytes > 3 * 640 * 640 * 4 / 2  # most of the tensor is new memory
