"""Keypoints, angles and masks: from output tensors to detections, and to JSON."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tolerances import ROUND_TRIP_PIXELS

import endcap
from endcap.client import Detection
from endcap.client.errors import RequestError
from endcap.client.response_reader import read_rows
from endcap.masks import decode_rle, encode_rle

Tensors = dict[str, NDArray[Any] | None]

ROWS, KEPT = 4, 2
MASKS = [encode_rle(np.tri(6, 9, k, dtype=bool)) for k in range(KEPT)]
KEYPOINTS = np.arange(ROWS * 5 * 3, dtype=np.float32).reshape(1, ROWS, 5, 3)
ANGLES = np.float32([[0.5, -3.25, 0, 0]])
RLE = np.array([[*MASKS, b"", b""]], np.object_)


def response(**extras: NDArray[Any]) -> Tensors:
    boxes = np.zeros((1, ROWS, 4), np.float32)
    boxes[0, :KEPT] = [[0, 0, 10, 20], [5, 5, 7, 7]]
    return {
        "num_detections": np.array([[KEPT]], np.int32),
        "detection_boxes": boxes,
        "detection_scores": np.float32([[0.75, 0.5, 0, 0]]),
        "detection_classes": np.zeros((1, ROWS), np.int32),
        "detection_indices": np.int32([[3, 1, -1, -1]]),
        "status": np.zeros((1, 1), np.int32),
        **extras,
    }


EVERY = response(
    detection_keypoints=KEYPOINTS,
    detection_angles=ANGLES,
    detection_rle=RLE,
    mask_size=np.int32([[6, 9]]),
)


def test_each_row_has_its_own() -> None:
    first, second = read_rows(EVERY, None)
    assert (first.angle, second.angle) == (0.5, -3.25)
    for row, detection in enumerate((first, second)):
        assert detection.keypoints == [tuple(point) for point in KEYPOINTS[0, row].tolist()]
        assert detection.mask is not None
        assert detection.mask["size"] == [6, 9]
        mask = decode_rle(detection.mask["counts"], (6, 9))
        assert mask.tolist() == np.tri(6, 9, row, dtype=bool).tolist()


def test_json_has_what_the_model_gives() -> None:
    _, detection = read_rows(EVERY, None)
    row = json.loads(json.dumps(detection.to_dict()))
    assert row["keypoints"][1] == [18.0, 19.0, 20.0]
    assert row["angle"] == -3.25
    assert row["mask"] == {"size": [6, 9], "counts": MASKS[1].decode()}


def test_an_rle_may_come_as_text() -> None:
    text = np.array([[*(mask.decode() for mask in MASKS), "", ""]], np.object_)
    assert read_rows(EVERY | {"detection_rle": text}, None) == read_rows(EVERY, None)


def test_no_detections_are_no_error() -> None:
    none = EVERY | {
        "num_detections": np.array([[0]], np.int32),
        "detection_rle": np.full((1, ROWS), b"", np.object_),
    }
    assert read_rows(none, None) == []


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("detection_keypoints", np.zeros((1, 3, 5, 3), np.float32), r"\[1,4,P,3\] is expected"),
        ("detection_keypoints", np.zeros((1, 4, 5, 2), np.float32), r"keypoints \(1, 4, 5, 2\)"),
        ("detection_keypoints", np.zeros((1, 4, 15), np.float32), r"keypoints \(1, 4, 15\)"),
        ("detection_angles", np.zeros((1, 4, 1), np.float32), r"angles \(1, 4, 1\); \[1,4\] is"),
        ("detection_angles", np.zeros((4,), np.float32), r"angles \(4,\)"),
        ("detection_rle", np.full((1, 3), b"1", np.object_), r"rle \(1, 3\); \[1,4\] is expected"),
        ("mask_size", np.int32([[6, 9, 1]]), r"mask_size \(1, 3\); \[1,2\] is expected"),
        ("mask_size", np.int32([[-6, 9]]), r"mask_size \(1, 2\) \[\[-6, 9\]\]"),
        ("mask_size", None, "detection_rle without mask_size"),
        ("detection_rle", np.full((1, 4), b"", np.object_), "is not COCO's RLE"),
        ("detection_rle", np.full((1, 4), b"\xff", np.object_), "is not COCO's RLE"),
    ],
)
def test_what_does_not_fit_together_is_refused(
    name: str, value: NDArray[Any] | None, said: str
) -> None:
    with pytest.raises(RequestError, match=said) as caught:
        read_rows(EVERY | {name: value}, None)
    assert caught.value.status_name == "internal"
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("detection_keypoints", np.full((1, 4, 5, 3), b"1", np.object_), "FP32 is expected"),
        ("detection_angles", np.full((1, 4), b"1", np.object_), "FP32 is expected"),
        ("detection_rle", np.zeros((1, 4), np.int32), "BYTES is expected"),
        ("detection_rle", np.array([[{"a": 1}, b"", b"", b""]], np.object_), "texts are expected"),
        ("mask_size", np.array([[b"6", b"9"]], np.object_), "INT32 is expected"),
        ("mask_size", np.array([[np.nan, 9]], np.float32), "INT32 is expected"),
        ("mask_size", np.array([[2**40, 9]], np.int64), "INT32 is expected"),
    ],
)
def test_another_data_type_is_refused(name: str, value: NDArray[Any], said: str) -> None:
    with pytest.raises(RequestError, match=f"returned {name} of type .*{said}") as caught:
        read_rows(EVERY | {name: value}, None)
    assert caught.value.status_name == "internal"


@pytest.mark.parametrize("name", ["detection_keypoints", "detection_angles"])
@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_rows_that_count_are_finite(name: str, value: float) -> None:
    for row, counts in ((1, True), (2, False)):
        tensor = EVERY[name].copy()  # type: ignore[union-attr]
        tensor[0, row] = value
        if not counts:
            assert len(read_rows(EVERY | {name: tensor}, None)) == KEPT
            continue
        with pytest.raises(RequestError, match=f"{name} with a number that is not finite"):
            read_rows(EVERY | {name: tensor}, None)


# --- corners --------------------------------------------------------------------------------------


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
