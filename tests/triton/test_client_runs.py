"""Runs of clients against a real server: what is in flight and in memory, and how they end."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import pytest

from endcap.client import ClientError, ImageResult
from tests.triton.client_layouts import GRPC, HTTP, LAYOUTS, Layout, each, run_in_loop
from tests.triton.client_models import WaitingImage, make_file, sizes
from tests.triton.running_server import RunningServer, wait_for
from tests.triton.shared_memory_models import own_files


class CountedImage(bytes):
    """An encoded image that counts how many of its kind are in memory."""

    alive: ClassVar[int] = 0

    def __new__(cls, data: bytes) -> CountedImage:
        cls.alive += 1
        return super().__new__(cls, data)

    def __del__(self) -> None:
        type(self).alive -= 1


def test_images_are_read_when_they_can_be_sent_and_not_kept(client_server: RunningServer) -> None:
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

    with GRPC.client(client_server, concurrency=3, batch=2) as client:
        results = client.detect(images(), on_result=look)
        assert CountedImage.alive == 0
    assert sizes(results) == taken == list(range(1, 101))
    assert 2 <= max(alive) <= 3 * 2


@each(LAYOUTS)
def test_results_do_not_wait_for_the_next_image(
    client_server: RunningServer, layout: Layout
) -> None:
    came = threading.Event()

    def images() -> Iterator[bytes]:
        yield make_file(3)
        assert came.wait(20), "the first result waits for the second image"
        yield make_file(4)
        came.clear()

    with layout.client(client_server) as client:
        assert sizes(client.detect(images(), on_result=lambda _: came.set())) == [3, 4]
        if layout.protocol == "grpc":
            for size, result in zip((3, 4), client.detect_stream(images()), strict=True):
                came.set()
                assert sizes([result]) == [size]


def test_one_request_runs_in_the_thread_of_its_caller(client_server: RunningServer) -> None:
    reading: list[int] = []

    class File:
        """An encoded file that notes the thread in which it is read."""

        def __fspath__(self) -> str:
            reading.append(threading.get_ident())
            return "/dev/null"

    own = threading.get_ident()
    with GRPC.client(client_server, batch=2) as client:
        for count in (1, 2, 3):
            reading.clear()
            assert len(client.detect([File()] * count)) == count
            assert reading
            assert (set(reading) == {own}) == (count <= 2)
        assert list(client.detect([])) == []


@each([GRPC, HTTP])
def test_forked_child_gets_an_error(client_server: RunningServer, layout: Layout) -> None:
    with layout.client(client_server) as client:
        assert client.detect_one(make_file(1)).ok
        child = os.fork()
        if child == 0:
            status = 1
            try:
                client.detect([make_file(1)])
            except ClientError as error:
                status = 0 if "make one in each process" in str(error) else 2
            client.close()
            os._exit(status)
        wait_for(lambda: os.waitpid(child, os.WNOHANG) == (child, 0))
        assert client.detect_one(make_file(2)).ok


@each(LAYOUTS)
@pytest.mark.parametrize("is_sized", [True, False])
def test_a_client_that_is_closed_meanwhile_cancels_the_rest(
    client_server: RunningServer, layout: Layout, waiting: WaitingImage, is_sized: bool
) -> None:
    """Of an iterable without a length and an end no more is read."""
    images: Any = [waiting.content] * 5 if is_sized else itertools.repeat(waiting.content)
    with (
        layout.client(client_server, concurrency=1) as client,
        ThreadPoolExecutor(2) as threads,
    ):
        detecting = threads.submit(client.detect, images)
        waiting.wait_until_begun()
        closing = threads.submit(client.close)
        wait_for(lambda: ", closed" in repr(client.inner if layout.is_async else client))
        waiting.end()
        closing.result()
        first, *others = detecting.result()
    assert first.ok
    assert {each.status for each in others} <= {"cancelled"}
    assert all("the client was closed" in each.error for each in others)
    assert len(others) == 4 if is_sized else len(others) <= 2


@pytest.fixture
def regions_go(client_server: RunningServer) -> Iterator[None]:
    yield
    assert client_server.shared_regions() == own_files() == set()


@pytest.mark.usefixtures("regions_go")
@each([layout for layout in LAYOUTS if not layout.is_async])
@pytest.mark.parametrize("memory", ["none", "system"])
@pytest.mark.parametrize("count", [1, 30])
def test_an_exception_gives_up_what_is_in_flight(
    client_server: RunningServer, layout: Layout, waiting: WaitingImage, memory: str, count: int
) -> None:
    is_interrupted = threading.Event()

    def interrupt(number: int, frame: object) -> None:
        is_interrupted.set()
        raise KeyboardInterrupt

    def interrupt_when_begun() -> None:
        waiting.wait_until_begun()
        os.kill(os.getpid(), signal.SIGUSR1)
        is_interrupted.wait()
        if memory == "system":  # a server keeps the regions of requests that it works on
            time.sleep(0.3)
            waiting.end()

    before, previous = client_server.requests("detect"), signal.signal(signal.SIGUSR1, interrupt)
    interrupting = threading.Thread(target=interrupt_when_begun)
    begin = time.monotonic()
    with (  # noqa: PT012
        pytest.raises(KeyboardInterrupt),
        layout.client(client_server, shared_memory=memory, region_bytes=999) as client,
    ):
        assert len(client_server.shared_regions()) == (0 if memory == "none" else 4)
        interrupting.start()
        client.detect([waiting.content] * count)
    assert time.monotonic() - begin < 20, "it waited for what nobody asks for any more"
    signal.signal(signal.SIGUSR1, previous)
    interrupting.join()
    assert client_server.requests("detect") - before < 30, "it sent what nobody asks for any more"


@pytest.mark.usefixtures("regions_go")
@each([layout for layout in LAYOUTS if layout.is_async])
@pytest.mark.parametrize("memory", ["none", "system"])
def test_a_task_that_is_cancelled_leaves_nothing_behind(
    client_server: RunningServer, layout: Layout, waiting: WaitingImage, memory: str
) -> None:
    async def work(client: Any) -> None:
        others = asyncio.all_tasks()
        detecting = asyncio.create_task(client.detect([waiting.content] * 20))
        await asyncio.to_thread(waiting.wait_until_begun)
        detecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await detecting
        assert asyncio.all_tasks() == others
        waiting.end()
        assert sizes([await client.detect_one(make_file(3))]) == [3]

    options = {"shared_memory": memory, "region_bytes": 1000, "concurrency": 2}
    before = client_server.requests("detect")
    with layout.client(client_server, **options) as client:
        assert len(client_server.shared_regions()) == (0 if memory == "none" else 2)
        run_in_loop(work(client.inner))
    assert client_server.requests("detect") - before < 20
