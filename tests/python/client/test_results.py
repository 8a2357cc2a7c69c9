"""Results as rows, objects and arrays, and in supervision's form."""

from __future__ import annotations

import importlib.util
import json

import numpy as np
import pytest

from endcap.cli.export import CSV_COLUMNS, as_csv
from endcap.client import ClassScore, Detection, ImageDetections, ImageResult, Mask, Results, Task
from endcap.errors import UnsupportedError
from endcap.masks import encode_rle

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
