"""DetectionClient against a real server: batches, shared memory, and what fails."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import endcap
from endcap.client import (
    AsyncDetectionClient,
    ClientError,
    ConnectionOptions,
    DetectionClient,
    ImageResult,
    Results,
)
from endcap.errors import InvalidArgumentError, OutOfMemoryError, UnsupportedError
from tests.triton.detecting_models import (
    BATCH_LIMIT,
    PROTOCOLS,
    SLOW_S,
    make_file,
    server_url,
    sizes,
)
from tests.triton.running_server import RunningServer

MEMORY = ["none", "system"]


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("batch", [1, 3, BATCH_LIMIT])
def test_results_are_in_the_order_of_the_images(
    detecting_server: RunningServer, kind: str, protocol: str, memory: Any, batch: int
) -> None:
    url = server_url(detecting_server, protocol)
    options: Any = {"batch": batch, "shared_memory": memory, "region_bytes": 100_000}
    reported: list[ImageResult] = []

    async def detect_async() -> Results:
        async def images() -> AsyncIterator[bytes]:
            for size in range(1, 30):
                await asyncio.sleep(0)
                yield make_file(size)

        async with AsyncDetectionClient(url, **options) as client:
            return await client.detect(images(), on_result=reported.append)

    if kind == "sync":
        with DetectionClient(url, **options) as client:
            results = client.detect(map(make_file, range(1, 30)), on_result=reported.append)
    else:
        results = asyncio.run(detect_async())
    assert sizes(results) == list(range(1, 30))
    assert sorted(map(id, reported)) == sorted(map(id, results))
    assert len({result.request_id for result in results}) == -(-29 // batch)
    first = results[0]
    assert (first.detections[0].label, first.detections[1].label) == ("square", None)
    assert first.detections[1].box == (10.5, 12.25, 20.0, 30.0)


@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_one_bad_image_does_not_touch_its_neighbours(
    detecting_server: RunningServer, protocol: str, memory: Any, tmp_path: Path
) -> None:
    images = [
        make_file(5),
        b"C",
        make_file(6),
        b"E",
        b"B",
        tmp_path / "none.jpg",
        7,
        b"\xff" * 2000,
    ]
    options: Any = {"shared_memory": memory, "region_bytes": 1500}
    with DetectionClient(server_url(detecting_server, protocol), batch=8, **options) as client:
        results = client.detect(images)  # type: ignore[arg-type]
        again = client.detect([make_file(9)])
    assert [each.status for each in results] == [
        "ok", "corrupt_image", "ok", "ok", "image_limit", "unreadable", "invalid_argument",
        "ok" if memory == "none" else "invalid_argument",
    ]  # fmt: skip
    assert sizes([results[0], results[2], *again]) == [5, 6, 9]
    assert results[1].error == "it is no JPEG"
    if memory != "none":
        assert "region_bytes" in (results[-1].error or "")


@pytest.mark.parametrize("batch", [1, 2, 4])
def test_what_fits_into_a_region_does_not_depend_on_the_batch(
    detecting_server: RunningServer, batch: int
) -> None:
    sizes_given = [700, 700, 3, 1500, 3, 700, 700, 3]
    options: Any = {"shared_memory": "system", "region_bytes": 1300}
    with DetectionClient(detecting_server.grpc, batch=batch, **options) as client:
        results = client.detect(map(make_file, sizes_given))
    statuses = [each.status for each in results]
    assert statuses == ["ok"] * 3 + ["invalid_argument"] + ["ok"] * 4
    assert sizes([each for each in results if each.ok]) == [n for n in sizes_given if n != 1500]
    for words in ("region_bytes=", "--region-bytes"):
        assert words in (results[3].error or "")


def test_request_ids_are_in_results_and_unlike(detecting_server: RunningServer) -> None:
    with DetectionClient(detecting_server.grpc, batch=2, request_id="camera7") as client:
        results = client.detect([make_file(1)] * 5)
    ids = [result.request_id for result in results]
    assert ids[0] == ids[1] != ids[2]
    assert {each.rpartition("-")[0] for each in ids} == {"camera7"}
    clients = [DetectionClient(detecting_server.grpc) for _ in range(2)]
    drawn = {client.detect_one(make_file(1)).request_id for client in clients}
    for client in clients:
        client.close()
        with pytest.raises(ClientError, match="this client is closed"):
            client.detect([])
    assert len(drawn) == 2


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_model_that_takes_bytes_takes_one_image_a_request(
    detecting_server: RunningServer, protocol: str
) -> None:
    url = server_url(detecting_server, protocol)
    for memory in ("none", "system"):
        options: Any = {"shared_memory": memory, "region_bytes": 10_000}
        with DetectionClient(url, model="detect_bytes", **options) as client:
            assert sizes(client.detect([make_file(3), np.full(4, 255, np.uint8)])) == [3, 4]
    with pytest.raises(InvalidArgumentError, match="batch 2 is above 1, the most images"):
        DetectionClient(url, model="detect_bytes", batch=2)


def test_pixels_are_sent_as_jpeg(detecting_server: RunningServer) -> None:
    pixels = np.random.default_rng(5).integers(0, 256, (40, 60, 3), np.uint8)
    with (
        DetectionClient(detecting_server.grpc) as client,
        DetectionClient(detecting_server.grpc, color="bgr", jpeg_quality=20) as coarse,
    ):
        fine, gray = client.detect([pixels, pixels[..., 0]])
        other = coarse.detect_one(pixels[..., ::-1])
    assert sizes([fine])[0] > sizes([gray])[0] > 500
    assert sizes([fine])[0] > 2 * sizes([other])[0]


def test_frames_in_yuv_are_sent_as_they_are(detecting_server: RunningServer) -> None:
    y, uv = np.zeros((40, 60), np.uint8), np.zeros((20, 30, 2), np.uint8)
    frames = [endcap.nv12((y, uv)), endcap.planar_yuv(y, uv[..., 0], uv[..., 1])]
    with DetectionClient(detecting_server.grpc) as client:
        results = client.detect(frames)
        single = client.detect_one(frames[0])
    assert sizes(results) == [len(frame.to_y4m()) for frame in frames]
    assert sizes([single]) == sizes(results[:1])


def test_the_servers_classification_names_the_best(detecting_server: RunningServer) -> None:
    for protocol, k in itertools.product(PROTOCOLS, (1, 3)):
        url = server_url(detecting_server, protocol)
        with DetectionClient(url, model="classify", classify=k) as client:
            result = client.detect_one(b"\xff")
            blank = client.detect_one(b"B")
        assert [each.label for each in result.classes] == ["cat", "fish", "hound"][:k]
        assert [each.class_id for each in result.classes] == [1, 2, 0][:k]
        assert [each.score for each in result.classes] == [0.75, 0.25, 0.0][:k]
        assert (blank.status, blank.classes) == ("image_limit", [])
    url = detecting_server.grpc
    with DetectionClient(url, model="classify", classify=1, labels=["x", "mine"]) as client:
        assert client.detect_one(b"\xff").classes[0].label == "mine"
    with pytest.raises(InvalidArgumentError, match="no output class_probabilities"):
        DetectionClient(url, classify=2)


def test_options_that_do_not_go_with_the_model_are_refused(detecting_server: RunningServer) -> None:
    with pytest.raises(InvalidArgumentError, match=f"batch 9 is above {BATCH_LIMIT}"):
        DetectionClient(detecting_server.grpc, batch=9)
    with (
        DetectionClient(detecting_server.grpc, model="parts") as client,
        pytest.raises(UnsupportedError, match="model 'parts' is decoupled"),
    ):
        client.detect([b"\xff"])
    with (
        DetectionClient(detecting_server.grpc) as client,
        pytest.raises(InvalidArgumentError, match="images is a single image"),
    ):
        client.detect(b"\xff")  # type: ignore[arg-type]


def test_a_deadline_is_of_the_options(detecting_server: RunningServer) -> None:
    options = ConnectionOptions(timeout_s=0.3, retries=0)
    with DetectionClient(detecting_server.grpc, timeout_s=60, options=options) as client:
        result = client.detect_one(b"S")
    assert result.status == "timeout"
    assert result.latency_ms is not None
    assert 250 < result.latency_ms < SLOW_S * 900


def test_an_unknown_name_is_an_error_that_lists_the_models(
    detecting_server: RunningServer,
) -> None:
    with pytest.raises(ClientError, match="has no model 'nosuch' that is ready; name one") as found:
        DetectionClient(detecting_server.grpc, model="nosuch")
    names = str(found.value).rpartition(": ")[2].split(", ")
    assert set(names) == {"classify", "detect", "detect_bytes", "frames", "parts"}


def test_regions_beyond_this_machines_memory_are_refused_before_any_is_made(
    detecting_server: RunningServer,
) -> None:
    memory: Any = {"shared_memory": "system", "regions": 1 << 20}
    with pytest.raises(OutOfMemoryError, match="1048576 shared-memory regions of"):
        DetectionClient(detecting_server.grpc, region_bytes=1 << 20, **memory)
    assert detecting_server.shared_regions() == set()
