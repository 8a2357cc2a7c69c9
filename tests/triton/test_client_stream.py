"""detect_stream of both clients against a real server: decoupled models, sequences, failures."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from endcap.client import AsyncDetectionClient, ConnectionOptions, DetectionClient, ImageResult
from endcap.errors import InvalidArgumentError, UnsupportedError
from tests.triton.detecting_models import SLOW_S, make_file, sizes
from tests.triton.running_server import RunningServer

Streamed = Callable[..., list[ImageResult]]


def stream(url: str, images: Any, *, sequence: Any = None, **options: Any) -> list[ImageResult]:
    with DetectionClient(url, **options) as client:
        return list(client.detect_stream(images, sequence=sequence))


def stream_async(
    url: str, images: Any, *, sequence: Any = None, **options: Any
) -> list[ImageResult]:
    async def run() -> list[ImageResult]:
        async with AsyncDetectionClient(url, **options) as client:
            return [result async for result in client.detect_stream(images, sequence=sequence)]

    return asyncio.run(run())


@pytest.fixture(params=[stream, stream_async], ids=["threads", "asyncio"])
def streamed(request: pytest.FixtureRequest) -> Streamed:
    """Either client's results of a stream."""
    run: Streamed = request.param
    return run


def test_an_ordinary_model_gives_one_result_each(
    detecting_server: RunningServer, streamed: Streamed, tmp_path: Path
) -> None:
    images = [make_file(3), b"C", tmp_path / "none.jpg", b"E", *map(make_file, range(4, 30))]
    results = streamed(detecting_server.grpc, images)
    assert [each.status for each in results] == [
        "ok", "corrupt_image", "unreadable", "ok", *["ok"] * 26
    ]  # fmt: skip
    assert results[1].error == "it is no JPEG"
    assert all(each.final for each in results)
    assert [each.detections[0].index for each in results if each.detections] == [3, *range(4, 30)]
    sent = [each for each in results if each.status != "unreadable"]
    assert len({each.request_id for each in sent}) == len(sent)


def test_a_decoupled_model_gives_its_parts_and_an_end(
    decoupled_server: RunningServer, streamed: Streamed
) -> None:
    images = [make_file(4), b"E", b"C", make_file(1), make_file(6)]
    results = streamed(decoupled_server.grpc, images, model="parts")
    by_image = [[each for each in results if each.image == f"image {n}"] for n in range(5)]
    assert results == [each for image in by_image for each in image], "not in the order of images"
    for size, image in zip((4, 1, 1, 1, 6), by_image, strict=True):
        assert [each.final for each in image] == [False] * (len(image) - 1) + [True]
        if image is not by_image[2]:
            found = [each.detections[0].index for each in image[:-1]]
            assert found == [100 * size + row for row in range(size - 1)]
            assert image[-1].detections == []
    assert [each.status for each in by_image[2]] == ["corrupt_image"]


@pytest.mark.parametrize("sequence", [7, 2**40, "camera 3"])
def test_a_sequence_begins_and_ends(
    detecting_server: RunningServer, streamed: Streamed, sequence: Any, tmp_path: Path
) -> None:
    for _ in range(2):  # the second time it begins anew
        images = [tmp_path / "none.jpg", *[make_file(3)] * 4, tmp_path / "no.jpg"]
        results = streamed(detecting_server.grpc, images, model="frames", sequence=sequence)
        assert [each.status for each in results] == ["unreadable", *["ok"] * 4, "unreadable"]
        scores = [round(each.detections[0].score, 2) for each in results[1:-1]]
        assert scores == [0.01, 0.02, 0.03, 0.54]


def test_a_sequence_of_one_and_of_none(detecting_server: RunningServer, streamed: Streamed) -> None:
    (only,) = streamed(detecting_server.grpc, [make_file(3)], model="frames", sequence=1)
    assert round(only.detections[0].score, 2) == 0.51
    assert streamed(detecting_server.grpc, [], model="frames", sequence=1) == []


@pytest.mark.parametrize("sequence", [0, -1, 2**64, "", "x" * 129])
def test_invalid_sequence_ids_are_refused(
    detecting_server: RunningServer, streamed: Streamed, sequence: Any
) -> None:
    with pytest.raises(InvalidArgumentError, match="cannot be the id of a sequence"):
        streamed(detecting_server.grpc, [], model="frames", sequence=sequence)


def test_no_more_than_concurrency_are_taken_ahead(detecting_server: RunningServer) -> None:
    taken: list[int] = []

    def images() -> Iterator[bytes]:
        for size in range(1, 41):
            taken.append(size)
            yield make_file(size)

    with DetectionClient(detecting_server.grpc, concurrency=3) as client:
        for count, _ in enumerate(client.detect_stream(images()), start=1):
            assert len(taken) - count <= 3 + 1
    assert len(taken) == 40


def test_results_do_not_wait_for_the_next_image(detecting_server: RunningServer) -> None:
    async def run() -> list[int]:
        first_is_there = asyncio.Event()

        async def images() -> AsyncIterator[bytes]:
            yield make_file(5)
            await asyncio.wait_for(first_is_there.wait(), 20)
            yield make_file(6)

        results = []
        async with AsyncDetectionClient(detecting_server.grpc) as client:
            async for result in client.detect_stream(images()):
                results.append(result)
                first_is_there.set()
        return sizes(results)

    assert asyncio.run(run()) == [5, 6]


def test_a_request_that_times_out_fails_and_the_stream_continues(
    detecting_server: RunningServer, streamed: Streamed
) -> None:
    options = ConnectionOptions(timeout_s=SLOW_S / 4)
    images = [make_file(3), b"S", make_file(4)]
    results = streamed(detecting_server.grpc, images, concurrency=1, options=options)
    assert [each.status for each in results] == ["ok", "timeout", "ok"]
    assert results[2].detections[0].index == 4


def test_a_caller_may_stop_early(detecting_server: RunningServer) -> None:
    with DetectionClient(detecting_server.grpc) as client:
        for result in client.detect_stream(map(make_file, range(1, 100))):
            if result.detections[0].index == 5:
                break
        assert client.detect_one(make_file(9)).ok

    async def run() -> str:
        async with AsyncDetectionClient(detecting_server.grpc) as client:
            results = client.detect_stream(map(make_file, range(1, 100)))
            async for result in results:
                if result.detections[0].index == 5:
                    break
            await results.aclose()
            return (await client.detect_one(make_file(9))).status

    assert asyncio.run(run()) == "ok"


def test_what_a_stream_cannot_do_is_refused(
    detecting_server: RunningServer, streamed: Streamed
) -> None:
    with pytest.raises(UnsupportedError, match="streams over gRPC only"):
        streamed(f"http://{detecting_server.http}", [make_file(3)])
    with pytest.raises(UnsupportedError, match="leave shared_memory out"):
        streamed(detecting_server.grpc, [], shared_memory="system", region_bytes=1000)
    with pytest.raises(UnsupportedError, match="batch is 8; leave"):
        streamed(detecting_server.grpc, [make_file(3)], batch=8)
    with pytest.raises(InvalidArgumentError, match="images is a single image"):
        streamed(detecting_server.grpc, make_file(3))


def test_results_come_while_the_source_of_a_thread_waits(detecting_server: RunningServer) -> None:
    came = threading.Event()

    def images() -> Iterator[bytes]:
        yield make_file(5)
        assert came.wait(10), "the first result waits for the second image"
        time.sleep(0.5)
        yield make_file(6)

    results = []
    with DetectionClient(detecting_server.grpc) as client:
        for result in client.detect_stream(images()):
            came.set()
            results.append(result)
    assert [each.detections[0].index for each in results] == [5, 6]


def test_latency_does_not_count_what_the_caller_takes(detecting_server: RunningServer) -> None:
    with DetectionClient(detecting_server.grpc, concurrency=2) as client:
        latencies = []
        for result in client.detect_stream(map(make_file, range(1, 4))):
            latencies.append(result.latency_ms or 0.0)
            if len(latencies) == 1:
                time.sleep(3.0)  # the next request is in flight
    assert max(latencies) < 3000
    assert min(latencies) > 0


def test_an_error_of_a_streams_source_is_raised(detecting_server: RunningServer) -> None:
    def images() -> Iterator[bytes]:
        yield make_file(5)
        raise KeyError("mine")

    with DetectionClient(detecting_server.grpc) as client:
        with pytest.raises(KeyError, match="mine"):
            list(client.detect_stream(images()))
        assert client.detect_one(make_file(9)).ok
