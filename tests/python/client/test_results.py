"""Results of images as rows, and in the reports and pictures of commands."""

from __future__ import annotations

import importlib.util
import io
import json
import math
from dataclasses import replace

import numpy as np
import pytest
import tritonclient.http as tritonclient
from PIL import Image
from rich.console import Console

import endcap
from endcap.cli.report import CSV_COLUMNS, as_csv, as_table, summary
from endcap.client import ClassScore, Detection, ImageDetections, ImageResult, Results, Task
from endcap.client.errors import RequestError
from endcap.client.served_model import ServedModel, TensorSpec
from endcap.client.tensors import ModelTensors
from endcap.drawing.draw import draw_detections
from endcap.errors import UnsupportedError
from tests.support.tolerances import ROUND_TRIP_PIXELS

RING = Detection((1.0, 2.0, 3.5, 4.0), 0.75, 5, "ring", 9)
PLAIN = Detection((0.0, 0.5, 10.0, 20.0), 0.5, 0, None, 3)
FOUND = ImageResult("a.jpg", "ok", ImageDetections.from_list([RING, PLAIN]))
EMPTY = ImageResult("b.jpg", "ok")
FAILED = ImageResult("c.jpg", "corrupt_image", error="not a JPEG")
CLASSES = ImageResult("d.jpg", "ok", classes=[ClassScore(1, 0.75, "cat")], task=Task.classification)
RESULTS = Results([FOUND, EMPTY, FAILED, CLASSES])


def test_every_image_has_a_flat_row() -> None:
    first, second, empty, failed, classes = rows = RESULTS.to_rows()
    assert [row["image"] for row in rows] == ["a.jpg", "a.jpg", "b.jpg", "c.jpg", "d.jpg"]
    box = {"x1": 1.0, "y1": 2.0, "x2": 3.5, "y2": 4.0}
    head = {"image": "a.jpg", "status": "ok"}
    assert first == {**head, "class_id": 5, "label": "ring", "score": 0.75, **box}
    assert second["label"] is None
    assert list(second) == list(empty) == list(CSV_COLUMNS)
    assert {empty[name] for name in CSV_COLUMNS[2:]} == {None}
    assert (failed["status"], failed["error"]) == ("corrupt_image", "not a JPEG")
    assert (classes["class_id"], classes["label"], classes["x1"]) == (1, "cat", None)
    lines = [",".join("" if row[n] is None else str(row[n]) for n in CSV_COLUMNS) for row in rows]
    assert as_csv(RESULTS).splitlines() == [",".join(CSV_COLUMNS), *lines]
    assert json.loads(json.dumps(rows)) == rows
    assert RESULTS.to_dicts() == [each.to_dict() for each in RESULTS]


def test_rows_of_rotated_boxes_and_cascades_have_more() -> None:
    best = ClassScore(2, 0.9, "red")
    found = ImageDetections.from_list([replace(RING, angle=0.25, classification=best)])
    (row,) = ImageResult("a", "ok", found).to_rows()
    names = ("classification_id", "classification_label", "classification_score", "angle")
    assert [row[name] for name in names] == [2, "red", 0.9, 0.25]


def test_results_of_a_low_score_are_left_out() -> None:
    assert [each.score for each in FOUND.above(0.6).detections] == [0.75]
    assert len(FOUND.detections) == 2
    assert (CLASSES.above(0.75).classes, CLASSES.above(0.8).classes) == (CLASSES.classes, [])
    assert FAILED.above(0.5) is FAILED


def test_an_image_without_detections_has_empty_arrays() -> None:
    for result in (EMPTY, FAILED, CLASSES):
        assert result.detections.boxes.shape == (0, 4)


def test_to_supervision_carries_names_or_says_what_is_missing() -> None:
    if importlib.util.find_spec("supervision") is None:
        with pytest.raises(UnsupportedError, match="pip install supervision"):
            FOUND.detections.to_supervision()
        return
    assert FOUND.detections.to_supervision().data["class_name"].tolist() == ["ring", ""]
    assert len(EMPTY.detections.to_supervision()) == 0


@pytest.mark.parametrize("angle", [None, -7.0, -0.3, 0.0, math.pi / 2, 6.5])
def test_corners_are_those_of_image_detections(angle: float | None) -> None:
    box = (10.0, 20.0, 400.0, 90.0)
    ours = Detection(box, 0.5, 0, None, 0, angle=angle)
    (theirs,) = ImageDetections.from_list([ours]).corners()
    np.testing.assert_allclose(ours.corners(), theirs, rtol=0, atol=ROUND_TRIP_PIXELS)


def test_the_table_ends_with_the_class_of_a_cascade() -> None:
    kept = [
        replace(RING, classification=ClassScore(7, 0.5, "purple")),
        replace(PLAIN, label="cross"),
        replace(PLAIN, label="cross", classification=ClassScore(2, 0.25, None)),
    ]
    classified = ImageResult("a.jpg", "ok", ImageDetections.from_list(kept))
    file = io.StringIO()
    Console(file=file, width=200).print(as_table([classified]))
    titles, _, first, second, third = file.getvalue().splitlines()
    assert titles.split()[-1] == "class"
    assert first.endswith("  purple 0.500")
    assert second.split() == ["cross", "0.500", "0.0", "0.5", "10.0", "20.0"]
    assert third.endswith("  class 2 0.250")
    assert summary([classified]) == "3 detections in 1 image: 2 cross, 1 ring"


def test_a_picture_names_the_class_next_to_the_detection() -> None:
    gray = Image.new("RGB", (640, 480), (90, 90, 90))
    ring = Detection((100.0, 100.0, 300.0, 300.0), 0.5, 1, "ring", 0)
    pictures = [
        draw_detections(gray, [replace(ring, classification=best)])
        for best in (None, ClassScore(7, 0.5, "purple"))
    ]
    widths = [int((np.asarray(each)[80:99] != 90).any(axis=(0, 2)).sum()) for each in pictures]
    assert widths[1] > 1.5 * widths[0]  # the caption above the box


def test_a_segmentation_has_rows_and_a_legend() -> None:
    ids = np.zeros((100, 400), np.uint8)
    ids[:, 300:] = 1
    segmentation = endcap.SegmentationMap(ids, ["road", "car"])
    result = ImageResult("e.jpg", "ok", task=Task.segmentation, segmentation=segmentation)
    road, car = result.to_rows()
    assert (road["label"], car["pixels"], car["fraction"]) == ("road", 10_000, 0.25)
    assert result.to_dict()["size"] == [100, 400]
    console = Console(file=io.StringIO(), width=80)
    console.print(as_table([result]))
    assert "car  25.0%" in console.file.getvalue()  # type: ignore[attr-defined]
    failed = ImageResult("f.jpg", "corrupt_image", error="not a JPEG", task=Task.segmentation)
    assert failed.to_dict() == {"image": "f.jpg", "status": "corrupt_image", "error": "not a JPEG"}
    drawn = np.asarray(result.draw(Image.new("RGB", (400, 100)), within=(400, 100)))
    assert drawn.shape == (100, 400, 3)
    colors = (
        {tuple(drawn[90, x]) for x in (10, 150, 290)},
        {tuple(drawn[90, x]) for x in (310, 390)},
    )
    assert [len(each) for each in colors] == [1, 1]
    assert colors[0] != colors[1]
    assert len(np.unique(drawn[:30, :60].reshape(-1, 3), axis=0)) > 2  # the legend


@pytest.mark.parametrize(("rles", "ignored"), [(None, 255), (2, 7), (256, None)])
def test_pixels_of_no_class(rles: int | None, ignored: int | None) -> None:
    """Their id is the model's ignore_label, which the number of its classes shows."""
    outputs = {} if rles is None else {"class_rle": TensorSpec("BYTES", (-1, rles))}
    model = ServedModel("m", Task.segmentation, TensorSpec("BYTES", (1,)), outputs)
    file = io.BytesIO()
    ids = np.array([[0, 1, ignored or 3]], np.uint8)
    Image.fromarray(ids).save(file, "PNG")
    tensors = {"class_map_png": np.array([[file.getvalue()]], np.object_)}
    outcome = ModelTensors(model, tritonclient).read(tensors)
    assert isinstance(outcome, dict)
    segmentation = outcome["segmentation"]
    np.testing.assert_array_equal(segmentation.class_map, ids)
    assert segmentation.ignore_label == ignored
    shown = {each.class_id for each in segmentation.classes()}
    assert shown == ({0, 1, 3} if ignored is None else {0, 1})


@pytest.mark.parametrize("file", [b"", b"no PNG"])
def test_a_damaged_class_map_is_the_server_s_fault(file: bytes) -> None:
    model = ServedModel("m", Task.segmentation, TensorSpec("BYTES", (1,)), {})
    outputs = {"class_map_png": np.array([[file]], np.object_)}
    outcome = ModelTensors(model, tritonclient).read(outputs)
    assert isinstance(outcome, RequestError)
    assert "class_map_png that is not a PNG file" in str(outcome)
