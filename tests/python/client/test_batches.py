"""Requests for batches of images, and the parts of their responses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tritonclient.http as tritonclient

from endcap.client.errors import RequestError
from endcap.client.requests import MAX_IMAGE_BYTES, RequestFormat
from endcap.client.served_model import ServedModel, TensorSpec
from endcap.results import Task

MODEL = ServedModel(
    "detect",
    Task.detection,
    TensorSpec("BYTES", (-1, 1)),
    {
        "detection_boxes": TensorSpec("FP32", (-1, 3, 4)),
        "status": TensorSpec("INT32", (-1, 1)),
        "detection_rle": TensorSpec("BYTES", (-1, 3)),
        "detection_keypoints": TensorSpec("FP32", (-1, 3, -1, 3)),
    },
    batch_limit=4,
)


class Result:
    """What a server has returned, as tritonclient gives it."""

    def __init__(self, **tensors: np.ndarray) -> None:
        self._tensors = tensors

    def as_numpy(self, name: str) -> np.ndarray | None:
        return self._tensors.get(name)


def form(model: ServedModel, *outputs: str) -> RequestFormat:
    return RequestFormat(model, dict.fromkeys(outputs, 0), tritonclient)


def body(given: Any) -> bytes:
    return bytes(given._get_binary_data())


def test_a_batch_is_one_input_of_bytes() -> None:
    arguments = form(MODEL, "detection_boxes", "status").make_arguments([b"one", b"three"], "x-1")
    (tensor,) = arguments["inputs"]
    assert (tensor.name(), tensor.datatype(), tensor.shape()) == ("encoded", "BYTES", [2, 1])
    assert body(tensor) == b"\3\0\0\0one\5\0\0\0three"
    assert [each.name() for each in arguments["outputs"]] == ["detection_boxes", "status"]
    assert (arguments["model_name"], arguments["request_id"]) == ("detect", "x-1")


@pytest.mark.parametrize(
    ("spec", "shape"),
    [
        (TensorSpec("BYTES", (1,)), [1]),
        (TensorSpec("BYTES", (1, 1)), [1, 1]),
        (TensorSpec("UINT8", (-1,)), [4]),
        (TensorSpec("UINT8", (-1, -1)), [1, 4]),
    ],
)
def test_one_image_has_the_shape_that_the_model_takes(spec: TensorSpec, shape: list[int]) -> None:
    model = replace(MODEL, input=spec)
    requests = form(model, "detection_boxes")
    (tensor,) = requests.make_arguments([b"four"], "x-1")["inputs"]
    assert (tensor.datatype(), tensor.shape()) == (spec.datatype, shape)
    assert body(tensor).endswith(b"four")
    boxes = np.zeros((1, 3, 4) if model.batched else (3, 4), np.float32)
    (tensors,) = requests.read(Result(detection_boxes=boxes), 1)
    assert tensors["detection_boxes"] is not None
    assert tensors["detection_boxes"].shape == (1, 3, 4)


@pytest.mark.parametrize("shape", [(3, 3, 4), (), (1, 3, 4)])
def test_a_response_to_another_batch_is_refused(shape: tuple[int, ...]) -> None:
    result = Result(detection_boxes=np.zeros(shape, np.float32))
    with pytest.raises(RequestError, match="for a batch of 2; its first side must be 2") as caught:
        form(MODEL, "detection_boxes").read(result, 2)
    assert caught.value.status_name == "internal"


def test_a_region_has_room_for_images_and_outputs_of_known_size() -> None:
    fixed = form(MODEL, "detection_boxes", "status")
    more = form(MODEL, "detection_boxes", "status", "detection_rle", "detection_keypoints")
    for batch in (1, 4):
        needed = batch * (MAX_IMAGE_BYTES + 3 * 4 * 4 + 4)
        assert needed <= fixed.count_region_bytes(batch) <= needed + 512
        assert more.count_region_bytes(batch) == fixed.count_region_bytes(batch)
