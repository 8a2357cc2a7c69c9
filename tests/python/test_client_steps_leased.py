"""The way over steps of the client with a lease: its tensors lie in shared memory, uncopied."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from leased_steps import Leased
from steps_by_hand import PICTURES, Json, detector, drive, go, read_steps, v8

import endcap
from endcap.client.calls import Call, OutputTensor, Response, SharedSlice
from endcap.client.errors import RequestError
from endcap.client.shared_memory.region import SystemRegion
from endcap.client.steps import ClientPipeline
from endcap.errors import InvalidArgumentError


@pytest.fixture
def configs() -> dict[str, Json]:
    """Those of a YOLOv8, to change."""
    return copy.deepcopy(v8())


@pytest.fixture
def leased() -> Iterator[Callable[[int], Leased]]:
    made = []

    def make(byte_size: int) -> Leased:
        made.append(Leased(SystemRegion(byte_size)))
        return made[-1]

    yield make
    for each in made:
        each.region.remove()


@pytest.mark.parametrize("count", [1, 2])
def test_answers_equal_those_over_the_wire(leased: Callable[[int], Leased], count: int) -> None:
    pipeline = ClientPipeline(read_steps(v8()))
    shared = leased(pipeline.region_bytes(count))
    found = drive(pipeline, PICTURES[:count], shared.answer(detector(v8())), shared.lease)
    for given, expected in zip(found, go(pipeline, PICTURES[:count], detector(v8())), strict=True):
        for name, rows in expected.items():
            np.testing.assert_array_equal(given[name], rows)
    (call,) = shared.asked
    assert isinstance(call.inputs[0].data, SharedSlice)
    assert call.outputs[0].shared is not None
    assert shared.lease.end() is None, "a view lives on"


def test_the_region_is_as_large_as_it_has_to_be(leased: Callable[[int], Leased]) -> None:
    pipeline = ClientPipeline(read_steps(v8()))
    shared = leased(pipeline.region_bytes(2) - 64)
    with pytest.raises(InvalidArgumentError, match="give region_bytes="):
        drive(pipeline, PICTURES, shared.answer(detector(v8())), shared.lease)


def test_the_head_goes_on_to_the_server_without_coming_here(
    leased: Callable[[int], Leased],
) -> None:
    pipeline = ClientPipeline(
        read_steps(v8()), postprocess="server", outputs=[OutputTensor("num_detections")]
    )
    shared = leased(pipeline.region_bytes(1))

    def answer(call: Call) -> Response:
        if call.model == "detector":
            return detector(v8())(call)
        assert {each.name for each in call.inputs} == {"head", "geometry", "status"}
        (head,) = (each.data for each in call.inputs if each.name == "head")
        found = endcap.Postprocessor("yolov8", 3)(head)
        assert isinstance(found, endcap.Detections)
        return Response({"num_detections": found.num_detections[:, None]})

    (found,) = drive(pipeline, PICTURES[:1], shared.answer(answer), shared.lease)
    (expected,) = go(ClientPipeline(read_steps(v8())), PICTURES[:1], detector(v8()))
    assert found["num_detections"].tolist() == expected["num_detections"].tolist()
    between, last = shared.asked
    heads = [each.data for each in last.inputs if each.name == "head"]
    assert heads == [between.outputs[0].shared]
    assert shared.lease.end() is None, "a view lives on"


def test_a_head_of_any_length_goes_over_the_wire(
    leased: Callable[[int], Leased], configs: dict[str, Json]
) -> None:
    configs["detector"]["output"][0]["dims"] = ["-1", "-1"]
    pipeline = ClientPipeline(read_steps(configs))
    assert pipeline.region_bytes(1) == 3 * 64 * 64 * 4
    shared = leased(pipeline.region_bytes(1))
    (found,) = drive(pipeline, PICTURES[:1], shared.answer(detector(configs)), shared.lease)
    assert shared.asked[0].outputs[0].shared is None
    assert found["num_detections"] > 3


def _refused(call: Call) -> Response:
    raise RequestError("unavailable", "the server is gone")


@pytest.mark.parametrize(
    ("image", "answer", "status"),
    [(b"no picture", detector(v8()), "corrupt_image"), (PICTURES[0], _refused, "unavailable")],
    ids=["bad image", "no answer"],
)
def test_no_view_lives_on_in_the_traceback_of_a_failure(
    leased: Callable[[int], Leased], image: bytes, answer: Callable[[Call], Response], status: str
) -> None:
    pipeline = ClientPipeline(read_steps(v8()))
    shared = leased(pipeline.region_bytes(1))
    with pytest.raises(RequestError) as failure:
        drive(pipeline, [image], shared.answer(answer), shared.lease)
    assert failure.value.status_name == status
    assert failure.value.__traceback__ is not None
    assert shared.lease.end() is None


def test_a_type_that_numpy_lacks_has_no_room_in_a_lease(configs: dict[str, Json]) -> None:
    configs["detector"]["output"][0]["data_type"] = "TYPE_BF16"
    assert ClientPipeline(read_steps(configs)).region_bytes(1) == 3 * 64 * 64 * 4
