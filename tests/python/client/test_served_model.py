"""What a served model is: its task, its input of images, and its class names."""

from __future__ import annotations

import pytest

from endcap.client import Task
from endcap.client.served_model import TensorSpec, explain_no_images, find_image_input
from endcap.errors import InvalidArgumentError
from endcap.results import find_task, why_no_task
from endcap.triton.labels import parse_labels

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
    assert find_task(outputs) is task


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
    assert find_task(outputs) is None
    assert why_no_task(outputs) == reason


OUTPUTS = {"class_scores": TensorSpec("FP32", (5,)), "class_ids": TensorSpec("INT32", (5,))}


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
    inputs = {name: TensorSpec(datatype, shape)}
    assert find_image_input(inputs) == name
    assert explain_no_images(inputs, OUTPUTS) is None


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
    assert find_image_input(specs) is None
    reason = explain_no_images(specs, OUTPUTS)
    assert reason == f"its inputs are {said}, and one of encoded images is expected"
