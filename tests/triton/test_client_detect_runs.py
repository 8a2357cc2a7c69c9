"""DetectionClient against a real server: what is in flight, and how runs end."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import pytest

from endcap.client import ClientError, ConnectionOptions, DetectionClient, ImageResult
from tests.triton.detecting_models import PROTOCOLS, SLOW_S, make_file, server_url, sizes
from tests.triton.running_server import RunningServer, wait_for


class CountedImage(bytes):
    """An encoded image that counts how many of its kind are in memory."""

    alive: ClassVar[int] = 0

    def __new__(cls, data: bytes) -> CountedImage:
        cls.alive += 1
        return super().__new__(cls, data)

    def __del__(self) -> None:
        type(self).alive -= 1


def test_a_generator_is_taken_no_further_than_needed(detecting_server: RunningServer) -> None:
    """Whatever the program does with the results meanwhile."""
    taken: list[int] = []
    alive: list[int] = []

    def images() -> Iterator[bytes]:
        for size in range(1, 101):
            taken.append(size)
            image = CountedImage(make_file(size))
            alive.append(CountedImage.alive)
            yield image
            del image

    def look(result: ImageResult) -> None:
        if result.image.endswith("0"):
            time.sleep(0.01)

    with DetectionClient(detecting_server.grpc, concurrency=3, batch=2) as client:
        results = client.detect(images(), on_result=look)
    assert sizes(results) == taken == list(range(1, 101))
    assert 2 <= max(alive) <= 3 * 2


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_threads_share_a_client(detecting_server: RunningServer, protocol: str) -> None:
    """Each with images of its own lengths; what they get are theirs."""
    url = server_url(detecting_server, protocol)
    options: Any = {"shared_memory": "system", "region_bytes": 100_000}
    with DetectionClient(url, batch=2, **options) as client, ThreadPoolExecutor(8) as threads:
        requested = [list(range(1 + 20 * n, 21 + 20 * n)) for n in range(8)]
        responses = threads.map(lambda own: sizes(client.detect(map(make_file, own))), requested)
        assert list(responses) == requested


def test_one_request_runs_in_the_thread_of_its_caller(detecting_server: RunningServer) -> None:
    reading: list[int] = []

    class File:
        """An encoded file that notes the thread in which it is read."""

        def __fspath__(self) -> str:
            reading.append(threading.get_ident())
            return "/dev/null"

    own = threading.get_ident()
    with DetectionClient(detecting_server.grpc, batch=2) as client:
        for count in (1, 2, 3):
            reading.clear()
            assert len(client.detect([File()] * count)) == count
            assert reading
            assert (set(reading) == {own}) == (count <= 2)
        assert list(client.detect([])) == []


def test_forked_child_gets_an_error(detecting_server: RunningServer) -> None:
    with DetectionClient(detecting_server.grpc) as client:
        assert client.detect_one(make_file(1)).ok
        child = os.fork()
        if child == 0:
            status = 1
            try:
                client.detect([make_file(1)])
            except ClientError as error:
                status = 0 if "make a client in each process" in str(error) else 2
            client.close()
            os._exit(status)
        wait_for(lambda: os.waitpid(child, os.WNOHANG) == (child, 0))
        assert client.detect_one(make_file(2)).ok


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("count", [1, 30])
def test_an_exception_gives_up_what_is_in_flight(
    detecting_server: RunningServer, protocol: str, count: int
) -> None:
    url = server_url(detecting_server, protocol)

    interrupted_at: list[float] = []

    def interrupt(number: int, frame: object) -> None:
        interrupted_at.append(time.monotonic())
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGUSR1, interrupt)
    timer = threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGUSR1))
    with (  # noqa: PT012
        pytest.raises(KeyboardInterrupt),
        DetectionClient(url, shared_memory="system", region_bytes=999) as client,
    ):
        regions = detecting_server.shared_regions()
        assert len(regions) == 4
        timer.start()
        client.detect([b"S"] * count)
    signal.signal(signal.SIGUSR1, previous)
    assert time.monotonic() - interrupted_at[0] < 5 * SLOW_S, (
        "it waited for what nobody asks for any more"
    )
    assert detecting_server.shared_regions() == set()
    assert regions.isdisjoint(os.listdir("/dev/shm"))


def test_images_of_finished_requests_are_not_kept(detecting_server: RunningServer) -> None:
    alive: set[int] = set()

    class File(bytes):
        """Bytes whose living instances are in `alive`."""

        def __init__(self, _: bytes) -> None:
            alive.add(id(self))

        def __del__(self) -> None:
            alive.discard(id(self))

    def living() -> int:
        gc.collect()
        return len(alive)

    counts: list[int] = []
    results = []

    def images() -> Iterator[File]:
        for _ in range(8):
            image = [File(b"\xff" * 50)]
            counts.append(living())  # this image, and those of unfinished requests
            yield image.pop()

    def take(result: ImageResult) -> None:
        counts.append(living())
        results.append(result)

    with DetectionClient(detecting_server.grpc, concurrency=2) as client:
        client.detect(images(), on_result=take)
    assert len(results) == 8
    assert 0 < max(counts) <= 2 * 2
    assert living() == 0


def test_results_do_not_wait_for_the_next_image(detecting_server: RunningServer) -> None:
    came = threading.Event()

    def images() -> Iterator[bytes]:
        yield make_file(3)
        assert came.wait(10), "the first result waits for the second image"
        yield make_file(4)

    with DetectionClient(detecting_server.grpc) as client:
        assert sizes(client.detect(images(), on_result=lambda _: came.set())) == [3, 4]


def test_results_are_kept_when_the_client_is_closed(
    detecting_server: RunningServer,
) -> None:
    client = DetectionClient(detecting_server.grpc, concurrency=1)
    closing = threading.Timer(SLOW_S / 4, client.close)
    closing.start()
    results = client.detect([b"S", *[make_file(3)] * 4])
    closing.join()
    assert [each.status for each in results] == ["ok"] + ["cancelled"] * 4
    assert "the client was closed" in (results[-1].error or "")


def test_a_source_without_an_end_is_taken_no_further_when_the_client_is_closed(
    detecting_server: RunningServer,
) -> None:
    client = DetectionClient(detecting_server.grpc, concurrency=1)
    closing = threading.Timer(SLOW_S / 4, client.close)
    closing.start()
    results = client.detect(each for each in itertools.repeat(b"S"))
    closing.join()
    assert results[0].status == "ok"
    assert {each.status for each in results[1:]} <= {"cancelled"}
    assert len(results) <= 3


def test_waiting_for_a_region_counts_as_the_images_time(detecting_server: RunningServer) -> None:
    memory: Any = {"shared_memory": "system", "regions": 1, "region_bytes": 1000}
    options = ConnectionOptions(timeout_s=1.5 * SLOW_S)
    with DetectionClient(detecting_server.grpc, options=options, **memory) as client:
        results = client.detect([b"S", b"S"])
    assert sorted(each.status for each in results) == ["ok", "timeout"]
