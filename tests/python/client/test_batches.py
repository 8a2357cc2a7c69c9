"""Requests for batches of images, and the parts of their responses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from endcap.client.batches import MAX_IMAGE_BYTES, RequestFormat
from endcap.client.calls import Response, TensorSpec
from endcap.client.errors import RequestError
from endcap.client.served_model import ServedModel
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


def test_a_batch_is_one_input_of_bytes() -> None:
    requests = RequestFormat(MODEL, ["detection_boxes", "status"])
    call = requests.call([b"one", b"three"], "x-1")
    (tensor,) = call.inputs
    assert (tensor.name, tensor.datatype, tensor.shape) == ("encoded", "BYTES", (2, 1))
    assert np.asarray(tensor.data).tolist() == [[b"one"], [b"three"]]
    assert [each.name for each in call.outputs] == ["detection_boxes", "status"]
    assert (call.model, call.request_id) == ("detect", "x-1")


@pytest.mark.parametrize(
    ("spec", "shape"),
    [
        (TensorSpec("BYTES", (1,)), (1,)),
        (TensorSpec("BYTES", (1, 1)), (1, 1)),
        (TensorSpec("UINT8", (-1,)), (4,)),
        (TensorSpec("UINT8", (-1, -1)), (1, 4)),
    ],
)
def test_one_image_has_the_shape_that_the_model_takes(
    spec: TensorSpec, shape: tuple[int, ...]
) -> None:
    model = replace(MODEL, input=spec)
    requests = RequestFormat(model, ["detection_boxes"])
    call = requests.call([b"four"], "x-1")
    (tensor,) = call.inputs
    assert (tensor.datatype, tensor.shape) == (spec.datatype, shape)
    assert np.asarray(tensor.data).tolist() in ([b"four"], [[b"four"]], list(b"four"), [[*b"four"]])
    boxes = np.zeros((1, 3, 4) if model.batched else (3, 4), np.float32)
    (tensors,) = requests.read(call, Response({"detection_boxes": boxes}), 1)
    assert tensors["detection_boxes"] is not None
    assert tensors["detection_boxes"].shape == (1, 3, 4)


@pytest.mark.parametrize("shape", [(3, 3, 4), (), (1, 3, 4)])
def test_a_response_to_another_batch_is_refused(shape: tuple[int, ...]) -> None:
    requests = RequestFormat(MODEL, ["detection_boxes"])
    response = Response({"detection_boxes": np.zeros(shape, np.float32)})
    with pytest.raises(RequestError, match="for a batch of 2; its first side must be 2") as caught:
        requests.read(requests.call([b"1", b"2"], "x-1"), response, 2)
    assert caught.value.status_name == "internal"


def test_a_region_has_room_for_images_and_outputs_of_known_size() -> None:
    fixed = RequestFormat(MODEL, ["detection_boxes", "status"])
    more = RequestFormat(
        MODEL, ["detection_boxes", "status", "detection_rle", "detection_keypoints"]
    )
    for batch in (1, 4):
        needed = batch * (MAX_IMAGE_BYTES + 3 * 4 * 4 + 4)
        assert needed <= fixed.region_bytes(batch) <= needed + 512
        assert more.region_bytes(batch) == fixed.region_bytes(batch)
