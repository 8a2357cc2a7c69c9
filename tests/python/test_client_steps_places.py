"""Which steps the client takes, and which it asks the server for."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from steps_by_hand import PICTURES, Json, detector, go, parameters, read_steps, v8

import endcap
from endcap.client.calls import Call, OutputTensor, Response
from endcap.client.steps import ClientPipeline
from endcap.errors import InvalidArgumentError


@pytest.fixture
def configs() -> dict[str, Json]:
    """Those of a YOLOv8, to change."""
    return copy.deepcopy(v8())


def test_only_what_is_wanted_is_asked_for_and_made() -> None:
    pipeline = ClientPipeline(read_steps(v8()), outputs=[OutputTensor("detection_scores")])
    (found,) = go(pipeline, PICTURES[:1], detector(v8()))
    assert list(found) == ["detection_scores"]


@pytest.mark.parametrize("places", [("client", "server"), ("server", "client")])
def test_either_end_alone_asks_the_server_for_the_other(places: Any) -> None:
    preprocess, postprocess = places
    asked = []

    def answer(call: Call) -> Response:
        asked.append((call.model, [each.name for each in call.inputs]))
        if call.model == "detector":
            return detector(v8())(call)
        data = {each.name: each.data for each in call.inputs}
        if call.model == "preprocess":
            made = endcap.preprocess([file for (file,) in data["encoded"]], size=64)
            return Response(
                {"images": made.images, "geometry": made.geometry, "status": made.status[:, None]}
            )
        found = endcap.Postprocessor(**parameters(v8()["postprocess"]))(
            data["head"], data["geometry"], data["status"][:, 0]
        )
        assert isinstance(found, endcap.Detections)
        return Response(
            {"num_detections": found.num_detections[:, None], "detection_boxes": found.boxes}
        )

    wanted = [OutputTensor("num_detections"), OutputTensor("detection_boxes")]
    pipeline = ClientPipeline(
        read_steps(v8()), preprocess=preprocess, postprocess=postprocess, outputs=wanted
    )
    found = go(pipeline, PICTURES, answer)
    if preprocess == "server":
        assert asked == [("preprocess", ["encoded"]), ("detector", ["images"])]
    else:
        assert [model for model, _ in asked] == ["detector", "postprocess"]
        assert set(asked[1][1]) == {"head", "geometry", "status"}
    for result, expected in zip(
        found, go(ClientPipeline(read_steps(v8())), PICTURES, detector(v8())), strict=True
    ):
        for name, rows in result.items():
            np.testing.assert_array_equal(rows, expected[name])


def test_a_file_as_a_tensor_of_bytes(configs: dict[str, Json]) -> None:
    encoded = {"name": "encoded", "data_type": "TYPE_UINT8", "dims": ["-1"]}
    configs["detect"]["input"] = configs["preprocess"]["input"] = [encoded]
    pipeline = ClientPipeline(read_steps(configs), preprocess="server", postprocess="server")
    first = next(pipeline.steps(PICTURES[:1], None, ""))
    (tensor,) = first.inputs
    assert (tensor.datatype, tensor.shape) == ("UINT8", (1, len(PICTURES[0])))
    assert isinstance(tensor.data, np.ndarray)
    assert tensor.data.tobytes() == PICTURES[0]
    with pytest.raises(
        InvalidArgumentError, match="UINT8, which holds one file: give a batch of 1"
    ):
        next(pipeline.steps(PICTURES, None, ""))


def test_a_file_that_another_step_makes_is_preprocessed_by_the_server(
    configs: dict[str, Json],
) -> None:
    """An ensemble whose second half looks at a part that the first half has cut out."""
    first, *rest = configs["detect"]["ensemble_scheduling"]["step"]
    cutter = {
        "model_name": "cutter",
        "model_version": "-1",
        "input_map": {"images": "images"},
        "output_map": {"cut": "cut"},
    }
    again = copy.deepcopy(first)
    again["input_map"] = {"encoded": "cut"}
    again["output_map"] = {"images": "cut_images"}
    rest[0]["input_map"] = {"images": "cut_images"}
    configs["detect"]["ensemble_scheduling"]["step"] = [first, cutter, again, *rest]
    configs["cutter"] = {"backend": "python", "max_batch_size": 16}
    asked = []

    def answer(call: Call) -> Response:
        asked.append(call.model)
        if call.model == "cutter":
            return Response({"cut": np.array([[PICTURES[1]]], np.object_)})
        if call.model == "preprocess":
            (encoded,) = call.inputs
            assert isinstance(encoded.data, np.ndarray)
            return Response({"images": endcap.preprocess(encoded.data[0, 0], size=64).images})
        return detector(configs)(call)

    (found,) = go(ClientPipeline(read_steps(configs)), PICTURES[:1], answer)
    assert asked == ["cutter", "preprocess", "detector"]
    (expected,) = go(ClientPipeline(read_steps(v8())), PICTURES[1:], detector(v8()))
    np.testing.assert_array_equal(found["detection_scores"], expected["detection_scores"])
