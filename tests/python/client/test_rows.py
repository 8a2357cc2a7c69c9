"""From output tensors to detections, and what an address may look like."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from endcap.client import ClientError, DetectionClient
from endcap.client.address import parse_address
from endcap.client.errors import RequestError
from endcap.client.response_reader import read_rows
from endcap.errors import EndcapError, InvalidArgumentError, Status
from endcap.results import ImageResult, status_name

Tensors = dict[str, NDArray[Any] | None]


def answer(kept: int = 2, rows: int = 4, status: int = 0) -> Tensors:
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
    first, second = read_rows(answer(kept=2), ["ring", "star"])
    assert first.box == (0.0, 0.5, 10.0, 20.0)
    assert (first.score, first.class_id, first.label, first.index) == (0.75, 0, "ring", 100)
    assert second.box == (1.0, 1.5, 11.0, 21.0)
    assert (second.score, second.class_id, second.label, second.index) == (0.5, 1, "star", 101)
    assert read_rows(answer(kept=0), None) == []
    assert len(read_rows(answer(kept=4), None)) == 4


def test_values_are_plain_numbers() -> None:
    (detection, _) = read_rows(answer(), None)
    kinds = {type(side) for side in detection.box} | {type(detection.score)}
    assert kinds == {float}
    assert {type(detection.class_id), type(detection.index)} == {int}


def test_a_class_without_a_name_has_no_label() -> None:
    assert [d.label for d in read_rows(answer(), ["ring"])] == ["ring", None]
    assert [d.label for d in read_rows(answer(), None)] == [None, None]


def test_a_missing_status_means_ok() -> None:
    tensors = answer()
    tensors["status"] = None
    assert len(read_rows(tensors, None)) == 2


@pytest.mark.parametrize("status", [each for each in Status if each != Status.OK])
def test_a_status_that_is_not_ok_is_the_images_error(status: Status) -> None:
    with pytest.raises(RequestError, match=status.label) as caught:
        read_rows(answer(kept=0, status=int(status)), None)
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
        ("detection_indices", np.zeros((4,), np.int32)),
        ("num_detections", np.array([[5]], np.int32)),
        ("num_detections", np.array([[-1]], np.int32)),
    ],
)
def test_outputs_that_do_not_fit_together_are_refused(name: str, value: NDArray[Any]) -> None:
    with pytest.raises(RequestError, match="do not fit together") as caught:
        read_rows(answer() | {name: value}, None)
    assert caught.value.status_name == "internal"


@pytest.mark.parametrize("name", ["detection_boxes", "detection_scores"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_rows_that_count_are_finite(name: str, value: float) -> None:
    tensors = answer(kept=2)
    tensors[name][0, 1] = value  # type: ignore[index]
    with pytest.raises(RequestError, match="no finite number") as caught:
        read_rows(tensors, None)
    assert caught.value.status_name == "internal"
    unused = answer(kept=2)
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
        read_rows(answer() | {name: value}, None)
    assert caught.value.status_name == "internal"


def test_an_empty_status_is_refused() -> None:
    with pytest.raises(RequestError, match=r"returned status \(0,\); \[1,1\] is expected"):
        read_rows(answer() | {"status": np.zeros((0,), np.int32)}, None)


@pytest.mark.parametrize("value", [None, np.zeros((0,), np.float32)])
def test_a_missing_or_empty_output_is_named(value: NDArray[Any] | None) -> None:
    with pytest.raises(RequestError, match="has no detection_scores"):
        read_rows(answer() | {"detection_scores": value}, None)


def test_json_has_the_promised_keys() -> None:
    detections = read_rows(answer(kept=1), ["ring"])
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


@pytest.mark.parametrize(
    ("url", "protocol", "expected"),
    [
        ("localhost:9000", None, "grpc://localhost:9000"),
        ("localhost:9000", "http", "http://localhost:9000"),
        ("localhost", None, "grpc://localhost:8001"),
        ("localhost", "http", "http://localhost:8000"),
        ("grpc://10.0.0.1:1/", None, "grpc://10.0.0.1:1"),
        ("http://host", "http", "http://host:8000"),
        ("[::1]:8001", None, "grpc://[::1]:8001"),
        ("[::1]", "http", "http://[::1]:8000"),
    ],
)
def test_addresses(url: str, protocol: Any, expected: str) -> None:
    assert str(parse_address(url, protocol)) == expected


@pytest.mark.parametrize(
    ("url", "protocol", "message"),
    [
        ("ftp://host:1", None, "has the scheme ftp; use grpc://, http"),
        ("http://host:1", "grpc", "contradicts protocol 'grpc'"),
        ("host:1", "smtp", "protocol 'smtp' is unknown"),
        ("host:port", None, "is not HOST:PORT"),
        ("host:0", None, "is not HOST:PORT"),
        ("host:65536", None, "is not HOST:PORT"),
        (":8001", None, "is not HOST:PORT"),
        ("", None, "is not HOST:PORT"),
        ("http://host:1/v2", None, "is not HOST:PORT"),
        ("host/path", None, "is not HOST:PORT"),
    ],
)
def test_addresses_that_are_refused(url: str, protocol: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        parse_address(url, protocol)


def test_options_that_cannot_be_used_are_refused_before_anything_is_sent() -> None:
    with pytest.raises(InvalidArgumentError, match="concurrency 0 is below 1"):
        DetectionClient(concurrency=0)
    with pytest.raises(InvalidArgumentError, match="timeout is -1 s: give more than 0"):
        DetectionClient(timeout_s=-1)


def test_client_errors_are_endcap_errors_and_connection_errors() -> None:
    assert issubclass(ClientError, EndcapError)
    assert issubclass(ClientError, ConnectionError)
