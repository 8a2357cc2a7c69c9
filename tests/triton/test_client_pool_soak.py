"""10,000 requests through a pool of four regions: equal responses, and nothing grows."""

from __future__ import annotations

import asyncio
import gc
import os
from pathlib import Path

import numpy as np
import pytest
from running_server import RunningServer, run_server
from shared_memory_models import (
    IMAGE,
    OPTIONS,
    OTHER,
    REGION_BYTES,
    call,
    expected,
    files,
    write_all,
)

from endcap.client import AsyncSharedMemoryPool
from endcap.client.address import parse_address
from endcap.client.connection_aio import AsyncConnection
from endcap.client.options import ConnectionOptions

TASKS = 32
REGIONS = 4
WARM_UP = 2_000
REQUESTS = 10_000
# Of 10,000 requests: what a leak of a small object for each would be, and more than heaps drift.
MEMORY_SLACK = 8 << 20


class Usage:
    """What a process holds now."""

    def __init__(self, process: int) -> None:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
        (resident,) = (line.split()[1] for line in lines if line.startswith("VmRSS"))
        self.memory = int(resident) * 1024
        self.descriptors = len(os.listdir(f"/proc/{process}/fd"))
        self.mapped = Path(f"/proc/{process}/maps").read_text().count("/dev/shm/endcap-")


async def send(pool: AsyncSharedMemoryPool, count: int) -> None:
    """Sends `count` requests from TASKS tasks, and compares each response."""
    left = iter(range(count))
    wanted = {image: expected(image) for image in (IMAGE, OTHER)}

    async def work(image: bytes) -> None:
        for _ in left:
            async with pool.acquire() as lease:
                request, output = call(lease, image)
                response = await pool.infer(lease, request)
                assert np.array_equal(lease.read(output, response), wanted[image])

    await asyncio.gather(*(work((IMAGE, OTHER)[n % 2]) for n in range(TASKS)))
    assert next(left, None) is None


async def soak(server: RunningServer) -> tuple[list[Usage], list[Usage]]:
    """Returns what client and server hold before and after the requests."""

    def usages() -> list[Usage]:
        gc.collect()
        return [Usage(os.getpid()), Usage(server.pid)]

    address = parse_address(server.grpc, "grpc")
    async with (
        AsyncConnection(address, ConnectionOptions()) as connection,
        AsyncSharedMemoryPool(connection, regions=REGIONS, region_bytes=REGION_BYTES) as pool,
    ):
        names = pool.names
        await send(pool, WARM_UP)
        before = usages()
        await send(pool, REQUESTS)
        after = usages()
        assert pool.names == names == sorted(await connection.registered("system"))
    assert not set(names) & files()
    return before, after


@pytest.mark.slow
def test_ten_thousand_requests_leave_nothing_behind(tmp_path: Path) -> None:
    write_all(tmp_path)
    with run_server(tmp_path, *OPTIONS) as server:
        before, after = asyncio.run(soak(server))
        done = server.requests("pre")
    assert done == WARM_UP + REQUESTS
    for early, late in zip(before, after, strict=True):
        assert late.memory <= early.memory + MEMORY_SLACK
        assert late.descriptors <= early.descriptors
        assert late.mapped <= early.mapped
