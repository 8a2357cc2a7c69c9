"""A pool's regions: lent, held by views, abandoned, returned."""

from __future__ import annotations

import gc
import mmap
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from running_server import wait_for
from shared_memory_models import (
    IMAGE,
    OTHER,
    REGION_BYTES,
    SLOW_S,
    call,
    expected,
    files,
    infer,
)

from endcap.client import SharedMemoryPool
from endcap.client.connection import Connection
from endcap.client.errors import RequestError
from endcap.client.regions.region import FOLDER
from endcap.errors import InvalidArgumentError, OutOfMemoryError

Pools = Callable[..., SharedMemoryPool]


def test_views_never_change_and_cost_at_most_as_many_regions_again(
    pools: Pools, pool_connection: Connection
) -> None:
    pool = pools(regions=2)
    kept = []
    for number in range(8):
        image = IMAGE if number % 2 else OTHER
        with pool.acquire() as lease:
            request, output = call(lease, image)
            kept.append((lease.read(output, pool.infer(lease, request)), expected(image)))
    assert len(pool.names) <= 2 * 2 + 1
    assert sorted(pool_connection.registered("system")) == pool.names
    pool.close()
    for view, wanted in kept:
        np.testing.assert_array_equal(view, wanted)


@pytest.mark.parametrize("pool_connection", ["grpc"], indirect=True)
def test_views_that_are_kept_without_end_are_an_error_that_names_them(pools: Pools) -> None:
    pool = pools(regions=1)
    kept = []

    def keep() -> None:
        with pool.acquire() as lease:
            request, output = call(lease, IMAGE)
            kept.append(lease.read(output, pool.infer(lease, request)))

    for _ in range(8):
        keep()
    with pytest.raises(OutOfMemoryError, match=r"views of 8 ended leases are kept \(images\)"):
        keep()
    del kept[0]
    keep()
    kept.clear()
    np.testing.assert_array_equal(infer(pool, OTHER), expected(OTHER))


def test_a_loop_that_keeps_only_its_last_view_takes_two_regions_turn_by_turn(pools: Pools) -> None:
    pool = pools(regions=1)
    seen = set()
    for _ in range(10):
        with pool.acquire() as lease:
            request, output = call(lease, IMAGE)
            view = lease.read(output, pool.infer(lease, request))
            seen.add(lease.region.name)
    np.testing.assert_array_equal(view, expected(IMAGE))
    assert seen == set(pool.names)
    assert len(seen) == 2


def test_a_region_without_a_response_is_not_lent_again(
    pools: Pools, pool_connection: Connection
) -> None:
    pool = pools(regions=1)
    with pool.acquire() as lease:
        name = lease.region.name
        request, output = call(lease, IMAGE, "slow")
        # Another process's look at the region: no view of the lease holds it back.
        with (FOLDER / name).open("rb") as file:
            seen = mmap.mmap(file.fileno(), REGION_BYTES, prot=mmap.PROT_READ)
        with pytest.raises(RequestError, match="no response within"):
            pool.infer(lease, request, timeout_s=0.2)
    place = output.shared
    assert place is not None

    for _ in range(3):
        with pool.acquire() as lease:
            assert lease.region.name != name
        np.testing.assert_array_equal(infer(pool, OTHER), expected(OTHER))

    def written() -> bytes:
        return seen[place.offset : place.offset + place.byte_size]

    assert not any(written())
    if (
        pool_connection.address.protocol == "http"
    ):  # gRPC tells the server that nobody waits any more
        wait_for(lambda: written() == expected(IMAGE).tobytes(), timeout_s=SLOW_S + 5)
    pool.close()
    assert name not in pool_connection.registered("system")
    assert not (FOLDER / name).exists()


@pytest.mark.parametrize("pool_connection", ["http"], indirect=True)
def test_requests_that_nobody_waits_for_cost_a_bounded_number_of_regions(pools: Pools) -> None:
    pool = pools(regions=1)
    for _ in range(4):
        with pytest.raises(RequestError, match=r"no response|still works"):
            infer(pool, IMAGE, "slow", timeout_s=0.1)
        assert len(pool.names) <= 3
    np.testing.assert_array_equal(infer(pool, IMAGE), expected(IMAGE))


def test_who_waits_gets_the_next_free_region_or_a_timeout(pools: Pools) -> None:
    pool = pools(regions=1)
    got: list[Any] = []
    waiting = threading.Thread(target=lambda: got.append(infer(pool, IMAGE)))
    with pool.acquire():
        with (
            pytest.raises(RequestError, match=r"all 1 shared-memory regions were in use for 0\.1"),
            pool.acquire(timeout_s=0.1),
        ):
            pass
        waiting.start()
        time.sleep(0.1)
        assert not got
    waiting.join()
    np.testing.assert_array_equal(got[0], expected(IMAGE))


@pytest.mark.parametrize("pool_connection", ["grpc"], indirect=True)
def test_close_waits_for_leases_and_wakes_who_waits(pools: Pools) -> None:
    pool = pools(regions=1)
    responses: list[Any] = []
    refused: list[BaseException] = []

    def late() -> None:
        try:
            infer(pool, IMAGE)
        except InvalidArgumentError as error:
            refused.append(error)

    threads = [
        threading.Thread(target=lambda: responses.append(infer(pool, IMAGE, "slow"))),
        threading.Thread(target=late),
    ]
    for thread in threads:
        thread.start()
        time.sleep(0.2)
    pool.close()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(responses[0], expected(IMAGE))
    assert "closed" in str(refused[0])


@pytest.mark.parametrize("pool_connection", ["http"], indirect=True)
def test_requests_of_a_lease_go_on_while_close_waits_for_it(pools: Pools) -> None:
    pool = pools(regions=1)
    with pool.acquire() as lease:
        closing = threading.Thread(target=pool.close)
        closing.start()
        time.sleep(0.1)
        with pytest.raises(InvalidArgumentError, match="closed"), pool.acquire():
            pass
        request, output = call(lease, IMAGE)
        view = lease.read(output, pool.infer(lease, request))
    closing.join()
    np.testing.assert_array_equal(view, expected(IMAGE))
    with pytest.raises(InvalidArgumentError, match="closed"):
        pool.infer(lease, request)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT interrupts, also where who started the tests has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("pool_connection", ["http"], indirect=True)
def test_a_close_that_is_interrupted_changes_nothing(
    pools: Pools, pool_connection: Connection, interruptible: None
) -> None:
    pool = pools(regions=2)
    names = pool.names
    held, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        with pool.acquire():
            held.set()
            let_go.wait(20)

    holding = threading.Thread(target=hold)
    holding.start()
    assert held.wait(20)
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        pool.close()
    assert pool.names == names == sorted(pool_connection.registered("system"))
    np.testing.assert_array_equal(infer(pool, IMAGE), expected(IMAGE))
    let_go.set()
    holding.join()
    pool.close()
    assert pool_connection.registered("system") == {}


@pytest.mark.parametrize("pool_connection", ["http"], indirect=True)
def test_nobody_waits_behind_another_for_longer_than_wanted(pools: Pools) -> None:
    pool = pools(regions=2)
    for _ in range(4):  # as many regions as may be given up: the server writes to them still
        with pytest.raises(RequestError, match="no response"):
            infer(pool, IMAGE, "slow", timeout_s=0.05)
    got: list[Any] = []
    waiting = threading.Thread(target=lambda: got.append(infer(pool, OTHER)))
    waiting.start()
    time.sleep(0.1)
    begin = time.monotonic()
    with pytest.raises(RequestError, match=r"still works|in time"), pool.acquire(timeout_s=0.05):
        pass
    assert time.monotonic() - begin < 0.3
    waiting.join()
    np.testing.assert_array_equal(got[0], expected(OTHER))


def test_a_pool_of_which_nobody_knows_any_more_leaves_nothing(pool_connection: Connection) -> None:
    pool = SharedMemoryPool(pool_connection, region_bytes=REGION_BYTES)
    names = set(pool.names)
    assert names <= files()
    del pool
    gc.collect()
    assert not names & files()
    assert not names & pool_connection.registered("system").keys()
