"""From output tensors to detections, and addresses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from endcap.client.errors import RequestError
from endcap.client.response_reader import read_rows
from endcap.detections import ImageResult, status_name
from endcap.errors import Status

Tensors = dict[str, NDArray[Any] | None]


def response(kept: int = 2, rows: int = 4, status: int = 0) -> Tensors:
    boxes = np.zeros((1, rows, 4), np.float32)
    scores = np.zeros((1, rows), np.float32)
    class_ids = np.zeros((1, rows), np.int32)
    indices = np.full((1, rows), -1, np.int32)
    for row in range(kept):
        boxes[0, row] = [row, row + 0.5, row + 10, row + 20]
        scores[0, row] = 0.75 - 0.25 * row
        class_ids[0, row] = row
        indices[0, row] = 100 + row
    return {
        "num_detections": np.array([[kept]], np.int32),
        "detection_boxes": boxes,
        "detection_scores": scores,
        "detection_classes": class_ids,
        "detection_indices": indices,
        "status": np.array([[status]], np.int32),
    }


def test_only_the_rows_that_count_are_read() -> None:
    first, second = read_rows(response(kept=2), ["ring", "star"])
    assert first.box == (0.0, 0.5, 10.0, 20.0)
    assert (first.score, first.class_id, first.label, first.index) == (0.75, 0, "ring", 100)
    assert second.box == (1.0, 1.5, 11.0, 21.0)
    assert (second.score, second.class_id, second.label, second.index) == (0.5, 1, "star", 101)
    assert read_rows(response(kept=0), None) == []
    assert len(read_rows(response(kept=4), None)) == 4


def test_values_are_plain_numbers() -> None:
    (detection, _) = read_rows(response(), None)
    kinds = {type(side) for side in detection.box} | {type(detection.score)}
    assert kinds == {float}
    assert {type(detection.class_id), type(detection.index)} == {int}


def test_a_class_without_a_name_has_no_label() -> None:
    assert [d.label for d in read_rows(response(), ["ring"])] == ["ring", None]
    assert [d.label for d in read_rows(response(), None)] == [None, None]


def test_a_missing_status_means_ok() -> None:
    tensors = response()
    tensors["status"] = None
    assert len(read_rows(tensors, None)) == 2


@pytest.mark.parametrize("status", [each for each in Status if each != Status.OK])
def test_a_status_that_is_not_ok_is_the_images_error(status: Status) -> None:
    with pytest.raises(RequestError, match=status.label) as caught:
        read_rows(response(kept=0, status=int(status)), None)
    assert caught.value.status_name == status.label == status_name(int(status))


def test_an_unknown_status_is_internal() -> None:
    assert status_name(99) == "internal"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("detection_boxes", np.zeros((1, 4, 5), np.float32)),
        ("detection_boxes", np.zeros((4, 4), np.float32)),
        ("detection_boxes", np.zeros((2, 4, 4), np.float32)),
        ("detection_scores", np.zeros((1, 3), np.float32)),
        ("detection_scores", np.zeros((0,), np.float32)),
        ("detection_indices", np.zeros((4,), np.int32)),
        ("num_detections", np.array([[5]], np.int32)),
        ("num_detections", np.array([[-1]], np.int32)),
    ],
)
def test_outputs_that_do_not_fit_together_are_refused(name: str, value: NDArray[Any]) -> None:
    with pytest.raises(RequestError, match="do not fit together") as caught:
        read_rows(response() | {name: value}, None)
    assert caught.value.status_name == "internal"


@pytest.mark.parametrize("name", ["detection_boxes", "detection_scores"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_rows_that_count_are_finite(name: str, value: float) -> None:
    tensors = response(kept=2)
    tensors[name][0, 1] = value  # type: ignore[index]
    with pytest.raises(RequestError, match="a number that is not finite") as caught:
        read_rows(tensors, None)
    assert caught.value.status_name == "internal"
    unused = response(kept=2)
    unused[name][0, 2] = value  # type: ignore[index]
    assert len(read_rows(unused, None)) == 2


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("num_detections", np.array([[np.nan]], np.float32), "INT32"),
        ("num_detections", np.array([[np.inf]], np.float64), "INT32"),
        ("num_detections", np.array([[b"a"]], np.object_), "INT32"),
        ("detection_boxes", np.full((1, 4, 4), b"a", np.object_), "FP32"),
        ("detection_boxes", np.full((1, 4, 4), 1e300, np.float64), "FP32"),
        ("detection_scores", np.full((1, 4), b"0.5", np.object_), "FP32"),
        ("detection_classes", np.full((1, 4), np.inf, np.float64), "INT32"),
        ("detection_classes", np.full((1, 4), b"a", np.object_), "INT32"),
        ("detection_indices", np.full((1, 4), 2**40, np.int64), "INT32"),
        ("status", np.array([[np.nan]], np.float32), "INT32"),
        ("status", np.array([[b"a"]], np.object_), "INT32"),
    ],
)
def test_outputs_of_another_data_type_are_refused(
    name: str, value: NDArray[Any], expected: str
) -> None:
    said = f"returned {name} of type .*; {expected} is expected"
    with pytest.raises(RequestError, match=said) as caught:
        read_rows(response() | {name: value}, None)
    assert caught.value.status_name == "internal"


def test_an_empty_status_is_refused() -> None:
    with pytest.raises(RequestError, match=r"status \(0,\) \[\]; \[1,1\] is expected"):
        read_rows(response() | {"status": np.zeros((0,), np.int32)}, None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("detection_scores", None),
        ("num_detections", None),
        ("num_detections", np.zeros((0,), np.int32)),
    ],
)
def test_a_missing_output_is_named(name: str, value: NDArray[Any] | None) -> None:
    with pytest.raises(RequestError, match=f"has no {name}"):
        read_rows(response() | {name: value}, None)


def test_a_response_may_have_no_rows() -> None:
    assert read_rows(response(rows=0, kept=0), ["ring"]) == []


def test_json_has_the_promised_keys() -> None:
    detections = read_rows(response(kept=1), ["ring"])
    assert ImageResult("a.jpg", "ok", detections).to_dict() == {
        "image": "a.jpg",
        "status": "ok",
        "detections": [
            {"box": [0.0, 0.5, 10.0, 20.0], "score": 0.75, "class_id": 0, "label": "ring"}
        ],
    }
    failed = ImageResult("b.jpg", "corrupt_image", error="not a JPEG")
    assert not failed.ok
    assert failed.to_dict() == {
        "image": "b.jpg",
        "status": "corrupt_image",
        "detections": [],
        "error": "not a JPEG",
    }
