"""Pools of shared memory, for threads and for asyncio: reuse, views, deadlines, lost requests."""

from __future__ import annotations

import asyncio
import gc
import mmap
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import endcap
from endcap.client import RequestError, regions
from endcap.errors import CudaError, InvalidArgumentError, OutOfMemoryError, UnsupportedError
from tests.support.tcp_proxy import proxy_to
from tests.triton.client_layouts import HTTP, LAYOUTS, OVER_HTTP, Layout, each, run_in_loop
from tests.triton.running_server import RunningServer, wait_for
from tests.triton.shared_memory_models import (
    IMAGE,
    OTHER,
    REGION_BYTES,
    SLOW_S,
    Pools,
    call,
    expected,
    infer,
    own_files,
)


@pytest.mark.parametrize("pools", LAYOUTS, ids=str, indirect=True)
def test_regions_are_registered_and_shared(pools: Pools) -> None:
    """Once, and again after a program that unregisters all regions first, as examples do."""
    pool = pools(regions=2)
    names = pool.names
    for _ in range(2):
        images = [IMAGE, OTHER] * 20
        with ThreadPoolExecutor(8) as threads:
            responses = threads.map(lambda image: infer(pool, image), images)
            for image, response in zip(images, responses, strict=True):
                np.testing.assert_array_equal(response, expected(image))
        assert pool.names == names == sorted(pools.registered())
        with pools.layout.connect(pools.server) as connection:
            for name in names:
                connection.request("unregister_system_shared_memory", name=name)


def test_views_never_change_and_their_regions_are_lent_again_without_them(pools: Pools) -> None:
    pool = pools(regions=1)
    kept = []
    for image in [IMAGE, OTHER] * 3:
        with pool.acquire() as lease:
            result = pool.infer(lease, *call(lease, image))
            kept.append((lease.read("images", result), expected(image)))
    names = pool.names
    assert len(names) == 6
    for view, wanted in kept:
        np.testing.assert_array_equal(view, wanted)
    first = kept.pop(0)
    kept.clear()
    for _ in range(3):
        np.testing.assert_array_equal(infer(pool, OTHER), expected(OTHER))
    assert pool.names == names
    pool.close()
    np.testing.assert_array_equal(*first)


def test_a_region_without_a_response_is_not_lent_again(pools: Pools) -> None:
    pool = pools(regions=1)
    with pool.acquire() as lease:
        name = lease.region.name
        request = call(lease, IMAGE, "slow")
        offset, byte_size = lease.outputs["images"]
        with (regions.FOLDER / name).open("rb") as file:
            seen = mmap.mmap(file.fileno(), REGION_BYTES, prot=mmap.PROT_READ)
        with pytest.raises(RequestError) as caught:
            pool.infer(lease, *request, timeout_s=0.2)
        assert caught.value.status_name == "timeout"
    for _ in range(3):
        with pool.acquire() as lease:
            assert lease.region.name != name
        np.testing.assert_array_equal(infer(pool, OTHER), expected(OTHER))
    written = slice(offset, offset + byte_size)
    assert not any(seen[written])
    if pools.layout.protocol == "http":  # gRPC's server hears that nobody waits any more
        wait_for(lambda: seen[written] == expected(IMAGE).tobytes(), timeout_s=SLOW_S + 5)
    pool.close()
    assert name not in pools.registered()
    assert name not in own_files()


def with_deadline(pool: Any, timeout_s: float) -> None:
    with pool.acquire(timeout_s=timeout_s) as lease:
        pool.infer(lease, *call(lease, IMAGE, "slow"), timeout_s=timeout_s)


@pytest.mark.parametrize("pools", OVER_HTTP, ids=str, indirect=True)
def test_requests_that_nobody_waits_for_cost_a_bounded_number_of_regions(pools: Pools) -> None:
    pool = pools(regions=1)
    for _ in range(4):
        with pytest.raises(RequestError, match=r"no response|still works") as caught:
            with_deadline(pool, 0.1)
        assert caught.value.status_name == "timeout"
        assert len(pool.names) <= 3
    np.testing.assert_array_equal(infer(pool, IMAGE), expected(IMAGE))


def test_a_waiting_call_gets_the_next_free_region_or_a_timeout(pools: Pools) -> None:
    pool = pools(regions=1)
    with ThreadPoolExecutor(1) as threads:
        with pool.acquire():
            with pytest.raises(RequestError, match="all 1 shared-memory regions") as caught:
                pool.acquire(timeout_s=0.1).__enter__()
            assert caught.value.status_name == "timeout"
            response = threads.submit(infer, pool, IMAGE)
            time.sleep(0.1)
            assert not response.done()
        np.testing.assert_array_equal(response.result(), expected(IMAGE))


def test_close_waits_for_leases_and_refuses_new_ones(pools: Pools) -> None:
    pool = pools(regions=1)
    with ThreadPoolExecutor(3) as threads:
        with pool.acquire() as lease:
            waiting = threads.submit(infer, pool, IMAGE)
            closing = threads.submit(pool.close)
            time.sleep(0.2)
            assert not closing.done()
            with pytest.raises(InvalidArgumentError, match="closed"):
                pool.acquire().__enter__()
            view = lease.read("images", pool.infer(lease, *call(lease, IMAGE)))
        closing.result()
        with pytest.raises(InvalidArgumentError, match="closed"):
            waiting.result()
    np.testing.assert_array_equal(view, expected(IMAGE))
    with pytest.raises(InvalidArgumentError, match="the lease has ended"):
        pool.infer(lease, "pre", [], [])


@pytest.mark.parametrize(
    "pools", [each for each in LAYOUTS if each.is_async], ids=str, indirect=True
)
def test_cancelled_tasks_take_no_region_with_them(pools: Pools) -> None:
    pool = pools(regions=1).inner

    async def request(model: str = "pre") -> str:
        async with pool.acquire() as lease:
            await pool.infer(lease, *call(lease, IMAGE, model))
            return str(lease.region.name)

    async def work() -> None:
        running = asyncio.create_task(request("slow"))
        await asyncio.sleep(0.2)
        waiting = [asyncio.create_task(request()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[1].cancel()
        running.cancel()
        (name,) = pool.names
        done = await asyncio.gather(running, *waiting, return_exceptions=True)
        assert [type(each) for each in done[::2]] == [asyncio.CancelledError] * 2
        assert done[1] == done[3] != name  # the server may still write to the first region

    run_in_loop(work())


def test_a_pool_that_is_garbage_leaves_nothing(pools: Pools) -> None:
    pool = HTTP.pool(pools.server, region_bytes=REGION_BYTES)
    assert set(pool.names) == own_files()
    del pool
    gc.collect()
    assert not own_files()
    assert pools.registered() == set()


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"regions": 0}, InvalidArgumentError, "regions is 0"),
        ({"region_bytes": 0}, InvalidArgumentError, "region_bytes is 0"),
        ({"kind": "gpu"}, InvalidArgumentError, "'gpu' is unknown"),
        ({"region_bytes": 1 << 50}, OutOfMemoryError, "do not fit into /dev/shm"),
        ({"regions": 1 << 20, "region_bytes": 1 << 20}, OutOfMemoryError, "^1048576 shared-memory"),
    ],
)
def test_impossible_settings_are_refused(
    pools: Pools, settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        pools(**settings)


def test_a_server_that_cannot_see_the_memory(
    pools: Pools, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """As in a container with a separate /dev/shm: the server does not find the file."""
    monkeypatch.setattr(regions, "FOLDER", tmp_path)
    with pytest.raises(UnsupportedError, match="--ipc=host"):
        pools()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(endcap.cuda_state().available, reason="there is a GPU: see tests/gpu")
def test_a_pool_on_a_gpu_without_one_names_what_is_missing(pools: Pools) -> None:
    with pytest.raises((UnsupportedError, CudaError), match=r"'cuda-bindings>=|on the GPU failed"):
        pools(kind="cuda")


@each([Layout("sync", "http"), Layout("async", "grpc")])
def test_a_pool_keeps_to_its_deadlines_while_the_server_hangs(
    layout: Layout, pool_server: RunningServer
) -> None:
    with proxy_to(layout.authority(pool_server)) as proxy, Pools(layout, proxy) as pools:
        pool = pools(regions=1)
        proxy.stall()
        begin = time.monotonic()
        for _ in range(2):  # the second needs another region, which the server does not take
            with pytest.raises(RequestError) as caught:
                with_deadline(pool, 0.3)
            assert caught.value.status_name in ("timeout", "unavailable")
        with pytest.raises(RequestError):
            pools(timeout_s=0.5, retries=0)
        assert time.monotonic() - begin < 15
    assert not own_files()
    with Pools(layout, pool_server) as pools:
        pools().close()  # it unregisters what the server that hung could not
        assert pools.registered() == set()
