"""From a response's tensors to detections and classes, and responses that are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from endcap.client import ClassScore, Detection, ImageDetections, ImageResult, Task, results
from endcap.client.errors import RequestError
from endcap.client.results import ResponseReader
from endcap.client.served_model import ServedModel, TensorSpec
from endcap.errors import Status
from endcap.masks import decode_rle, encode_rle
from endcap.results import PROBABILITIES, status_name

Tensors = dict[str, NDArray[Any] | None]

ROWS, KEPT = 4, 2
LABELS = ["ring", "star"]
MASKS = [encode_rle(np.tri(6, 9, k, dtype=bool)) for k in range(KEPT)]
KEYPOINTS = np.arange(ROWS * 5 * 3, dtype=np.float32).reshape(1, ROWS, 5, 3)

# Rows beyond KEPT hold what must not be read: numbers that are not finite.
DETECTIONS: Tensors = {
    "num_detections": np.array([[KEPT]], np.int32),
    "detection_boxes": np.float32([[[0, 0.5, 10, 20], [1, 1.5, 11, 21], [np.nan] * 4, [0] * 4]]),
    "detection_scores": np.float32([[0.75, 0.5, np.inf, 0]]),
    "detection_classes": np.int32([[0, 7, 0, 0]]),
    "detection_indices": np.int32([[100, 101, -1, -1]]),
    "status": np.array([[0]], np.int32),
}
EVERY: Tensors = {
    **DETECTIONS,
    "detection_keypoints": KEYPOINTS,
    "detection_angles": np.float32([[0.5, -3.25, np.nan, 0]]),
    "detection_rle": np.array([[*MASKS, b"", b""]], np.object_),
    "mask_size": np.int32([[6, 9]]),
    "track_ids": np.int64([[5, 2**40, 0, 0]]),
    "class_ids": np.int32([[7, -1, 2, -1]]),
    "class_scores": np.float32([[0.5, 0, 0.25, 0]]),
    "class_labels": np.array([[b"purple", b"", b"", b""]], np.object_),
}
CLASSES: Tensors = {
    "class_scores": np.array([[0.75, 0.25]], np.float32),
    "class_ids": np.array([[2, 0]], np.int32),
    "class_labels": np.array([["fish 🐟".encode(), b""]], np.object_),
    "status": np.array([[0]], np.int32),
}
DETECTOR = ResponseReader(ServedModel("detect", Task.detection, TensorSpec("BYTES", (-1, 1)), {}))
CLASSIFIER = ServedModel(
    "classify",
    Task.classification,
    TensorSpec("BYTES", (-1, 1)),
    {PROBABILITIES: TensorSpec("FP32", (-1, 4))},
)


def read_rows(tensors: Tensors, labels: list[str] | None) -> ImageDetections:
    return results.read_rows(tensors, dict(enumerate(labels or ())))


def read_classes(tensors: Tensors, labels: list[str] | None) -> list[ClassScore]:
    return results.read_classes(tensors, dict(enumerate(labels or ())))


def test_only_the_rows_that_count_are_read() -> None:
    first, second = read_rows(DETECTIONS, LABELS)
    assert first == Detection((0.0, 0.5, 10.0, 20.0), 0.75, 0, "ring", 100)
    assert second == Detection((1.0, 1.5, 11.0, 21.0), 0.5, 7, None, 101)
    kinds = [type(value) for value in (*second.box, second.score, second.class_id, second.index)]
    assert kinds == [float] * 5 + [int] * 2
    assert [each.label for each in read_rows(DETECTIONS, None)] == [None, None]
    assert len(read_rows({**DETECTIONS, "status": None}, None)) == 2


def test_each_row_has_its_own_extras() -> None:
    detections = read_rows(EVERY, LABELS)
    assert [each.angle for each in detections] == [0.5, -3.25]
    assert [each.track_id for each in detections] == [5, 2**40]
    best = [each.classification for each in detections]
    assert best == [ClassScore(7, 0.5, "purple"), None]
    for row, detection in enumerate(detections):
        assert detection.keypoints == [tuple(point) for point in KEYPOINTS[0, row].tolist()]
        assert detection.mask is not None
        assert detection.mask["size"] == [6, 9]
        mask = decode_rle(detection.mask["counts"], (6, 9))
        assert mask.tolist() == np.tri(6, 9, row, dtype=bool).tolist()
    text = np.array([[*(mask.decode() for mask in MASKS), "", ""]], np.object_)
    assert read_rows(EVERY | {"detection_rle": text}, LABELS) == detections
    unnamed, _ = read_rows(EVERY | {"class_labels": None}, LABELS)
    assert unnamed.classification == ClassScore(7, 0.5, None)


def test_a_response_may_have_no_detections() -> None:
    none: Tensors = {"num_detections": np.array([[0]], np.int32)}
    empty = {**none, "detection_rle": np.full((1, ROWS), b"", np.object_)}
    assert read_rows(EVERY | empty, LABELS) == []
    no_rows = {
        name: tensor[:, :0] if tensor is not None and tensor.shape[1] == ROWS else tensor
        for name, tensor in DETECTIONS.items()
    }
    assert read_rows(no_rows | none, LABELS) == []


def test_classes_are_in_the_order_of_the_response() -> None:
    classes = read_classes(CLASSES, None)
    assert classes == [ClassScore(2, 0.75, "fish 🐟"), ClassScore(0, 0.25, None)]
    assert {(type(each.score), type(each.class_id)) for each in classes} == {(float, int)}
    named = read_classes(CLASSES, ["cat", "dog", "trout"])
    assert [each.label for each in named] == ["trout", "cat"]
    for name in ("class_labels", "status"):
        assert [each.class_id for each in read_classes(CLASSES | {name: None}, None)] == [2, 0]
    without = CLASSES | {"class_ids": np.array([[2, -1]], np.int32)}
    assert [each.class_id for each in read_classes(without, None)] == [2]


@pytest.mark.parametrize("status", [each for each in Status if each != Status.OK])
def test_status_becomes_the_images_error(status: Status) -> None:
    tensors = DETECTIONS | {"status": np.array([[int(status)]], np.int32)}
    with pytest.raises(RequestError, match=status.label) as caught:
        DETECTOR.read(tensors)
    assert caught.value.status_name == status.label == status_name(int(status))
    assert status_name(99) == "internal"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("num_detections", np.array([[5]], np.int32), "do not fit together"),
        ("num_detections", np.array([[-1]], np.int32), "do not fit together"),
        ("num_detections", np.array([[np.nan]], np.float32), "int32 is expected"),
        ("num_detections", np.array([[b"a"]], np.object_), "int32 is expected"),
        ("num_detections", None, "returned no num_detections"),
        ("num_detections", np.zeros((0,), np.int32), "do not fit together"),
        ("status", np.zeros((0,), np.int32), r"status \(0,\) \[\], and \[1,1\] is"),
        ("status", np.array([[b"a"]], np.object_), "int32 is expected"),
        ("detection_boxes", np.zeros((1, 4, 5), np.float32), "do not fit together"),
        ("detection_boxes", np.zeros((4, 4), np.float32), "do not fit together"),
        ("detection_boxes", np.zeros((2, 4, 4), np.float32), "do not fit together"),
        ("detection_boxes", np.full((1, 4, 4), 1e300, np.float64), "float32 is expected"),
        ("detection_boxes", np.full((1, 4, 4), np.nan, np.float32), "is not finite"),
        ("detection_scores", np.zeros((1, 3), np.float32), "do not fit together"),
        ("detection_scores", np.float32([[0, np.inf, 0, 0]]), "is not finite"),
        ("detection_scores", None, "returned no detection_scores"),
        ("detection_classes", np.full((1, 4), b"a", np.object_), "int32 is expected"),
        ("detection_indices", np.full((1, 4), 2**40, np.int64), "int32 is expected"),
        ("detection_keypoints", np.zeros((1, 3, 5, 3), np.float32), r"and \[1,4,P,3\] is expected"),
        ("detection_keypoints", np.zeros((1, 4, 5, 2), np.float32), r"keypoints \(1, 4, 5, 2\)"),
        ("detection_keypoints", np.full((1, 4, 5, 3), -np.inf, np.float32), "is not finite"),
        ("detection_angles", np.zeros((4,), np.float32), r"angles \(4,\)"),
        ("detection_rle", np.full((1, 3), b"1", np.object_), r"rle \(1, 3\), and \[1,4\] is"),
        ("detection_rle", np.full((1, 4), b"", np.object_), "is not COCO's RLE"),
        ("detection_rle", np.full((1, 4), b"\xff", np.object_), "is not COCO's RLE"),
        (
            "detection_rle",
            np.array([[{"a": 1}, b"", b"", b""]], np.object_),
            "in a tensor of texts",
        ),
        ("mask_size", np.int32([[6, 9, 1]]), r"mask_size \(1, 3\), and \[1,2\] is"),
        ("mask_size", np.int32([[-6, 9]]), r"mask_size \(1, 2\) \[\[-6, 9\]\]"),
        ("mask_size", None, "detection_rle without mask_size"),
        ("class_ids", np.zeros((1, 3), np.int32), r"class_ids \(1, 3\), and \[1,4\] is"),
        ("class_scores", np.full((1, 4), np.nan, np.float32), "is not finite"),
        ("class_labels", np.zeros((1, 4), np.int32), "type int32; texts is expected"),
    ],
)
def test_detections_that_do_not_fit_together_are_refused(
    name: str, value: NDArray[Any] | None, said: str
) -> None:
    with pytest.raises(RequestError, match=said) as caught:
        DETECTOR.read(EVERY | {name: value})
    assert caught.value.status_name == "internal"
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("class_ids", np.zeros((1, 3), np.int32), "do not fit together"),
        ("class_labels", np.array([[b"cat"]], np.object_), "do not fit together"),
        ("class_scores", np.array([[np.nan, 0]], np.float32), "not finite"),
        ("class_scores", None, "returned no class_scores; .* outputs class_scores, class_ids"),
        ("class_ids", np.zeros((1, 0), np.int32), "do not fit together"),
        ("class_ids", np.zeros((2, 2), np.int32), "do not fit together"),
        ("class_scores", np.full((1, 2), b"1", np.object_), "type object; float32 is expected"),
        ("class_labels", np.array([[{}, None]], np.object_), "in a tensor of texts"),
    ],
)
def test_classes_that_do_not_fit_together_are_refused(
    name: str, value: NDArray[Any] | None, said: str
) -> None:
    with pytest.raises(RequestError, match=said) as caught:
        read_classes(CLASSES | {name: value}, None)
    assert caught.value.status_name == "internal"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.array([[0.5, np.nan]], np.float32), "type float32; texts is expected"),
        (np.array([[b"0.5:1:cat", {}]], np.object_), "an element of type dict"),
        (np.array([[b"0.5:cat"]], np.object_), "not score:id:label"),
    ],
)
def test_best_classes_of_another_type_are_refused(value: NDArray[Any], said: str) -> None:
    with pytest.raises(RequestError, match=said) as caught:
        ResponseReader(CLASSIFIER, best_classes=3).read({"class_probabilities": value})
    assert caught.value.status_name == "internal"


def test_json_has_what_the_model_gives() -> None:
    first, second = (each.to_dict() for each in read_rows(EVERY, LABELS))
    box = {"box": [0.0, 0.5, 10.0, 20.0], "score": 0.75, "class_id": 0, "label": "ring"}
    assert box.items() <= first.items()
    assert first["classification"] == {"class_id": 7, "label": "purple", "score": 0.5}
    assert "classification" not in second
    assert (second["keypoints"][1], second["angle"]) == ([18.0, 19.0, 20.0], -3.25)
    assert second["mask"] == {"size": [6, 9], "counts": MASKS[1].decode()}
    classes = ImageResult(
        "a.jpg", "ok", classes=[ClassScore(2, 0.75, "fish")], task=CLASSIFIER.task
    )
    found = [{"class_id": 2, "label": "fish", "score": 0.75}]
    assert classes.to_dict() == {"image": "a.jpg", "status": "ok", "classes": found}
    failed = ImageResult("b.jpg", "corrupt_image", error="not a JPEG").to_dict()
    assert failed == {
        "image": "b.jpg", "status": "corrupt_image", "detections": [], "error": "not a JPEG"
    }  # fmt: skip
