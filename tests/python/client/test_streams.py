"""Requests in flight on a stream, the order of its results, and the steps of a sequence."""

from __future__ import annotations

import itertools

import numpy as np

from endcap.client.batches import RequestFormat
from endcap.client.calls import Response, SequenceStep, TensorSpec
from endcap.client.errors import RequestError
from endcap.client.response_reader import ResponseReader
from endcap.client.served_model import ServedModel
from endcap.client.stream import SequenceSteps, StreamImage, StreamOrder
from endcap.results import ImageResult, Task

OUTPUTS = ("detection_boxes", "detection_scores", "detection_classes", "detection_indices")
PARTS = ServedModel(
    "parts",
    Task.detection,
    TensorSpec("BYTES", (1,)),
    dict.fromkeys(OUTPUTS, TensorSpec("FP32", (-1,))),
    decoupled=True,
)
UNREADABLE = RequestError("unreadable", "cannot be read")


def make_order() -> StreamOrder:
    numbers = itertools.count(1)
    requests = RequestFormat(PARTS, OUTPUTS)
    return StreamOrder(requests, ResponseReader(PARTS), lambda: f"x-{next(numbers)}")


def enter(order: StreamOrder, count: int) -> list[str]:
    """Enters images; returns their requests' ids."""
    calls = [order.add(StreamImage(f"image {n}", b"file")) for n in range(count)]
    return [call.request_id for call in calls if call is not None]


def part(request_id: str, row: int, *, final: bool = False) -> Response:
    tensors = {
        "detection_boxes": np.zeros((1, 4), np.float32),
        "detection_scores": np.float32([0.5]),
        "detection_classes": np.int32([0]),
        "detection_indices": np.int32([row]),
    }
    return Response(tensors, request_id=request_id, final=final)


def end(request_id: str) -> Response:
    return Response(dict.fromkeys(OUTPUTS), request_id=request_id)


def told(results: list[ImageResult]) -> list[tuple[str, str, bool]]:
    return [(each.image, each.status, each.final) for each in results]


def test_later_images_wait_for_earlier_ones() -> None:
    order = make_order()
    first, second = enter(order, 2)
    order.received(part(second, 5))
    assert order.take() == []
    order.received(part(first, 1))
    assert told(order.take()) == [("image 0", "ok", False)]
    order.received(end(second))
    assert (order.take(), len(order), order.in_flight) == ([], 2, 1)
    order.received(part(first, 2, final=True))
    assert told(order.take()) == [
        ("image 0", "ok", True), ("image 1", "ok", False), ("image 1", "ok", True)
    ]  # fmt: skip
    assert (len(order), order.in_flight) == (0, 0)


def test_one_that_is_not_sent_keeps_its_place() -> None:
    order = make_order()
    (first,) = enter(order, 1)
    assert order.add(StreamImage("gone.jpg", UNREADABLE)) is None
    assert order.take() == []
    order.received(end(first))
    assert told(order.take()) == [("image 0", "ok", True), ("gone.jpg", "unreadable", True)]


def test_a_failure_with_an_id_is_that_requests() -> None:
    order = make_order()
    first, second = enter(order, 2)
    order.failed(RequestError("internal", "broken", request_id=second))
    order.received(end(first))
    assert told(order.take()) == [("image 0", "ok", True), ("image 1", "internal", True)]


def test_an_error_without_an_id_is_that_of_the_request_without_a_response() -> None:
    order = make_order()
    first, second, third = enter(order, 3)
    order.failed(RequestError("internal", "whose?"))
    assert order.take() == []
    order.received(end(first))
    order.received(end(third))
    assert told(order.take()) == [
        ("image 0", "ok", True), ("image 1", "internal", True), ("image 2", "ok", True)
    ]  # fmt: skip
    order.received(end(second))  # too late
    assert order.take() == []


def test_the_end_of_a_stream_fails_what_is_in_flight() -> None:
    order = make_order()
    first, _ = enter(order, 2)
    order.received(part(first, 1))
    order.lost(RequestError("unavailable", "the server is gone"))
    assert told(order.take()) == [
        ("image 0", "ok", False), ("image 0", "unavailable", True), ("image 1", "unavailable", True)
    ]  # fmt: skip
    assert order.in_flight == 0


def test_tensors_that_do_not_fit_fail_their_image_alone() -> None:
    order = make_order()
    first, second = enter(order, 2)
    odd = part(first, 1)
    order.received(Response({**odd.tensors, "detection_scores": np.zeros(2)}, request_id=first))
    order.received(end(second))
    assert told(order.take()) == [("image 0", "internal", True), ("image 1", "ok", True)]


# --- sequences ------------------------------------------------------------------------------------


def steps_of(kinds: str, sequence: int | None = 3) -> list[SequenceStep | str | None]:
    """The steps of images that are sent (s), and the names of those that are not (x), in order."""
    steps = SequenceSteps(sequence)
    passed: list[StreamImage] = []
    for number, kind in enumerate(kinds):
        content = b"file" if kind == "s" else UNREADABLE
        passed += steps.push(StreamImage(f"{kind}{number}", content))
    passed += steps.end()
    return [each.step if each.is_sent else each.name for each in passed]


def test_the_first_and_the_last_that_are_sent_have_flags() -> None:
    start, middle = SequenceStep(3, start=True), SequenceStep(3)
    last, only = SequenceStep(3, end=True), SequenceStep(3, start=True, end=True)
    assert steps_of("sss") == [start, middle, last]
    assert steps_of("s") == [only]
    assert steps_of("xsxsxx") == ["x0", start, "x2", last, "x4", "x5"]
    assert steps_of("xx") == ["x0", "x1"]
    assert steps_of("") == []


def test_without_a_sequence_nothing_waits() -> None:
    steps = SequenceSteps(None)
    image = StreamImage("a", b"file")
    assert list(steps.push(image)) == [image]
    assert list(steps.end()) == []
