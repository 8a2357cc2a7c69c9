"""Pools of shared memory for asyncio: tasks that wait, are cancelled, and meet a closed pool."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import pytest
from running_server import RunningServer
from shared_memory_models import IMAGE, OTHER, REGION_BYTES, call, expected, files

from endcap.client import AsyncSharedMemoryPool
from endcap.client.address import parse_address
from endcap.client.connection_aio import AsyncConnection
from endcap.client.errors import RequestError
from endcap.client.options import ConnectionOptions
from endcap.errors import InvalidArgumentError

Opened = tuple[AsyncSharedMemoryPool, AsyncConnection]


@pytest.fixture(params=["grpc", "http"])
def address(
    request: pytest.FixtureRequest, pool_server: RunningServer, region_names: list[str]
) -> Iterator[Any]:
    """No region of the test may be left at its end."""
    yield parse_address(getattr(pool_server, request.param), request.param)
    assert region_names
    assert not files() & set(region_names)


@contextlib.asynccontextmanager
async def opened(address: Any, **settings: Any) -> AsyncIterator[Opened]:
    """A pool and its connection; nothing may be left of them at the end."""
    async with AsyncConnection(address, ConnectionOptions()) as connection:
        settings = {"region_bytes": REGION_BYTES, **settings}
        async with AsyncSharedMemoryPool(connection, **settings) as pool:
            yield pool, connection
        assert not pool.names
        assert await connection.registered("system") == {}


async def infer(
    pool: AsyncSharedMemoryPool, image: bytes = IMAGE, model: str = "pre", **options: Any
) -> Any:
    async with pool.acquire() as lease:
        request, output = call(lease, image, model)
        return lease.read(output, await pool.infer(lease, request, **options)).copy()


def test_more_tasks_than_regions_get_their_own_responses(address: Any) -> None:
    async def run() -> None:
        async with opened(address, regions=3) as (pool, connection):
            names = pool.names
            images = [IMAGE, OTHER] * 10
            for image, got in zip(
                images, await asyncio.gather(*(infer(pool, image) for image in images)), strict=True
            ):
                np.testing.assert_array_equal(got, expected(image))
            assert pool.names == names == sorted(await connection.registered("system"))

    asyncio.run(run())


def test_all_tasks_go_on_when_somebody_unregisters_their_regions(address: Any) -> None:
    async def run() -> None:
        async with opened(address, regions=4) as (pool, connection):
            for name in pool.names:
                await connection.unregister_shared("system", name)
            for got in await asyncio.gather(*(infer(pool) for _ in range(8))):
                np.testing.assert_array_equal(got, expected(IMAGE))

    asyncio.run(run())


def test_a_task_that_is_cancelled_in_a_request_gives_its_region_up(address: Any) -> None:
    async def run() -> None:
        async with opened(address, regions=1) as (pool, _):
            (name,) = pool.names
            task = asyncio.create_task(infer(pool, model="slow"))
            await asyncio.sleep(0.2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            async with pool.acquire() as lease:
                assert lease.region.name != name

    asyncio.run(run())


def test_a_task_that_is_cancelled_while_it_waits_takes_no_region_with_it(address: Any) -> None:
    async def run() -> None:
        async with opened(address, regions=1) as (pool, _):
            async with pool.acquire():
                waiting = [asyncio.create_task(infer(pool)) for _ in range(3)]
                await asyncio.sleep(0)
                with pytest.raises(RequestError, match="all 1 shared-memory regions were in use"):
                    await pool.acquire(timeout_s=0.05).__aenter__()
                waiting[1].cancel()
            for number in (0, 2):
                np.testing.assert_array_equal(await waiting[number], expected(IMAGE))
            np.testing.assert_array_equal(await infer(pool), expected(IMAGE))
            assert len(pool.names) == 1

    asyncio.run(run())


@pytest.mark.parametrize("address", ["http"], indirect=True)
def test_close_waits_for_leases_and_refuses_who_waits(address: Any) -> None:
    async def run() -> None:
        async with opened(address, regions=1) as (pool, _):
            lent = asyncio.create_task(infer(pool, model="slow"))
            await asyncio.sleep(0.1)
            waiting = asyncio.create_task(infer(pool))
            await asyncio.sleep(0)
            await pool.close()
            assert lent.done()
            np.testing.assert_array_equal(await lent, expected(IMAGE))
            with pytest.raises(InvalidArgumentError, match="closed"):
                await waiting

    asyncio.run(run())


def test_a_close_that_is_cancelled_changes_nothing(address: Any) -> None:
    async def run() -> None:
        async with opened(address, regions=2) as (pool, connection):
            names = pool.names
            async with pool.acquire() as lease:
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(pool.close(), 0.1)
                assert pool.names == names == sorted(await connection.registered("system"))
                request, output = call(lease, IMAGE)
                view = lease.read(output, await pool.infer(lease, request))
                np.testing.assert_array_equal(view, expected(IMAGE))
            np.testing.assert_array_equal(await infer(pool), expected(IMAGE))

    asyncio.run(run())


def test_a_close_that_is_cancelled_late_ends_first(address: Any) -> None:
    async def run() -> None:
        async with AsyncConnection(address, ConnectionOptions()) as connection:
            pool = await AsyncSharedMemoryPool.create(connection, region_bytes=REGION_BYTES)
            closing = asyncio.create_task(pool.close())
            await asyncio.sleep(0)
            for _ in range(3):
                closing.cancel()
                await asyncio.sleep(0)
            with pytest.raises(asyncio.CancelledError):
                await closing
            assert not pool.names
            assert await connection.registered("system") == {}

    asyncio.run(run())


def test_a_pool_whose_connection_is_closed_first_leaves_nothing(address: Any) -> None:
    async def run() -> None:
        connection = AsyncConnection(address, ConnectionOptions())
        async with connection:
            pool = await AsyncSharedMemoryPool.create(connection, region_bytes=REGION_BYTES)
        await pool.close()
        async with AsyncConnection(address, ConnectionOptions()) as other:
            assert await other.registered("system") == {}

    asyncio.run(run())
