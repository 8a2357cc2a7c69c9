"""`detect_stream` of clients against a real server: decoupled models, sequences, failures."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from endcap.client import ConnectionOptions, ImageResult
from endcap.errors import InvalidArgumentError, UnsupportedError
from tests.support.tcp_proxy import proxy_to
from tests.triton.client_layouts import OVER_GRPC, Layout, each
from tests.triton.client_models import WaitingImage, make_file, sizes
from tests.triton.running_server import RunningServer

pytestmark = each(OVER_GRPC)


def stream(
    layout: Layout, server: RunningServer, images: Any, *, sequence: Any = None, **options: Any
) -> list[ImageResult]:
    with layout.client(server, **options) as client:
        return list(client.detect_stream(images, sequence=sequence))


def test_an_ordinary_model_gives_one_result_each(
    client_server: RunningServer, layout: Layout, tmp_path: Path
) -> None:
    images = [make_file(3), b"C", tmp_path / "none.jpg", b"E", *map(make_file, range(4, 30))]
    results = stream(layout, client_server, images)
    assert [each.status for each in results] == [
        "ok", "corrupt_image", "unreadable", "ok", *["ok"] * 26
    ]  # fmt: skip
    assert results[1].error == "image 0 is not a JPEG"
    assert all(each.final for each in results)
    assert sizes([each for each in results if each.detections]) == [3, *range(4, 30)]
    sent = [each for each in results if each.status != "unreadable"]
    assert len({each.request_id for each in sent}) == len(sent)


def test_a_decoupled_model_gives_its_parts_and_an_end(
    decoupled_server: RunningServer, layout: Layout
) -> None:
    images = [make_file(4), b"E", b"C", make_file(1), make_file(6)]
    results = stream(layout, decoupled_server, images, model="parts")
    by_image = [[each for each in results if each.image == f"image {n}"] for n in range(5)]
    assert results == [each for image in by_image for each in image], "not in the order of images"
    for size, image in zip((4, 1, 1, 1, 6), by_image, strict=True):
        assert [each.final for each in image] == [False] * (len(image) - 1) + [True]
        if image is not by_image[2]:
            assert sizes(image[:-1]) == [100 * size + row for row in range(size - 1)]
            assert image[-1].detections == []
    assert [each.status for each in by_image[2]] == ["corrupt_image"]


def test_the_server_ends_the_stream_of_a_decoupled_model(
    decoupled_server: RunningServer, layout: Layout
) -> None:
    """Release 24.10 can crash when a stream that ends is cancelled."""
    with (
        proxy_to(layout.authority(decoupled_server)) as proxy,
        layout.client(proxy, model="parts") as client,
    ):
        assert len(list(client.detect_stream([make_file(4)]))) == 4
    frames, types = bytes(proxy.sent)[24:], set()  # behind the preface of HTTP/2
    while frames:
        types.add(frames[3])
        frames = frames[9 + int.from_bytes(frames[:3], "big") :]
    assert {0, 1} <= types  # DATA, HEADERS
    assert 3 not in types  # RST_STREAM


@pytest.mark.parametrize("sequence", [7, 2**40, "camera 3"])
def test_a_sequence_begins_and_ends(
    client_server: RunningServer, layout: Layout, sequence: Any, tmp_path: Path
) -> None:
    missing, scores = tmp_path / "none.jpg", []
    with layout.client(client_server, model="frames") as client:
        for images in ([missing, *[make_file(3)] * 4, missing], [], [make_file(3)]):
            results = list(client.detect_stream(images, sequence=sequence))
            assert [each.status for each in results] == [
                "unreadable" if image == missing else "ok" for image in images
            ]
            scores.append([round(100 * d.score) for each in results for d in each.detections[:1]])
    assert scores == [[1, 2, 3, 54], [], [51]]


def test_no_more_than_concurrency_are_taken_ahead(
    client_server: RunningServer, layout: Layout
) -> None:
    taken: list[int] = []

    def images() -> Iterator[bytes]:
        for size in range(1, 41):
            taken.append(size)
            yield make_file(size)

    with layout.client(client_server, concurrency=3) as client:
        for count, _ in enumerate(client.detect_stream(images()), start=1):
            assert len(taken) - count <= 3 + 1
    assert len(taken) == 40


def test_a_request_that_times_out_fails_and_the_stream_continues(
    client_server: RunningServer, layout: Layout, waiting: WaitingImage
) -> None:
    options = ConnectionOptions(timeout_s=2)
    images = [make_file(3), waiting.content, make_file(4)]
    results = stream(layout, client_server, images, concurrency=1, timeout_s=60, options=options)
    assert [each.status for each in results] == ["ok", "timeout", "ok"]
    assert sizes(results[2:]) == [4]
    assert (results[1].latency_ms or 0) > 1900


def test_a_stream_may_end_early(client_server: RunningServer, layout: Layout) -> None:
    def broken() -> Iterator[bytes]:
        yield make_file(5)
        raise KeyError("mine")

    with layout.client(client_server) as client:
        with contextlib.closing(client.detect_stream(map(make_file, range(1, 100)))) as results:
            assert sizes(itertools.islice(results, 5)) == [1, 2, 3, 4, 5]
        assert client.detect_one(make_file(9)).ok
        with pytest.raises(KeyError, match="mine"):
            list(client.detect_stream(broken()))
        assert client.detect_one(make_file(9)).ok


def test_what_a_stream_cannot_do_is_refused(client_server: RunningServer, layout: Layout) -> None:
    over_http = Layout(layout.kind, "http")
    with pytest.raises(UnsupportedError, match="streams over gRPC only"):
        stream(over_http, client_server, [make_file(3)])
    with pytest.raises(UnsupportedError, match="leave shared_memory out"):
        stream(layout, client_server, [], shared_memory="system", region_bytes=1000)
    with pytest.raises(UnsupportedError, match="batch is 4; leave"):
        stream(layout, client_server, [make_file(3)], batch=4)
    with pytest.raises(InvalidArgumentError, match="images is a single image"):
        stream(layout, client_server, make_file(3))
    with pytest.raises(InvalidArgumentError, match="cannot be the id of a sequence"):
        stream(layout, client_server, [], sequence=0)


def test_latency_does_not_count_what_the_caller_takes(
    client_server: RunningServer, layout: Layout
) -> None:
    with layout.client(client_server, concurrency=2) as client:
        latencies = []
        for result in client.detect_stream(map(make_file, range(1, 4))):
            latencies.append(result.latency_ms or 0.0)
            if len(latencies) == 1:
                time.sleep(3.0)  # the next request is in flight
    assert max(latencies) < 3000
    assert min(latencies) > 0
