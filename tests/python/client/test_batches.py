"""Batches of images, retries image by image, and the ensemble's requests."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from endcap.client.batches import MAX_IMAGE_BYTES, Batch, BatchRun, RequestFormat, split
from endcap.client.calls import Response, TensorSpec
from endcap.client.concurrency import iterate
from endcap.client.detection import make_batches
from endcap.client.errors import RequestError
from endcap.client.images import ImageReader
from endcap.client.response_reader import ImageResponse
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


def run_of(images: Sequence[Any], start: int = 0) -> BatchRun:
    return BatchRun(Batch(start, images), ImageReader(), Task.detection)


# --- batches --------------------------------------------------------------------------------------


def never() -> bool:
    return False


def test_batches_are_cut_on_request() -> None:
    numbers = itertools.count()
    endless = (bytes([number]) for number in numbers)
    first, second = itertools.islice(iterate(make_batches(endless, 3, never)), 2)
    assert (first.start, list(first.images)) == (0, [b"\0", b"\1", b"\2"])
    assert (second.start, second.names) == (3, ["image 3", "image 4", "image 5"])
    assert next(numbers) == 6


def test_the_last_batch_may_be_smaller() -> None:
    assert [len(each.images) for each in iterate(make_batches([b"x"] * 5, 2, never))] == [2, 2, 1]
    assert list(iterate(make_batches([], 2, never))) == []


def test_asynchronous_images_are_cut_alike() -> None:
    async def images() -> AsyncIterator[bytes]:
        for number in range(5):
            await asyncio.sleep(0)
            yield bytes([number])

    async def cut(source: Any) -> list[Batch]:
        return [batch async for batch in make_batches(source, 2, never)]

    expected = [
        Batch(0, [b"\0", b"\1"]), Batch(2, [b"\2", b"\3"]), Batch(4, [b"\4"])
    ]  # fmt: skip
    assert asyncio.run(cut(images())) == expected
    assert asyncio.run(cut(bytes([number]) for number in range(5))) == expected


def test_no_image_is_taken_after_the_end() -> None:
    taken: list[int] = []

    def images() -> Iterator[bytes]:
        for number in itertools.count():
            taken.append(number)
            yield b"x"

    assert len(list(iterate(make_batches(images(), 2, lambda: len(taken) >= 4)))) == 2
    assert len(taken) == 4


# --- one bad image --------------------------------------------------------------------------------


def test_an_image_that_is_not_sent_has_its_own_result() -> None:
    run = run_of([b"a", "/no/such.jpg", b"c"], start=10)
    attempt = run.next()
    assert attempt is not None
    assert attempt.contents == [b"a", b"c"]
    run.take(attempt, [ImageResponse(), RequestError("corrupt_image", "no JPEG")], 2.0, "x-1")
    assert run.next() is None
    first, unread, corrupt = run.results()
    assert (first.image, first.status, first.request_id) == ("image 10", "ok", "x-1")
    assert (unread.image, unread.status, unread.latency_ms) == ("/no/such.jpg", "unreadable", None)
    assert (corrupt.status, corrupt.error, corrupt.latency_ms) == ("corrupt_image", "no JPEG", 2.0)


def test_nothing_is_sent_of_images_that_cannot_be() -> None:
    run = run_of(["/no/such.jpg"])
    assert run.next() is None
    assert [result.status for result in run.results()] == ["unreadable"]


@pytest.mark.parametrize("status", ["corrupt_image", "invalid_argument", "internal"])
def test_a_failed_batch_is_sent_image_by_image(status: str) -> None:
    run = run_of([b"a", b"b", b"c"])
    attempt = run.next()
    assert attempt is not None
    run.take(attempt, RequestError(status, "one of you"), 1.0, "x-1")
    for number, content in enumerate((b"a", b"b", b"c")):
        attempt = run.next()
        assert attempt is not None
        assert attempt.contents == [content]
        response = RequestError(status, "it is me") if content == b"b" else [ImageResponse()]
        run.take(attempt, response, 1.0, f"x-{2 + number}")
    assert run.next() is None
    assert [each.status for each in run.results()] == ["ok", status, "ok"]
    assert [each.request_id for each in run.results()] == ["x-2", "x-3", "x-4"]


@pytest.mark.parametrize("status", ["unavailable", "timeout", "cancelled"])
def test_errors_that_no_image_caused_are_not_retried(status: str) -> None:
    run = run_of([b"a", b"b"])
    attempt = run.next()
    assert attempt is not None
    run.take(attempt, RequestError(status, "gone"), 1.0, "x-1")
    assert run.next() is None
    assert [each.status for each in run.results()] == [status, status]


# --- the ensemble's requests ----------------------------------------------------------------------


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


def test_responses_are_split_by_image() -> None:
    boxes = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    first, second = split({"detection_boxes": boxes, "status": None}, 2)
    np.testing.assert_array_equal(first["detection_boxes"], boxes[:1])
    np.testing.assert_array_equal(second["detection_boxes"], boxes[1:])
    assert first["status"] is second["status"] is None


@pytest.mark.parametrize("shape", [(3, 3, 4), (), (1, 3, 4)])
def test_a_response_to_another_batch_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(RequestError, match="for a batch of 2; its first side must be 2") as caught:
        split({"detection_boxes": np.zeros(shape, np.float32)}, 2)
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
