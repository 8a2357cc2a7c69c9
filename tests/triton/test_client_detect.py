"""`detect` of clients against a real server: batches, shared memory, and what fails."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from endcap.client import ClientError, ConnectionOptions, ImageResult
from endcap.errors import InvalidArgumentError, UnsupportedError
from tests.support.responding_model import BATCH_LIMIT
from tests.support.tcp_proxy import proxy_to
from tests.triton.client_layouts import GRPC, HTTP, LAYOUTS, Layout, each
from tests.triton.client_models import make_file, sizes
from tests.triton.running_server import RunningServer

every_memory = pytest.mark.parametrize("memory", ["none", "system"])


@each(LAYOUTS)
@every_memory
@pytest.mark.parametrize("batch", [1, 3, BATCH_LIMIT])
def test_results_are_in_the_order_of_the_images(
    client_server: RunningServer, layout: Layout, memory: str, batch: int
) -> None:
    reported: list[ImageResult] = []
    options = {"batch": batch, "shared_memory": memory, "region_bytes": 100_000}
    with layout.client(client_server, **options) as client:
        results = client.detect(map(make_file, range(1, 30)), on_result=reported.append)
    assert sizes(results) == list(range(1, 30))
    assert sorted(map(id, reported)) == sorted(map(id, results))
    assert len({result.request_id for result in results}) == -(-29 // batch)
    first = results[0]
    assert (first.detections[0].label, first.detections[1].label) == ("square", None)
    assert first.detections[1].box == (10.5, 12.25, 20.0, 30.0)


@each(LAYOUTS)
@every_memory
def test_callers_share_a_client(client_server: RunningServer, layout: Layout, memory: str) -> None:
    """Threads or tasks, each with images of its own lengths; what they get are theirs."""
    requested = [list(range(1 + 20 * n, 21 + 20 * n)) for n in range(8)]
    options = {"batch": 2, "shared_memory": memory, "region_bytes": 50_000}
    with (
        proxy_to(layout.authority(client_server)) as proxy,
        layout.client(proxy, **options) as client,
        ThreadPoolExecutor(8) as threads,
    ):
        responses = threads.map(lambda own: sizes(client.detect(map(make_file, own))), requested)
        assert list(responses) == requested
        if memory == "none":  # over HTTP each thread or request in flight has one
            assert 1 <= proxy.connections <= (1 if layout.protocol == "grpc" else 8 + 4 + 1)


@each(LAYOUTS)
@every_memory
def test_one_bad_image_does_not_touch_its_neighbours(
    client_server: RunningServer, layout: Layout, memory: str, tmp_path: Path
) -> None:
    good, none, large = make_file(5), tmp_path / "none.jpg", make_file(2000)
    images = [good, b"C", make_file(6), b"E", b"B", none, 7, large]
    options = {"batch": BATCH_LIMIT, "shared_memory": memory, "region_bytes": 1500}
    with layout.client(client_server, **options) as client:
        results = client.detect(images)
        assert sizes(client.detect([make_file(9)])) == [9]
    assert [each.status for each in results] == [
        "ok", "corrupt_image", "ok", "ok", "image_limit", "unreadable", "invalid_argument",
        "ok" if memory == "none" else "invalid_argument",
    ]  # fmt: skip
    assert sizes([results[0], results[2]]) == [5, 6]
    assert results[1].error == "image 0 is not a JPEG"
    if memory != "none":
        assert "region_bytes" in (results[-1].error or "")


@pytest.mark.parametrize("batch", [1, 2, 4])
def test_what_fits_into_a_region_does_not_depend_on_the_batch(
    client_server: RunningServer, batch: int
) -> None:
    sizes_given = [700, 700, 3, 1500, 3, 700, 700, 3]
    options = {"shared_memory": "system", "region_bytes": 1300}
    with GRPC.client(client_server, batch=batch, **options) as client:
        results = client.detect(map(make_file, sizes_given))
    statuses = [each.status for each in results]
    assert statuses == ["ok"] * 3 + ["invalid_argument"] + ["ok"] * 4
    assert sizes([each for each in results if each.ok]) == [n for n in sizes_given if n != 1500]
    for words in ("region_bytes=", "--region-bytes"):
        assert words in (results[3].error or "")


def test_request_ids_are_in_results_and_unlike(client_server: RunningServer) -> None:
    with GRPC.client(client_server, batch=2, request_id="camera7") as client:
        ids = [result.request_id for result in client.detect([make_file(1)] * 5)]
    assert ids[0] == ids[1] != ids[2]
    assert {each.rpartition("-")[0] for each in ids} == {"camera7"}
    with GRPC.client(client_server) as one, GRPC.client(client_server) as other:
        drawn = [client.detect_one(make_file(1)).request_id for client in (one, other)]
    assert drawn[0] != drawn[1]


@pytest.mark.parametrize("memory", ["none", "system"])
@each([GRPC, HTTP])
def test_a_model_that_takes_bytes_takes_one_image_a_request(
    client_server: RunningServer, layout: Layout, memory: str
) -> None:
    options = {"model": "detect_bytes", "shared_memory": memory, "region_bytes": 10_000}
    with layout.client(client_server, **options) as client:
        assert sizes(client.detect([make_file(3), np.full(4, 255, np.uint8)])) == [3, 4]
    with pytest.raises(InvalidArgumentError, match="batch 2 is above 1, the most images"):
        layout.client(client_server, batch=2, **options)


@each([GRPC, HTTP])
@pytest.mark.parametrize("best", [1, 3])
def test_the_servers_classification_names_the_best(
    client_server: RunningServer, layout: Layout, best: int
) -> None:
    with layout.client(client_server, model="classify", classify=best) as client:
        result, blank = client.detect([b"\xff", b"B"])
    found = [(each.label, each.class_id, each.score) for each in result.classes]
    assert found == [("cat", 1, 0.75), ("fish", 2, 0.25), ("hound", 0, 0.0)][:best]
    assert (blank.status, blank.classes) == ("image_limit", [])
    with layout.client(
        client_server, model="classify", classify=best, labels=["x", "mine"]
    ) as client:
        assert client.detect_one(b"\xff").classes[0].label == "mine"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"batch": 9}, InvalidArgumentError, f"batch 9 is above {BATCH_LIMIT}"),
        ({"model": "detect_bytes", "batch": 2}, InvalidArgumentError, "'detect_bytes'; leave "
         r"--batch out, or give --batch 1 \(`batch=1` in Python\)$"),
        ({"classify": 2}, InvalidArgumentError, "no output class_probabilities"),
        ({"model": "nosuch"}, ClientError, "has no model 'nosuch' that is ready; name one of these "
         ".*: classify, detect, detect_bytes, frames, parts$"),
    ],
)  # fmt: skip
def test_options_that_do_not_go_with_the_server_are_refused(
    client_server: RunningServer, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        GRPC.client(client_server, **options)


@each(LAYOUTS)
def test_calls_that_cannot_be_made_are_refused(
    client_server: RunningServer, layout: Layout
) -> None:
    def broken() -> Iterator[bytes]:
        yield make_file(3)
        raise LookupError("no more")

    with (
        layout.client(client_server, model="parts") as client,
        pytest.raises(UnsupportedError, match="model 'parts' is decoupled"),
    ):
        client.detect([b"\xff"])
    with layout.client(client_server) as client:
        with pytest.raises(InvalidArgumentError, match="images is a single image"):
            client.detect(b"\xff")
        with pytest.raises(LookupError, match="no more"):
            client.detect(broken())
        assert client.detect_one(make_file(3)).ok
    with pytest.raises(ClientError, match="this client is closed"):
        client.detect([])


def test_a_client_of_asyncio_is_used_inside_its_block(client_server: RunningServer) -> None:
    layout = Layout("async", "grpc")
    client = layout.client(client_server)
    with pytest.raises(ClientError, match="use it inside `async with`"):
        client.detect([make_file(3)])
    with client, pytest.raises(ClientError, match="connected already"):
        client.__enter__()


def test_waiting_for_a_region_counts_as_the_images_time(client_server: RunningServer) -> None:
    memory = {"shared_memory": "system", "regions": 1, "region_bytes": 1000}
    options = ConnectionOptions(timeout_s=3)
    with GRPC.client(client_server, options=options, **memory) as client:
        results = client.detect([b"S2", b"S2"])
    errors = [each.error for each in results]
    assert sorted(each.status for each in results) == ["ok", "timeout"], errors
