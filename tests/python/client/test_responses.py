"""Requests for batches of images, and from a response's tensors to detections and classes."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tritonclient.http as tritonclient
from numpy.typing import NDArray

from endcap.client import ClassScore, Detection, ImageResult, SequenceStep, Task
from endcap.client.errors import RequestError
from endcap.client.results import PROBABILITIES, status_name
from endcap.client.served_model import ServedModel, TensorSpec
from endcap.client.tensors import MAX_IMAGE_BYTES, ModelTensors
from endcap.errors import InvalidArgumentError, Status
from endcap.masks import decode_rle, encode_rle

Tensors = dict[str, Any]

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
DETECTOR = ServedModel("detect", Task.detection, TensorSpec("BYTES", (-1, 1)), {}, batch_limit=4)
CLASSIFIER = replace(
    DETECTOR,
    name="classify",
    task=Task.classification,
    outputs={PROBABILITIES: TensorSpec("FP32", (-1, 4))},
)


def read(model: ServedModel, tensors: Tensors, *labels: Any) -> dict[str, Any]:
    outcome = ModelTensors(model, tritonclient, *labels).read(tensors)
    if isinstance(outcome, RequestError):
        raise outcome
    return outcome


def read_rows(tensors: Tensors, labels: list[str] | None = None) -> Any:
    return read(DETECTOR, tensors, labels)["detections"]


def read_classes(tensors: Tensors, labels: list[str] | None = None) -> Any:
    return read(CLASSIFIER, tensors, labels)["classes"]


def test_only_the_rows_that_count_are_read() -> None:
    first, second = read_rows(DETECTIONS, LABELS)
    assert first == Detection((0.0, 0.5, 10.0, 20.0), 0.75, 0, "ring", 100)
    assert second == Detection((1.0, 1.5, 11.0, 21.0), 0.5, 7, None, 101)
    kinds = [type(value) for value in (*second.box, second.score, second.class_id, second.index)]
    assert kinds == [float] * 5 + [int] * 2
    assert [each.label for each in read_rows({**DETECTIONS, "status": None})] == [None, None]


def test_each_row_has_its_own_extras() -> None:
    detections = read_rows(EVERY, LABELS)
    assert [each.angle for each in detections] == [0.5, -3.25]
    assert [each.track_id for each in detections] == [5, 2**40]
    best = [each.classification for each in detections]
    assert best == [ClassScore(7, 0.5, "purple"), None]
    for row, detection in enumerate(detections):
        assert detection.keypoints == [tuple(point) for point in KEYPOINTS[0, row].tolist()]
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
    no_rows = {n: each[:, :0] if each.shape[1] == ROWS else each for n, each in DETECTIONS.items()}
    assert read_rows(no_rows | none, LABELS) == []


def test_classes_are_in_the_order_of_the_response() -> None:
    classes = read_classes(CLASSES)
    assert classes == [ClassScore(2, 0.75, "fish 🐟"), ClassScore(0, 0.25, None)]
    assert {(type(each.score), type(each.class_id)) for each in classes} == {(float, int)}
    named = read_classes(CLASSES, ["cat", "dog", "trout"])
    assert [each.label for each in named] == ["trout", "cat"]
    for name in ("class_labels", "status"):
        assert [each.class_id for each in read_classes(CLASSES | {name: None})] == [2, 0]
    without = CLASSES | {"class_ids": np.array([[2, -1]], np.int32)}
    assert [each.class_id for each in read_classes(without)] == [2]


@pytest.mark.parametrize("status", [each for each in Status if each != Status.OK])
def test_status_becomes_the_images_error(status: Status) -> None:
    with pytest.raises(RequestError, match=status.label) as caught:
        read_rows(DETECTIONS | {"status": np.array([[int(status)]], np.int32)})
    assert caught.value.status_name == status.label == status_name(int(status))
    assert status_name(99) == "internal"


def assert_refused(read: Any, tensors: Tensors, said: str) -> None:
    with pytest.raises(RequestError, match=said) as caught:
        read(tensors)
    assert caught.value.status_name == "internal"
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("read", "tensors", "name"),
    [
        *[(read_rows, EVERY, name) for name in EVERY],
        *[(read_classes, CLASSES, name) for name in CLASSES],
    ],
)
def test_a_tensor_of_another_shape_or_type_is_refused(
    read: Any, tensors: Tensors, name: str
) -> None:
    good = tensors[name]
    texts = good.dtype == np.object_
    for value, said in (
        (np.concatenate([good[0], good[0]]), "do not fit together"),
        (np.concatenate([good, good]), "do not fit together"),
        (good[:, :0], "do not fit together|returned no"),
        (np.zeros(good.shape, np.float64), f"{name} of type float64; .* is expected"),
        (np.full(good.shape, None if texts else b"a", np.object_), "texts|of type object"),
    ):
        assert_refused(read, tensors | {name: value}, said)
    if good.dtype == np.float32:
        assert_refused(read, tensors | {name: np.full_like(good, -np.inf)}, "is not finite")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("num_detections", np.array([[5]], np.int32), "do not fit together"),
        ("num_detections", np.array([[-1]], np.int32), "do not fit together"),
        ("num_detections", None, "returned no num_detections"),
        ("detection_boxes", np.zeros((1, 4, 5), np.float32), "do not fit together"),
        ("detection_scores", None, "returned no detection_scores"),
        ("detection_keypoints", np.zeros((1, 3, 5, 3), np.float32), r"and \[1,4,P,3\] is expected"),
        ("detection_keypoints", np.zeros((1, 4, 5, 2), np.float32), "do not fit together"),
        ("detection_rle", np.full((1, 4), b"", np.object_), "is not COCO's RLE"),
        ("detection_rle", np.full((1, 4), b"\xff", np.object_), "is not COCO's RLE"),
        ("mask_size", np.int32([[-6, 9]]), r"mask_size \(1, 2\) \[\[-6, 9\]\]"),
        ("mask_size", None, "detection_rle without mask_size"),
    ],
)
def test_detections_that_do_not_fit_together_are_refused(
    name: str, value: NDArray[Any] | None, said: str
) -> None:
    assert_refused(read_rows, EVERY | {name: value}, said)


def test_a_classifier_without_scores_or_with_another_number_of_labels_is_refused() -> None:
    said = "returned no class_scores; .* outputs class_scores, class_ids"
    assert_refused(read_classes, CLASSES | {"class_scores": None}, said)
    one = np.array([[b"cat"]], np.object_)
    assert_refused(read_classes, CLASSES | {"class_labels": one}, "do not fit together")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.array([[0.5, np.nan]], np.float32), "type float32; texts is expected"),
        (np.array([[b"0.5:1:cat", {}]], np.object_), "an element of type dict"),
        (np.array([[b"0.5:cat"]], np.object_), "not score:id:label"),
    ],
)
def test_best_classes_of_another_type_are_refused(value: NDArray[Any], said: str) -> None:
    given = {"class_probabilities": value}
    assert_refused(lambda each: read(CLASSIFIER, each, None, 3), given, said)


def test_json_has_what_the_model_gives() -> None:
    first, second = (each.to_dict() for each in read_rows(EVERY, LABELS))
    box = {"box": [0.0, 0.5, 10.0, 20.0], "score": 0.75, "class_id": 0, "label": "ring"}
    assert box.items() <= first.items()
    assert first["classification"] == {"class_id": 7, "label": "purple", "score": 0.5}
    assert "classification" not in second
    assert (second["keypoints"][1], second["angle"]) == ([18.0, 19.0, 20.0], -3.25)
    assert second["mask"] == {"size": [6, 9], "counts": MASKS[1].decode()}
    classes = ImageResult("a.jpg", "ok", classes=[ClassScore(2, 0.75)], task=Task.classification)
    found = [{"class_id": 2, "label": None, "score": 0.75}]
    assert classes.to_dict() == {"image": "a.jpg", "status": "ok", "classes": found}
    failed = ImageResult("b.jpg", "corrupt_image", error="not a JPEG").to_dict()
    assert failed == {
        "image": "b.jpg", "status": "corrupt_image", "detections": [], "error": "not a JPEG"
    }  # fmt: skip


# --- batches --------------------------------------------------------------------------------------

OUTPUTS = {
    "detection_boxes": TensorSpec("FP32", (-1, 3, 4)),
    "status": TensorSpec("INT32", (-1, 1)),
    "detection_rle": TensorSpec("BYTES", (-1, 3)),
    "detection_keypoints": TensorSpec("FP32", (-1, 3, -1, 3)),
}


class Result(Tensors):
    """What a server has returned, as tritonclient gives it."""

    as_numpy = dict.get


def make_format(spec: TensorSpec = DETECTOR.input, outputs: Any = tuple(OUTPUTS)) -> ModelTensors:
    model = replace(DETECTOR, input=spec, outputs={name: OUTPUTS[name] for name in outputs})
    return ModelTensors(model, tritonclient)


@pytest.mark.parametrize(
    ("spec", "images", "shape", "end"),
    [
        (DETECTOR.input, [b"one", b"three"], [2, 1], b"\3\0\0\0one\5\0\0\0three"),
        (TensorSpec("BYTES", (1,)), [b"four"], [1], b"\4\0\0\0four"),
        (TensorSpec("UINT8", (-1,)), [b"four"], [4], b"four"),
        (TensorSpec("UINT8", (-1, -1)), [b"four"], [1, 4], b"four"),
    ],
)
def test_images_have_the_shape_that_the_model_takes(
    spec: TensorSpec, images: list[bytes], shape: list[int], end: bytes
) -> None:
    requests = make_format(spec, ["detection_boxes"])
    arguments = requests.make_arguments(images, "x-1")
    (tensor,) = arguments["inputs"]
    assert (tensor.name(), tensor.datatype(), tensor.shape()) == ("encoded", spec.datatype, shape)
    assert tensor._get_binary_data() == end
    assert [each.name() for each in arguments["outputs"]] == ["detection_boxes"]
    assert (arguments["model_name"], arguments["request_id"]) == ("detect", "x-1")
    boxes = np.zeros((len(images), 3, 4) if len(spec.shape) > 1 else (3, 4), np.float32)
    parts = requests.split(Result(detection_boxes=boxes), len(images))
    assert [part["detection_boxes"].shape for part in parts] == [(1, 3, 4)] * len(images)


@pytest.mark.parametrize("shape", [(3, 3, 4), (), (1, 3, 4)])
def test_a_response_to_another_batch_is_refused(shape: tuple[int, ...]) -> None:
    tensors = Result(detection_boxes=np.zeros(shape, np.float32))
    said = "for a batch of 2; its first side must be 2"
    assert_refused(lambda each: make_format().split(each, 2), tensors, said)


def test_a_region_has_room_for_images_and_outputs_of_known_size() -> None:
    for batch, outputs in itertools.product((1, 4), (2, 4)):
        found = make_format(outputs=[*OUTPUTS][:outputs]).count_region_bytes(batch)
        needed = batch * (MAX_IMAGE_BYTES + 3 * 4 * 4 + 4)
        assert needed <= found <= needed + 512


@pytest.mark.parametrize("sequence", [0, -1, 2**64, "", "x" * 129])
def test_invalid_sequence_ids_are_refused(sequence: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="cannot be the id of a sequence"):
        SequenceStep(sequence)
