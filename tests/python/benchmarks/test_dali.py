"""The benchmark of DALI's pipelines without DALI: verification, rows, tables, chart and pages."""

from __future__ import annotations

import json
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jpegs import photo_jpeg
from rich.console import Console

import endcap
from benchmarks import chart, report
from benchmarks.dali import differences, pipelines, run, tables
from benchmarks.dali.differences import Difference, worst
from benchmarks.dali.pipelines import ALL_OURS, CPU_PIPELINES, ENDCAP, GPU_PIPELINES
from benchmarks.dali.run import NotVerifiedError, expected, verify
from benchmarks.images import Photograph
from benchmarks.timing import Budget, Row, cpu_count, cpus

FILES = [photo_jpeg(120, 90), photo_jpeg(64, 200, seed=1)]
ENCODED = [np.frombuffer(file, np.uint8) for file in FILES]
ALL_DALI = CPU_PIPELINES[3]
SHORT = Budget(0.0, fewest=2, most=2)


def test_endcap_itself_is_verified() -> None:
    runner = pipelines.make(ENDCAP, len(ENCODED), 1)
    assert verify(ENDCAP, runner.arrays(ENCODED), expected(ENCODED)) == "equal, bit for bit"
    runner(ENCODED)


@pytest.mark.parametrize(
    ("pipeline", "steps", "said"),
    [
        (ALL_OURS, 1e-4, "0 steps are allowed"),  # no bit may differ
        (ALL_DALI, 1, None),
        (ALL_DALI, 2, "at most 2, .* 1 steps are allowed"),
    ],
)
def test_images_may_differ_as_the_way_says(pipeline: Any, steps: float, said: str | None) -> None:
    wanted = expected(ENCODED)
    images = wanted[0].copy()
    images[1, 2, 300, 300] += np.float32(steps / 255)
    if said is None:
        assert "at most 1" in verify(pipeline, (images, *wanted[1:]), wanted)
        return
    with pytest.raises(NotVerifiedError, match=said):
        verify(pipeline, (images, *wanted[1:]), wanted)


def test_geometry_and_status_must_be_equal() -> None:
    images, geometry, status = wanted = expected(ENCODED)
    moved = geometry.copy()
    moved[0, 2] += 1
    with pytest.raises(NotVerifiedError, match="geometry differs by 1"):
        verify(ALL_DALI, (images, moved, status), wanted)
    rotated = geometry.copy()
    rotated[:, 6] = 6
    assert verify(ALL_DALI, (images, rotated, status), wanted) == "equal, bit for bit"
    with pytest.raises(NotVerifiedError, match="geometry differs by 5"):
        verify(ALL_OURS, (images, rotated, status), wanted)
    with pytest.raises(NotVerifiedError, match=r"status is \[1, 0\]"):
        verify(ALL_DALI, (images, geometry, np.array([1, 0], np.int32)), wanted)


def test_pins_to_some_cpus() -> None:
    before = cpu_count()
    with cpus(1):
        assert cpu_count() == 1
    assert cpu_count() == before
    with pytest.raises(ValueError, match="CPUs of"), cpus(before + 1):
        pass


def test_differences_are_in_steps() -> None:
    ours = np.zeros((2, 2, 3), np.uint8)
    theirs = ours.copy()
    theirs[0, 0] = (0, 3, 9)
    found = Difference.of(theirs, ours, "a")
    assert found == Difference(9.0, 1.0, 2 / 12, "a")
    other = Difference(1.0, 1.0, 1.0, "b")
    assert worst([other, found]) == Difference(9.0, 1.0, 1.0, "a")
    with pytest.raises(ValueError, match="c: "):
        Difference.of(theirs[:1], ours, "c")


def test_synthetic_pictures_stay_the_same() -> None:
    first, again = differences.pictures(), differences.pictures()
    assert {name: each.shape[2:] for name, each in first.items()} == dict.fromkeys(first, (3,))
    for name, picture in first.items():
        np.testing.assert_array_equal(picture, again[name])
    assert first["edges 640x640"].mean() == pytest.approx(127.5, abs=1)
    for file in (*differences.jpegs().values(), *differences.cmyk().values()):
        assert endcap.decode(file).shape[2] == 3


def timed(outcome: str = "timed") -> dict[str, Any]:
    note = "equal, bit for bit" if outcome == "timed" else "there is no GPU"
    timing = {"median_ms": 12.5, "low_ms": 12.0, "high_ms": 13.0, "rounds": 7}
    return {
        "outcome": outcome,
        "note": note,
        "timing": timing if outcome == "timed" else None,
        "ratio": 1.0 if outcome == "timed" else None,
    }


@pytest.fixture
def document() -> dict[str, Any]:
    """As a run without a GPU writes it."""
    names = [pipeline.key for pipeline in CPU_PIPELINES]
    every = {name: timed() for name in names}
    comparisons = [
        {
            "threads": threads,
            "rows": every,
            "images_per_second": dict.fromkeys(names, 80.0 * threads),
        }
        for threads in (1, 2)
    ]
    gpu = {
        "threads": 2,
        "rows": {pipeline.key: timed("not measured") for pipeline in GPU_PIPELINES},
        "images_per_second": {},
    }
    image = {
        "name": "640x427",
        "width": 640,
        "height": 427,
        "encoded_bytes": 112_000,
        "rows": every,
    }
    found = {
        "batch": ["640x427"] * 24,
        "ways": {pipeline.key: pipeline.how for pipeline in (*CPU_PIPELINES, *GPU_PIPELINES)},
        "latency": {"images": [image], "ratios": dict.fromkeys(names, 1.0)},
        "throughput": comparisons,
        "gpu": gpu,
    }
    machine = {"cpu": "c", "cpus": 2, "commit": "0", "date": "2000-01-01T00", "load_average": 0.1}
    return {"machine": {**machine, "dali": "nvidia-dali 2.4.0"}, "dali": found}


@pytest.fixture
def parity(document: dict[str, Any]) -> dict[str, Any]:
    """As a run without a GPU writes it."""
    found = {"largest": 1.0, "mean": 0.1435, "share": 0.14351, "where": "noise"}
    same = {"largest": 0.0, "mean": 0.0, "share": 0.0, "where": "noise"}
    row = {"reason": "rounding"}
    rows = [
        {"name": "resizing", **row, "photographs": found, "synthetic": same},
        {"name": "inks", **row, "photographs": None, "synthetic": found},
        {"name": "on a GPU", **row, "photographs": None, "synthetic": None},
    ]
    return {"machine": document["machine"], "dali_parity": rows}


def test_the_tables_have_every_way(document: dict[str, Any]) -> None:
    found = document["dali"]
    rows = tables.throughput(found).rows
    assert rows[0] == ("endcap.preprocess", "80.0", "160", "12.5", "6.25")
    assert [row[0] for row in rows] == [pipeline.key for pipeline in CPU_PIPELINES]
    assert tables.latency(found).rows[0][:3] == ("640x427", "112 KB", "12.5")
    assert tables.gpu(found).rows[1] == ("(a) all endcap, GPU", "not measured", "-")
    notes = tables.notes(found).rows
    assert len(notes) == len(CPU_PIPELINES) + len(GPU_PIPELINES)
    assert notes[1] == ("(a) all endcap", "fn.endcap.preprocess", "equal, bit for bit")
    assert notes[-1][2] == "not measured: there is no GPU"


def test_a_way_that_failed_once_says_why(document: dict[str, Any]) -> None:
    comparison = document["dali"]["throughput"][1]
    comparison["rows"] = {**comparison["rows"], "(c) all DALI": timed("not verified")}
    del comparison["images_per_second"]["(c) all DALI"]
    assert tables.throughput(document["dali"]).rows[3][1:3] == ("80.0", "not verified")
    assert tables.notes(document["dali"]).rows[3][2] == "not verified: there is no GPU"


def test_the_table_of_differences(parity: dict[str, Any]) -> None:
    assert tables.differences(parity["dali_parity"]).rows == [
        ("resizing", "rounding", "1, 0.14, 14.4 %", "equal"),
        ("inks", "rounding", "-", "1, 0.14, 14.4 %"),
        ("on a GPU", "rounding", "not measured", "not measured"),
    ]


def test_the_chart_has_every_time(document: dict[str, Any]) -> None:
    panels = {panel.title: dict(panel.bars) for panel in chart.panels_of(document)}
    assert panels["Batch of 24, threads: 2"]["(c) all DALI"] == 160.0
    assert panels["Batch of 24, threads: 2, GPU"] == {}
    assert panels["One at a time, 1 photographs, one thread"]["(a) all endcap"] == 1.0


def test_the_screen_shows_all_of_it(document: dict[str, Any], parity: dict[str, Any]) -> None:
    console = Console(width=200, file=StringIO())
    report.show(document, console)
    report.show(parity, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    for shown in ("Batches of 24 photographs", "(b) DALI decodes, GPU", "Differences in 8-bit"):
        assert shown in text


def test_the_pages_take_the_figures_between_their_marks(
    document: dict[str, Any], parity: dict[str, Any]
) -> None:
    bare = "before\n\n<!-- figures begin -->\nold\n<!-- figures end -->\n\nafter\n"
    for filled, shown in (
        (tables.fill(bare, document), "| (a) all endcap | 80.0 | 160 | 12.5 | 6.25 |"),
        (tables.fill_parity(bare, parity), "| resizing | rounding | 1, 0.14, 14.4 % | equal |"),
    ):
        assert shown in filled
        assert "c, 2 CPUs, 2000-01-01, commit 0; nvidia-dali 2.4.0." in filled
        assert "old" not in filled
    assert "Not measured yet." in tables.fill(bare, None)
    assert "Not measured yet." in tables.fill_parity(bare, None)


@pytest.mark.parametrize(
    ("path", "results", "fill"),
    [
        (tables.PAGE, tables.DOCUMENT, tables.fill),
        (tables.PARITY_PAGE, tables.PARITY_DOCUMENT, tables.fill_parity),
    ],
    ids=["times", "parity"],
)
def test_the_pages_have_the_committed_figures(path: Any, results: Any, fill: Any) -> None:
    written = path.read_text(encoding="utf-8")
    assert written == fill(written, tables.committed(results)), "run: python scripts/dali_page.py"


@pytest.fixture
def picture(tmp_path: Path) -> Photograph:
    (tmp_path / "photo.jpg").write_bytes(FILES[0])
    return Photograph("photo", tmp_path / "photo.jpg", 90, 120)


def test_without_dali_every_pipeline_is_a_row(
    picture: Photograph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "endcap.dali", None)
    plan = run.Plan(("photo",), SHORT, 2, SHORT)
    said: list[str] = []
    found = json.loads(json.dumps(run.run(plan, [picture], said.append)))
    assert len(said) == run.time_steps(plan)
    rows = found["throughput"][0]["rows"]
    outcomes = [row["outcome"] for row in rows.values()]
    assert outcomes == ["timed", "not installed", "not installed", "not installed"]
    assert found["throughput"][0]["images_per_second"].keys() == {"endcap.preprocess"}
    assert found["latency"]["ratios"] == {"endcap.preprocess": 1.0}
    if not endcap.cuda_state().available:
        (reason,) = {row["note"] for row in found["gpu"]["rows"].values()}
        assert reason.startswith("it needs a GPU")
        assert "/" not in reason  # no path of this machine


def test_operators_that_cannot_be_built_are_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(*_: object) -> None:
        raise endcap.UnsupportedError("there is no compiler: install g++")

    monkeypatch.setattr(pipelines, "make", make)
    row = run._make(ALL_OURS, 1, 1)
    assert row == Row("not available", "there is no compiler: install g++")


def test_more_threads_than_cpus_are_not_measured(picture: Photograph) -> None:
    found = run._throughput(CPU_PIPELINES, [picture], cpu_count() + 1, SHORT)
    assert {row["outcome"] for row in found["rows"].values()} == {"not measured"}
    assert found["images_per_second"] == {}
