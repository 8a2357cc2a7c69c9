"""A server that crashes and comes back on the same ports: its clients go on as if nothing was."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
from running_server import run_server
from shared_memory_models import (
    IMAGE,
    OPTIONS,
    OTHER,
    REGION_BYTES,
    call,
    expected,
    infer,
    write_all,
)

from endcap.client import AsyncSharedMemoryPool, SharedMemoryPool
from endcap.client.address import parse_address
from endcap.client.connection import Connection
from endcap.client.connection_aio import AsyncConnection
from endcap.client.errors import RequestError
from endcap.client.options import ConnectionOptions

# A request may meet the server while it starts; it is sent again until it responds.
MANY_RETRIES = ConnectionOptions(timeout_s=30, retries=50)
LIMITS: dict[str, Any] = {"regions": 3, "region_bytes": REGION_BYTES}


async def infer_async(pool: AsyncSharedMemoryPool, image: bytes) -> Any:
    async with pool.acquire() as lease:
        request, output = call(lease, image)
        return lease.read(output, await pool.infer(lease, request)).copy()


def test_pools_register_again_with_a_server_that_was_restarted(tmp_path: Path) -> None:
    write_all(tmp_path)
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(contextlib.ExitStack())
        server = first.enter_context(run_server(tmp_path, *OPTIONS))
        addresses = {name: parse_address(getattr(server, name), name) for name in ("grpc", "http")}
        connections = [stack.enter_context(Connection(a, MANY_RETRIES)) for a in addresses.values()]
        pools = [stack.enter_context(SharedMemoryPool(c, **LIMITS)) for c in connections]
        names = [pool.names for pool in pools]

        for pool in pools:
            np.testing.assert_array_equal(infer(pool, IMAGE), expected(IMAGE))
        os.kill(server.pid, signal.SIGKILL)
        first.close()
        again = stack.enter_context(run_server(tmp_path, *OPTIONS, ports=server.ports))
        assert again.pid != server.pid
        for connection, pool in zip(connections, pools, strict=True):
            assert not set(pool.names) & connection.registered("system").keys()
            np.testing.assert_array_equal(infer(pool, OTHER), expected(OTHER))
            assert set(pool.names) <= connection.registered("system").keys()
        assert [pool.names for pool in pools] == names
        for pool in pools:
            pool.close()
        assert connections[0].registered("system") == {}


def test_tasks_in_flight_come_through_a_restart(tmp_path: Path) -> None:
    write_all(tmp_path)
    wanted = {image: expected(image) for image in (IMAGE, OTHER)}

    async def send(pool: AsyncSharedMemoryPool, until: asyncio.Event, image: bytes) -> int:
        responses = 0
        while not until.is_set():
            try:
                got = await infer_async(pool, image)
            except RequestError as error:
                # Cut off: the server may have taken it, and is not asked to write there again.
                if error.status_name != "unavailable":
                    raise
                await asyncio.sleep(0.05)
                continue
            np.testing.assert_array_equal(got, wanted[image])
            responses += 1
        return responses

    async def run(stack: contextlib.ExitStack) -> None:
        first = stack.enter_context(contextlib.ExitStack())
        server = first.enter_context(run_server(tmp_path, *OPTIONS))
        async with contextlib.AsyncExitStack() as closing:
            tasks = []
            until = asyncio.Event()
            for protocol in ("grpc", "http"):
                address = parse_address(getattr(server, protocol), protocol)
                connection = await closing.enter_async_context(
                    AsyncConnection(address, MANY_RETRIES)
                )
                pool = await AsyncSharedMemoryPool.create(connection, **LIMITS)
                closing.push_async_callback(pool.close)
                for image in (IMAGE, OTHER) * 3:
                    tasks.append(asyncio.create_task(send(pool, until, image)))
            await asyncio.sleep(0.2)
            os.kill(server.pid, signal.SIGKILL)
            await asyncio.to_thread(first.close)
            enter = stack.enter_context
            await asyncio.to_thread(
                lambda: enter(run_server(tmp_path, *OPTIONS, ports=server.ports))
            )
            back = time.monotonic()
            np.testing.assert_array_equal(await infer_async(pool, IMAGE), wanted[IMAGE])
            assert time.monotonic() - back < 10
            await asyncio.sleep(0.2)
            until.set()
            assert all(responses > 1 for responses in await asyncio.gather(*tasks))

    with contextlib.ExitStack() as stack:
        asyncio.run(run(stack))
