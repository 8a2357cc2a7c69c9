"""What a served model is: its task, its input of images, and its class names."""

from __future__ import annotations

import pytest

from endcap.client import Task
from endcap.client.results import find_task, why_no_task
from endcap.client.served_model import TensorSpec, explain_inputs, find_image_input
from endcap.errors import InvalidArgumentError
from endcap.triton.labels import parse_labels


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


DETECTION = set(Task.detection.outputs)


@pytest.mark.parametrize(
    ("outputs", "task", "reason"),
    [
        (DETECTION, Task.detection, ""),
        ({*DETECTION, "track_ids"}, Task.detection, ""),
        ({"class_scores", "class_ids"}, Task.classification, ""),
        ({*Task.classification.outputs, "class_probabilities"}, Task.classification, ""),
        ({"images", "geometry", "heat"}, Task.tensors, ""),
        ({"class_ids", "class_labels"}, None, "of the outputs of classification it lacks class_"),
        ({"detection_boxes", "class_scores", "class_ids"}, None, "it lacks num_detections, detect"),
        (DETECTION - {"status"}, None, "of the outputs of detection it lacks status"),
        ({"images", "geometry", "status"}, None, "its outputs are geometry, images, status"),
        ({"heat", "status"}, None, "its outputs are heat, status"),
    ],
)
def test_the_task_follows_from_the_outputs(
    outputs: set[str], task: Task | None, reason: str
) -> None:
    assert find_task(outputs) is task
    if task is None:
        assert reason in why_no_task(outputs)


@pytest.mark.parametrize(
    "spec",
    [
        ("BYTES", (-1, 1)),
        ("BYTES", (1,)),
        ("BYTES", (-1, -1)),
        ("UINT8", (-1,)),
        ("UINT8", (-1, -1)),
    ],
)
def test_any_single_input_of_bytes_takes_images(spec: tuple[str, tuple[int, ...]]) -> None:
    for name in ("encoded", "raw_image"):
        assert find_image_input({name: TensorSpec(*spec)}) == name


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"images": TensorSpec("FP32", (-1, 3, 640, 640))}, "images FP32 [-1,3,640,640]"),
        ({"pixels": TensorSpec("UINT8", (-1, 480, 640, 3))}, "pixels UINT8 [-1,480,640,3]"),
        ({"pixels": TensorSpec("UINT8", (-1, 64))}, "pixels UINT8 [-1,64]"),
        (
            {"encoded": TensorSpec("BYTES", (-1, 1)), "rois": TensorSpec("FP32", (-1, 4))},
            "encoded BYTES [-1,1], rois FP32 [-1,4]",
        ),
    ],
)
def test_other_inputs_are_named_with_their_shapes(inputs: dict[str, TensorSpec], said: str) -> None:
    assert find_image_input(inputs) is None
    expected = f"its inputs are {said}, and one of encoded images is expected"
    assert explain_inputs(inputs) == expected
