"""From a classifier's tensors to classes and class names, and the task of a model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from endcap.client import ClassScore, ImageResult, Task
from endcap.client.calls import TensorSpec
from endcap.client.errors import RequestError
from endcap.client.response_reader import ResponseReader, read_classes
from endcap.client.served_model import (
    ModelMetadata,
    ServedModel,
    image_input,
    why_no_images,
)
from endcap.detections import PROBABILITIES, task_of, why_no_task
from endcap.errors import InvalidArgumentError
from endcap.triton.labels import parse_labels

Tensors = dict[str, NDArray[Any] | None]

CLASSIFIER = ServedModel(
    "classify",
    Task.classification,
    TensorSpec("BYTES", (-1, 1)),
    {PROBABILITIES: TensorSpec("FP32", (-1, 4))},
)


def response() -> Tensors:
    return {
        "class_scores": np.array([[0.75, 0.25]], np.float32),
        "class_ids": np.array([[2, 0]], np.int32),
        "class_labels": np.array([["fish 🐟".encode(), b""]], np.object_),
        "status": np.array([[0]], np.int32),
    }


def test_classes_are_in_the_order_of_the_response() -> None:
    classes = read_classes(response(), None)
    assert classes == [ClassScore(2, 0.75, "fish 🐟"), ClassScore(0, 0.25, None)]
    assert {type(each.score) for each in classes} == {float}
    assert {type(each.class_id) for each in classes} == {int}


def test_rows_without_a_class_are_left_out() -> None:
    given = {**response(), "class_ids": np.array([[2, -1]], np.int32)}
    assert [each.class_id for each in read_classes(given, None)] == [2]


def test_labels_by_id_take_precedence_over_the_responses() -> None:
    assert [each.label for each in read_classes(response(), ["cat", "dog", "trout"])] == [
        "trout", "cat"
    ]  # fmt: skip
    assert [each.label for each in read_classes(response(), ["cat"])] == ["fish 🐟", "cat"]


@pytest.mark.parametrize("name", ["class_labels", "status"])
def test_an_output_that_may_be_left_out(name: str) -> None:
    classes = read_classes(response() | {name: None}, None)
    assert [each.class_id for each in classes] == [2, 0]


def test_a_status_that_is_not_ok_is_the_images_error() -> None:
    with pytest.raises(RequestError, match="corrupt_image") as caught:
        read_classes(response() | {"status": np.array([[1]], np.int32)}, None)
    assert caught.value.status_name == "corrupt_image"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("class_ids", np.zeros((1, 3), np.int32), "do not fit together"),
        ("class_labels", np.array([[b"cat"]], np.object_), "do not fit together"),
        ("class_scores", np.array([[np.nan, 0]], np.float32), "not finite"),
        ("class_scores", None, "has no class_scores; .* outputs class_scores, class_ids"),
        ("class_ids", np.zeros((1, 0), np.int32), "has no class_ids"),
        ("class_ids", np.full((1, 2), np.nan, np.float32), "type FP32; INT32 is expected"),
        ("class_ids", np.full((1, 2), b"a", np.object_), "type BYTES; INT32 is expected"),
        ("class_scores", np.full((1, 2), b"1", np.object_), "type BYTES; FP32 is expected"),
        ("class_labels", np.array([[{}, None]], np.object_), "texts are expected"),
        ("status", np.array([[b"a"]], np.object_), "type BYTES; INT32 is expected"),
    ],
)
def test_what_does_not_fit_together_is_refused(
    name: str, value: NDArray[Any] | None, said: str
) -> None:
    with pytest.raises(RequestError, match=said) as caught:
        read_classes(response() | {name: value}, None)
    assert caught.value.status_name == "internal"


def test_two_images_in_one_response_are_refused() -> None:
    two = {
        name: np.repeat(tensor, 2, axis=0)
        for name, tensor in response().items()
        if tensor is not None
    }
    with pytest.raises(RequestError, match="do not fit together"):
        read_classes({**two, "status": None}, None)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.array([[0.5, np.nan]], np.float32), "type FP32; BYTES is expected"),
        (np.array([[b"0.5:1:cat", {}]], np.object_), "an element of type dict; texts are expected"),
        (np.array([[b"0.5:cat"]], np.object_), "not score:id:label"),
    ],
)
def test_best_classes_of_another_type_are_refused(value: NDArray[Any], said: str) -> None:
    with pytest.raises(RequestError, match=said) as caught:
        ResponseReader(CLASSIFIER, best_classes=3).read({"class_probabilities": value})
    assert caught.value.status_name == "internal"


def test_json_has_classes_in_place_of_detections() -> None:
    classes = [ClassScore(2, 0.75, "fish")]
    result = ImageResult("a.jpg", "ok", classes=classes, task=Task.classification)
    assert result.to_dict() == {
        "image": "a.jpg",
        "status": "ok",
        "classes": [{"class_id": 2, "label": "fish", "score": 0.75}],
    }
    failed = ImageResult("b.jpg", "timeout", error="late", task=Task.classification)
    assert failed.to_dict() == {
        "image": "b.jpg", "status": "timeout", "classes": [], "error": "late"
    }  # fmt: skip


# --- names of classes -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("cat,dog", ["cat", "dog"]),
        (" cat , dog ", ["cat", "dog"]),
        ("cat,,dog", ["cat", "", "dog"]),
        ("cat", ["cat"]),
        ("", []),
        ('["cat", "dog, small", "[fish]"]', ["cat", "dog, small", "[fish]"]),
        (' [" ä\\u00df "]\n', [" äß "]),
        ("[]", []),
    ],
)
def test_labels(text: str, names: list[str]) -> None:
    assert parse_labels(text) == names


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('["cat", "dog"', "no JSON list: "),
        ("[cat, dog]", "no JSON list: "),
        ("[" * 100_000, "no JSON list: "),
        ('["cat", 2]', "label 1 of the JSON list is 2; give texts only"),
        ('[["cat"]]', r'label 0 of the JSON list is \["cat"\]'),
    ],
)
def test_labels_that_are_no_list_are_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=said) as caught:
        parse_labels(text)
    assert "\n" not in str(caught.value)


# --- which task -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outputs", "task"),
    [
        (set(Task.detection.outputs), Task.detection),
        ({*Task.detection.outputs, "track_ids"}, Task.detection),
        ({"class_scores", "class_ids"}, Task.classification),
        ({*Task.classification.outputs, "class_probabilities"}, Task.classification),
        ({"class_ids", "class_labels"}, None),
        ({"detection_boxes", "class_scores", "class_ids"}, None),
        ({"images", "geometry", "status"}, None),
        ({"images", "geometry", "heat"}, Task.tensors),
        ({"heat", "status"}, None),
    ],
)
def test_the_task_follows_from_the_outputs(outputs: set[str], task: Task | None) -> None:
    assert task_of(outputs) is task


@pytest.mark.parametrize(
    ("outputs", "reason"),
    [
        (["images", "status"], "its outputs are images, status"),
        (
            ["detection_boxes", "detection_scores", "num_detections", "detection_classes"],
            "of the outputs of detection it lacks detection_indices, status",
        ),
        (["class_ids"], "of the outputs of classification it lacks class_scores"),
    ],
)
def test_why_a_model_has_no_task(outputs: list[str], reason: str) -> None:
    assert task_of(outputs) is None
    assert why_no_task(outputs) == reason


CLASSES = {"class_scores": TensorSpec("FP32", (5,)), "class_ids": TensorSpec("INT32", (5,))}


@pytest.mark.parametrize(
    ("name", "datatype", "shape"),
    [
        ("encoded", "BYTES", (-1, 1)),
        ("raw_image", "BYTES", (1,)),
        ("IMAGE", "BYTES", (-1, -1)),
        ("jpeg", "UINT8", (-1,)),
        ("jpeg", "UINT8", (-1, -1)),
    ],
)
def test_any_single_input_of_bytes_takes_images(
    name: str, datatype: str, shape: tuple[int, ...]
) -> None:
    metadata = ModelMetadata({name: TensorSpec(datatype, shape)}, CLASSES)
    assert image_input(metadata.inputs) == name
    assert why_no_images(metadata) is None


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"images": ("FP32", (-1, 3, 640, 640))}, "images FP32 [-1,3,640,640]"),
        ({"pixels": ("UINT8", (-1, 480, 640, 3))}, "pixels UINT8 [-1,480,640,3]"),
        ({"pixels": ("UINT8", (-1, 64))}, "pixels UINT8 [-1,64]"),
        (
            {"encoded": ("BYTES", (-1, 1)), "rois": ("FP32", (-1, 4))},
            "encoded BYTES [-1,1], rois FP32 [-1,4]",
        ),
    ],
)
def test_other_inputs_are_named_with_their_shapes(
    inputs: dict[str, tuple[str, tuple[int, ...]]], said: str
) -> None:
    specs = {name: TensorSpec(*each) for name, each in inputs.items()}
    assert image_input(specs) is None
    reason = why_no_images(ModelMetadata(specs, CLASSES))
    assert reason == f"its inputs are {said}, and one of encoded images is expected"
