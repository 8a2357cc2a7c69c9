"""Results as rows, objects and arrays, and in supervision's form."""

from __future__ import annotations

import importlib.util
import io
import json
import math

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

import endcap
from endcap.cli.report import CSV_COLUMNS, as_csv, as_table, summary
from endcap.client import ClassScore, Detection, ImageDetections, ImageResult, Mask, Results, Task
from endcap.drawing.draw import draw_detections
from endcap.errors import UnsupportedError
from endcap.masks import encode_rle
from tests.support.tolerances import ROUND_TRIP_PIXELS

RING = Detection((1.0, 2.0, 3.5, 4.0), 0.75, 5, "ring", 9)
PLAIN = Detection((0.0, 0.5, 10.0, 20.0), 0.5, 0, None, 3)
FOUND = ImageResult(
    "a.jpg", "ok", ImageDetections.from_list([RING, PLAIN]), latency_ms=3.0, request_id="x-1"
)
EMPTY = ImageResult("b.jpg", "ok")
FAILED = ImageResult("c.jpg", "corrupt_image", error="not a JPEG")
CLASSES = ImageResult("d.jpg", "ok", classes=[ClassScore(1, 0.75, "cat")], task=Task.classification)


def test_rows_are_flat() -> None:
    head = {"image": "a.jpg", "status": "ok"}
    box = {"x1": 1.0, "y1": 2.0, "x2": 3.5, "y2": 4.0}
    first, second = FOUND.to_rows()
    assert first == {**head, "class_id": 5, "label": "ring", "score": 0.75, **box}
    assert second["label"] is None
    assert list(second) == list(CSV_COLUMNS)


def test_every_image_has_a_row() -> None:
    rows = Results([FOUND, EMPTY, FAILED, CLASSES]).to_rows()
    assert [row["image"] for row in rows] == ["a.jpg", "a.jpg", "b.jpg", "c.jpg", "d.jpg"]
    empty, failed, classes = rows[2:]
    assert set(empty) == set(CSV_COLUMNS)
    assert {empty[name] for name in CSV_COLUMNS[2:]} == {None}
    assert (failed["status"], failed["error"]) == ("corrupt_image", "not a JPEG")
    assert (classes["class_id"], classes["label"], classes["x1"]) == (1, "cat", None)


def test_rows_are_those_of_the_csv() -> None:
    results = Results([FOUND, EMPTY, FAILED, CLASSES])
    lines = [",".join(CSV_COLUMNS)]
    for row in results.to_rows():
        lines.append(",".join("" if row[n] is None else str(row[n]) for n in CSV_COLUMNS))
    assert as_csv(results).splitlines() == lines


def test_results_of_a_low_score_are_left_out() -> None:
    assert [each.score for each in FOUND.above(0.6).detections] == [0.75]
    assert len(FOUND.detections) == 2
    assert (CLASSES.above(0.75).classes, CLASSES.above(0.8).classes) == (CLASSES.classes, [])
    assert FAILED.above(0.5) is FAILED


def test_rows_of_rotated_boxes_and_cascades_have_more() -> None:
    rotated = Detection(RING.box, 0.5, 1, None, 0, angle=0.25)
    classified = Detection(RING.box, 0.5, 1, None, 0, classification=ClassScore(2, 0.9, "red"))
    (rotated_row,) = ImageResult("a", "ok", ImageDetections.from_list([rotated])).to_rows()
    assert rotated_row["angle"] == 0.25
    (row,) = ImageResult("a", "ok", ImageDetections.from_list([classified])).to_rows()
    names = ("classification_id", "classification_label", "classification_score")
    assert [row[name] for name in names] == [2, "red", 0.9]


def test_results_are_a_list_and_plain_data() -> None:
    results = Results([FOUND, FAILED])
    assert results == [FOUND, FAILED]
    assert results.to_dicts() == [FOUND.to_dict(), FAILED.to_dict()]
    assert json.loads(json.dumps(results.to_rows())) == results.to_rows()


def test_arrays_are_those_of_a_postprocessor() -> None:
    arrays = FOUND.detections
    assert (arrays.boxes.dtype, arrays.class_ids.dtype) == (np.float32, np.int32)
    np.testing.assert_array_equal(arrays.boxes, [RING.box, PLAIN.box])
    np.testing.assert_array_equal(arrays.scores, np.float32([0.75, 0.5]))
    assert arrays.class_ids.tolist() == [5, 0]
    assert arrays.indices.tolist() == [9, 3]
    assert arrays.keypoints is arrays.angles is arrays.rle is arrays.mask_size is None
    assert (EMPTY.detections.boxes.shape, len(EMPTY.detections)) == ((0, 4), 0)


def test_arrays_of_optional_outputs() -> None:
    pixels = np.array([[0, 1, 0], [1, 1, 0]], np.bool_)
    mask = Mask(size=[2, 3], counts=encode_rle(pixels).decode())
    whole = Detection(RING.box, 0.5, 1, None, 0, keypoints=[(1.0, 2.0, 0.5)], angle=0.25, mask=mask)
    arrays = ImageResult("a", "ok", ImageDetections.from_list([whole])).detections
    assert arrays.keypoints is not None
    assert arrays.keypoints.tolist() == [[[1.0, 2.0, 0.5]]]
    assert arrays.angles is not None
    assert arrays.angles.tolist() == [0.25]
    np.testing.assert_array_equal(arrays.masks, pixels[None])


def test_an_image_without_a_response_has_no_arrays() -> None:
    assert len(FAILED.detections) == len(CLASSES.detections) == 0


def test_to_supervision_carries_names_or_says_what_is_missing() -> None:
    if importlib.util.find_spec("supervision") is None:
        with pytest.raises(UnsupportedError, match="pip install supervision"):
            FOUND.detections.to_supervision()
        return
    converted = FOUND.detections.to_supervision()
    np.testing.assert_array_equal(converted.xyxy, [RING.box, PLAIN.box])
    assert converted.class_id.tolist() == [5, 0]
    assert converted.data["class_name"].tolist() == ["ring", ""]
    assert len(EMPTY.detections.to_supervision()) == 0


# --- corners of rotated boxes ---------------------------------------------------------------------


def test_corners_of_an_upright_box() -> None:
    detection = Detection((1.0, 2.0, 11.0, 7.0), 0.5, 0, None, 0)
    assert detection.corners() == [(1.0, 2.0), (11.0, 2.0), (11.0, 7.0), (1.0, 7.0)]


def test_a_quarter_turn_is_clockwise() -> None:
    rotated = Detection((0.0, 0.0, 10.0, 4.0), 0.5, 0, None, 0, angle=math.pi / 2)
    np.testing.assert_allclose(rotated.corners(), [(7, -3), (7, 7), (3, 7), (3, -3)], atol=1e-12)


@pytest.mark.parametrize("angle", [-7.0, -0.3, 0.0, 1.0, 6.5])
def test_corners_are_those_of_image_detections(angle: float) -> None:
    box = (10.0, 20.0, 400.0, 90.0)
    ours = Detection(box, 0.5, 0, None, 0, angle=angle).corners()
    theirs = endcap.ImageDetections(
        np.float32([box]),
        np.float32([0.5]),
        np.zeros(1, np.int32),
        np.zeros(1, np.int32),
        angles=np.float32([angle]),
    ).corners()
    np.testing.assert_allclose(ours, theirs[0], rtol=0, atol=ROUND_TRIP_PIXELS)


# --- classes of a cascade -------------------------------------------------------------------------


def test_the_table_ends_with_the_class() -> None:
    box = (0.0, 0.0, 10.0, 20.0)
    kept = [
        Detection(box, 0.75, 1, "ring", 3, classification=ClassScore(7, 0.5, "purple")),
        Detection(box, 0.5, 0, "cross", 1),
        Detection(box, 0.25, 0, "cross", 2, classification=ClassScore(2, 0.25, None)),
    ]
    classified = ImageResult("a.jpg", "ok", ImageDetections.from_list(kept))
    file = io.StringIO()
    Console(file=file, width=200).print(as_table([classified]))
    titles, _, first, second, third = file.getvalue().splitlines()
    assert titles.split()[-1] == "class"
    assert first.endswith("  purple 0.500")
    assert second.split() == ["cross", "0.500", "0.0", "0.0", "10.0", "20.0"]
    assert third.endswith("  class 2 0.250")
    assert summary([classified]) == "3 detections in 1 image: 2 cross, 1 ring"


def test_a_picture_names_the_class_beside_the_detection() -> None:
    gray = Image.new("RGB", (640, 480), (90, 90, 90))
    box = (100.0, 100.0, 300.0, 300.0)
    pictures = [
        draw_detections(gray, [Detection(box, 0.5, 1, "ring", 0, classification=best)])
        for best in (None, ClassScore(7, 0.5, "purple"))
    ]
    widths = [int((np.asarray(each)[80:99] != 90).any(axis=(0, 2)).sum()) for each in pictures]
    assert widths[1] > 1.5 * widths[0]  # the caption above the box
