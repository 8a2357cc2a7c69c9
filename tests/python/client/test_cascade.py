"""Classifications of a cascade: from output tensors to JSON, table and picture."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from rich.console import Console

from endcap.cli.report import as_table, summary
from endcap.client import ClassScore, Detection, ImageResult
from endcap.client.errors import RequestError
from endcap.client.response_reader import read_rows
from endcap.drawing.draw import draw_detections

ROWS, KEPT = 4, 3
LABELS = ["cross", "ring"]


def response(**others: NDArray[Any] | None) -> dict[str, NDArray[Any] | None]:
    boxes = np.zeros((1, ROWS, 4), np.float32)
    boxes[0, :KEPT] = [0, 0, 10, 20]
    return {
        "num_detections": np.array([[KEPT]], np.int32),
        "detection_boxes": boxes,
        "detection_scores": np.float32([[0.75, 0.5, 0.25, 0]]),
        "detection_classes": np.int32([[1, 0, 0, 0]]),
        "detection_indices": np.int32([[3, 1, 2, -1]]),
        "status": np.zeros((1, 1), np.int32),
        "class_ids": np.int32([[7, -1, 2, -1]]),
        "class_scores": np.float32([[0.5, 0, 0.25, 0]]),
        "class_labels": np.array([[b"purple", b"", b"", b""]], np.object_),
        **others,
    }


def result() -> ImageResult:
    return ImageResult("a.jpg", "ok", read_rows(response(), LABELS))


def test_each_row_has_its_own_class() -> None:
    found = [each.classification for each in read_rows(response(), LABELS)]
    assert found == [ClassScore(7, 0.5, "purple"), None, ClassScore(2, 0.25, None)]


def test_labels_may_be_absent() -> None:
    first, *_ = read_rows(response(class_labels=None), LABELS)
    assert first.classification == ClassScore(7, 0.5, None)


def test_json_has_a_classification_where_there_is_one() -> None:
    first, second, third = (each.to_dict() for each in read_rows(response(), LABELS))
    assert first["label"] == "ring"
    assert first["classification"] == {"class_id": 7, "label": "purple", "score": 0.5}
    assert "classification" not in second
    assert third["classification"]["label"] is None


def test_the_table_ends_with_the_class() -> None:
    file = io.StringIO()
    Console(file=file, width=200).print(as_table([result()]))
    titles, _, first, second, third = file.getvalue().splitlines()
    assert titles.split()[-1] == "class"
    assert first.endswith("  purple 0.500")
    assert second.split() == ["cross", "0.500", "0.0", "0.0", "10.0", "20.0"]
    assert third.endswith("  class 2 0.250")
    assert summary([result()]) == "3 detections in 1 image: 2 cross, 1 ring"


def test_a_picture_names_the_class_beside_the_detection() -> None:
    gray = Image.new("RGB", (640, 480), (90, 90, 90))
    box = (100.0, 100.0, 300.0, 300.0)
    pictures = [
        draw_detections(gray, [Detection(box, 0.5, 1, "ring", 0, classification=best)])
        for best in (None, ClassScore(7, 0.5, "purple"))
    ]
    widths = [int((np.asarray(each)[80:99] != 90).any(axis=(0, 2)).sum()) for each in pictures]
    assert widths[1] > 1.5 * widths[0]  # the caption above the box


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("class_ids", np.zeros((1, 3), np.int32), r"class_ids \(1, 3\); \[1,4\] is expected"),
        ("class_scores", np.zeros((4,), np.float32), r"class_scores \(4,\).*; \[1,4\] is expected"),
        (
            "class_labels",
            np.full((1, 3), b"", np.object_),
            r"class_labels \(1, 3\); \[1,4\] is expected",
        ),
        (
            "class_scores",
            np.full((1, 4), np.nan, np.float32),
            "class_scores with a number that is not",
        ),
        ("class_ids", np.full((1, 4), np.nan), "class_ids of type FP64; INT32 is expected"),
        ("class_scores", np.full((1, 4), b"1", np.object_), "type BYTES; FP32 is expected"),
        ("class_labels", np.zeros((1, 4), np.int32), "type INT32; BYTES is expected"),
    ],
)
def test_what_does_not_fit_together_is_refused(name: str, value: NDArray[Any], said: str) -> None:
    with pytest.raises(RequestError, match=said):
        read_rows(response(**{name: value}), LABELS)
