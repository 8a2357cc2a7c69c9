"""AsyncDetectionClient against a real server."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from endcap.client import AsyncDetectionClient, ClientError
from endcap.errors import InvalidArgumentError
from tests.triton.detecting_models import PROTOCOLS, SLOW_S, make_file, server_url, sizes
from tests.triton.running_server import RunningServer

MEMORY = ["none", "system"]


@pytest.mark.parametrize("memory", MEMORY)
def test_tasks_share_a_client(detecting_server: RunningServer, memory: Any) -> None:
    async def run() -> None:
        options: Any = {"shared_memory": memory, "region_bytes": 50_000}
        async with AsyncDetectionClient(detecting_server.grpc, batch=2, **options) as client:
            requested = [list(range(1 + 20 * n, 21 + 20 * n)) for n in range(8)]
            responses = [client.detect(map(make_file, own)) for own in requested]
            assert [sizes(each) for each in await asyncio.gather(*responses)] == requested

    asyncio.run(run())


@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_task_that_is_cancelled_leaves_nothing_behind(
    detecting_server: RunningServer, protocol: str, memory: Any
) -> None:
    async def run() -> set[str]:
        options: Any = {"shared_memory": memory, "region_bytes": 1000, "concurrency": 2}
        url = server_url(detecting_server, protocol)
        async with AsyncDetectionClient(url, **options) as client:
            regions = detecting_server.shared_regions()
            assert len(regions) == (0 if memory == "none" else 2)
            others = asyncio.all_tasks()
            waiting = asyncio.create_task(client.detect([b"S"] * 20))
            await asyncio.sleep(0.3)
            begin = time.monotonic()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert time.monotonic() - begin < SLOW_S / 2
            assert asyncio.all_tasks() == others
            assert sizes([await client.detect_one(make_file(3))]) == [3]
        return regions

    regions = asyncio.run(run())
    assert detecting_server.shared_regions() == set()
    assert regions.isdisjoint(os.listdir("/dev/shm"))


def test_an_error_of_the_source_ends_the_call(detecting_server: RunningServer) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield make_file(3)
        raise LookupError("no more")

    async def run() -> None:
        async with AsyncDetectionClient(detecting_server.grpc) as client:
            with pytest.raises(LookupError, match="no more"):
                await client.detect(broken())
            with pytest.raises(InvalidArgumentError, match="images is a single image"):
                await client.detect(make_file(3))  # type: ignore[arg-type]
            assert (await client.detect_one(make_file(3))).ok

    asyncio.run(run())


def test_a_client_is_used_inside_its_block(detecting_server: RunningServer) -> None:
    async def run() -> None:
        client = AsyncDetectionClient(detecting_server.grpc)
        with pytest.raises(ClientError, match="use it inside `async with`"):
            await client.detect([make_file(3)])
        async with client:
            with pytest.raises(ClientError, match="connected already"):
                await client.__aenter__()
        with pytest.raises(ClientError, match="no Triton server responds"):
            async with AsyncDetectionClient("127.0.0.1:1", timeout_s=5):
                pass

    asyncio.run(run())


def test_a_client_that_is_closed_meanwhile_cancels_the_rest(
    detecting_server: RunningServer,
) -> None:
    async def run() -> list[str]:
        images = [make_file(3), b"S", *[make_file(3)] * 3]
        first = asyncio.Event()
        async with AsyncDetectionClient(detecting_server.grpc, concurrency=1) as client:
            detecting = asyncio.ensure_future(
                client.detect(images, on_result=lambda _: first.set())
            )
            await first.wait()
            await asyncio.sleep(SLOW_S / 4)  # the second is in flight
        return [each.status for each in await detecting]

    assert asyncio.run(run()) == ["ok"] * 2 + ["cancelled"] * 3
