"""The programs of `make bench` and `make bench-server`: small runs, verification, result files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import endcap
from benchmarks import results
from benchmarks.cpu import __main__ as cpu
from benchmarks.cpu import heads, tensors
from benchmarks.images import Photograph
from benchmarks.results import Table
from benchmarks.server import __main__ as server
from benchmarks.server import perf_analyzer
from benchmarks.server.opencv_service import NUM_CLASSES, SCORE_THRESHOLD, Detector
from benchmarks.timing import Budget, Case, Figure, measure

SHORT = Budget(0.0, min_rounds=2, max_rounds=2)
IMAGE = Photograph("640x427", server.SAMPLE.with_name("shapes_640x427.jpg"), 640, 427)
MACHINE = {"cpu": "c", "cpus": 1, "commit": "0", "date": "2000-01-01", "load_average": 0.5}


def test_cases_alternate_and_each_call_is_prepared() -> None:
    calls: list[str] = []

    def case(name: str) -> Case:
        return Case(
            run=lambda argument: calls.append(name + argument),
            prepare=lambda: calls.append(f"prepare {name}") or "!",
        )

    figures = measure({"a": case("a"), "absent": "not installed: x", "b": case("b")}, SHORT)
    runs = [call for call in calls if not call.startswith("prepare")]
    assert runs == ["a!", "b!", "a!", "b!", "b!", "a!"]  # a warm-up, then each begins once
    assert calls[0::2] == [f"prepare {run[0]}" for run in runs]
    assert [figure is None for figure in figures.values()] == [False, True, False]


@pytest.mark.parametrize(
    ("change", "psnr_db", "passed"),
    [(0, None, True), (1, None, True), (2, None, False), (2, 50.0, True), (2, 110.0, False)],
)
def test_verification_of_tensors(change: int, psnr_db: float | None, passed: bool) -> None:
    reference = np.full((3, 640, 640), 100 / 255, np.float32)
    tensor = reference.copy()
    tensor[1, 2, 3] += np.float32(change / 255)
    agreement = tensors.compare(tensor, reference, psnr_db)
    assert (agreement.passed, agreement.largest) == (passed, change)
    assert (agreement.text == "equal") == (change == 0)


@pytest.mark.parametrize(
    ("theirs", "ours", "share", "note"),
    [
        ([2, 1], [1, 2], 1.0, "same 2 kept"),
        ([*range(99)], [*range(100)], 0.99, "100 kept, 1 differ"),
        ([1], [1, 2], 1.0, "not verified: of 2 kept 1 differ"),
        ([], [], 1.0, "not verified: of 0 kept 0 differ"),  # nothing kept proves nothing
        ([1, 1], [1, 2], 1.0, "not verified: it kept a box twice"),
    ],
)
def test_verification_of_kept_boxes(
    theirs: list[int], ours: list[int], share: float, note: str
) -> None:
    entry = heads.judge(lambda: None, theirs, ours, share)
    assert (entry if isinstance(entry, str) else entry.note) == note
    assert isinstance(entry, str) == note.startswith("not")


@pytest.fixture(scope="module")
def tables() -> list[Table]:
    """Tables of a small run of `make bench`."""
    return cpu.measure([IMAGE], cpu.Extent(("",), SHORT, 300), lambda _: None)


def test_a_run_verifies_and_times_the_peers(tables: list[Table]) -> None:
    ratios, times, two, memory, head, maps, nms, errors = tables
    row = dict(zip(times.columns, times.rows["640x427"], strict=True))
    for name in ("OpenCV", "OpenCV, NumPy", "OpenCV, blob", "Pillow", "simplejpeg"):
        assert times.notes[name] == "equal"
        assert row[name] is not None
    assert row["endcap fast"] is None  # the image is too small
    assert ratios.rows["exact"][0] == Figure(1, 1, 1)
    assert len(two.rows) == 1
    peak = memory.rows["peak"][memory.columns.index("endcap")]
    assert peak is not None
    assert peak.median > 3 * 640 * 640 * 4 / 2**20 / 2  # most of the tensor is new memory
    assert [name for name, row in head.rows.items() if row[0] is None] == []
    assert [name for name, row in maps.rows.items() if None in row] == []
    assert nms.notes["nms, 300 boxes, OpenCV"].startswith("same")
    assert all(cell and cell.median >= 0 for row in errors.rows.values() for cell in row)
    for table in (times, head, maps, nms):
        unknown = {note for note in table.notes.values() if note.startswith("not verified")}
        assert not unknown


def test_a_result_file_is_read_as_it_was_written(tables: list[Table], tmp_path: Path) -> None:
    path = tmp_path / "cpu.json"
    path.write_text(results.to_json(MACHINE, tables))
    machine, found = results.read(path)
    assert machine == MACHINE
    assert [table.columns for table in found] == [table.columns for table in tables]
    ours, read = (each[1].rows["640x427"][0] for each in (tables, found))
    assert ours is not None
    assert read == pytest.approx(ours, rel=1e-3)


@pytest.mark.parametrize("name", ["cpu", "server"])
def test_committed_results_are_summaries(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = results.RESULTS / f"{name}.json"
    assert len(path.read_text().splitlines()) <= 200
    machine, found = results.read(path)
    assert {"date", "commit", "cpu", "versions"} <= machine.keys()
    for table in found:
        assert set(table.drawn) <= table.rows.keys()
        assert {len(row) for row in table.rows.values()} == {len(table.columns)}
    results.show(path)
    assert found[0].name in capsys.readouterr().out
    assert path.with_suffix(".png").exists()


def test_requests_of_perf_analyzer_have_the_length_in_front() -> None:
    (element,) = perf_analyzer.input_data(b"abc")["data"]  # type: ignore[misc]
    assert element["encoded"] == {"content": {"b64": "AwAAAGFiYw=="}, "shape": [1]}


def test_figures_of_perf_analyzer_are_read() -> None:
    table = "Concurrency,Inferences/Second,p50 latency,p99 latency\n4,156.688,24196,46142\n\n"
    read = perf_analyzer.read_figures(table)
    assert read == perf_analyzer.Load(156.688, pytest.approx(24.196), pytest.approx(46.142))
    with pytest.raises(perf_analyzer.LoadError):
        perf_analyzer.read_figures("Concurrency,Inferences/Second\n")


def test_the_service_and_the_single_process_detect_the_same() -> None:
    encoded = server.SAMPLE.read_bytes()
    made: Any = endcap.preprocess(encoded, preset="ultralytics", size=640)
    session = onnxruntime.InferenceSession(server.NETWORK, providers=["CPUExecutionProvider"])
    (head,) = session.run(None, {"images": made.images})
    postprocess = endcap.Postprocessor("yolov8", NUM_CLASSES, score_threshold=SCORE_THRESHOLD)
    found: Any = postprocess(head, made.geometry)[0]
    first = server.Detections(found.boxes, found.scores, found.class_ids)
    assert "same 10 detections" in server.verify(server.in_process().respond(encoded), first)
    theirs = server.Detections(*map(np.asarray, Detector(server.NETWORK)(encoded).values()))
    assert "same 10 detections" in server.verify(theirs, first)
    for change in ({"boxes": first.boxes + 0.75}, {"scores": first.scores - 0.02}):
        with pytest.raises(perf_analyzer.LoadError, match="boxes differ by"):
            server.verify(first._replace(**change), first)
    for change in ({"classes": first.classes + 1}, {"classes": first.classes[:-1]}):
        with pytest.raises(perf_analyzer.LoadError, match="or other classes"):
            server.verify(first._replace(**change), first)
