"""Answers of a server that do not fit what the client was asked to do with them."""

from __future__ import annotations

import numpy as np
import pytest
from steps_by_hand import PICTURES, detector, go, read_steps, v8

from endcap.client.calls import Call, Response
from endcap.client.errors import RequestError
from endcap.client.steps import ClientPipeline


def test_an_answer_without_the_head_is_one_sentence() -> None:
    with pytest.raises(RequestError, match="the server's answer has no output0"):
        go(ClientPipeline(read_steps(v8())), PICTURES[:1], lambda call: Response({}))


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_an_answer_for_another_number_of_images_is_one_sentence(rows: int) -> None:
    def answer(call: Call) -> Response:
        full = detector(v8())(call).tensors["output0"]
        assert full is not None
        return Response({"output0": np.resize(full, (rows, *full.shape[1:]))})

    with pytest.raises(RequestError, match=rf"head \[{rows}, .*\] for 2 images"):
        go(ClientPipeline(read_steps(v8())), PICTURES, answer)


def test_a_head_of_another_shape_is_the_cores_sentence() -> None:
    with pytest.raises(RequestError) as failure:
        go(
            ClientPipeline(read_steps(v8())),
            PICTURES[:1],
            lambda call: Response({"output0": np.zeros((1, 5), np.float32)}),
        )
    assert failure.value.status_name == "invalid_argument"


def test_a_geometry_of_another_kind_is_one_sentence() -> None:
    pipeline = ClientPipeline(read_steps(v8()), preprocess="server")

    def answer(call: Call) -> Response:
        if call.model == "detector":
            return detector(v8())(call)
        images = np.zeros((1, 3, 64, 64), np.float32)
        geometry, status = np.zeros((1, 8), np.float64), np.zeros((1, 1), np.int32)
        return Response({"images": images, "geometry": geometry, "status": status})

    with pytest.raises(RequestError, match=r"geometry float64 \[1, 8\]; float32 \[1, 8\] is exp"):
        go(pipeline, PICTURES[:1], answer)
