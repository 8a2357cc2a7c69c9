"""A server that hangs, or is cut off: pools end in seconds, and lend no region it may write to."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pool_programs import SYNC, run_program
from running_server import RunningServer
from shared_memory_models import IMAGE, OTHER, REGION_BYTES, call, expected, files, infer
from tcp_proxy import TcpProxy, proxy_to

from endcap.client import AsyncSharedMemoryPool, SharedMemoryPool
from endcap.client.address import parse_address
from endcap.client.connection import Connection
from endcap.client.connection_aio import AsyncConnection
from endcap.client.errors import RequestError
from endcap.client.options import ConnectionOptions

# Of what takes one response's time of at most 2 s, not one for each region.
SECONDS = 4


@pytest.fixture(params=["grpc", "http"])
def proxy(request: pytest.FixtureRequest, pool_server: RunningServer) -> Iterator[TcpProxy]:
    with proxy_to(getattr(pool_server, request.param)) as made:
        yield made
    # What a server that hung knows still, the next pool sweeps.
    address = parse_address(getattr(pool_server, request.param), request.param)
    with Connection(address, ConnectionOptions()) as connection:
        SharedMemoryPool(connection, regions=1, region_bytes=REGION_BYTES).close()
        assert connection.registered("system") == {}


@pytest.fixture
def protocol(request: pytest.FixtureRequest) -> Any:
    return request.node.callspec.params["proxy"]


def connect(proxy: TcpProxy, protocol: Any, **options: Any) -> Connection:
    return Connection(parse_address(proxy.address, protocol), ConnectionOptions(**options))


def test_close_does_not_wait_for_each_region_of_a_server_that_hangs(
    proxy: TcpProxy, protocol: Any
) -> None:
    with connect(proxy, protocol) as connection:
        pool = SharedMemoryPool(connection, regions=8, region_bytes=REGION_BYTES)
        names = set(pool.names)
        proxy.stall()
        begin = time.monotonic()
        pool.close()
        assert time.monotonic() - begin < SECONDS
        assert not names & files()


@pytest.mark.parametrize("proxy", ["http"], indirect=True)
def test_a_program_ends_although_the_servers_of_its_pools_hang(
    proxy: TcpProxy, protocol: Any
) -> None:
    more = (
        "more = [SharedMemoryPool(connection, regions=4, region_bytes=4096) for _ in range(3)]\n"
        "tell(*(name for each in more for name in each.names))\n"
        "sys.stdin.readline()\n"
    )
    server: Any = SimpleNamespace(**{protocol: proxy.address})
    with run_program(SYNC + more, server, protocol) as program:
        names = program.names | set(program.line().split())
        assert len(names) == 14
        proxy.stall()
        begin = time.monotonic()
        assert program.end() == (0, "")
        assert time.monotonic() - begin < SECONDS + 1
        assert not names & files()


def test_a_region_whose_request_was_cut_off_is_not_lent_again(
    proxy: TcpProxy, protocol: Any
) -> None:
    with (
        connect(proxy, protocol) as connection,
        SharedMemoryPool(connection, regions=1, region_bytes=REGION_BYTES) as pool,
    ):
        with pool.acquire() as lease:
            name = lease.region.name
            request, _ = call(lease, IMAGE, "slow")
            threading.Timer(0.2, proxy.cut).start()
            with pytest.raises(RequestError) as caught:
                pool.infer(lease, request)
        assert caught.value.status_name == "unavailable"
        with pool.acquire() as lease:
            assert lease.region.name != name
        np.testing.assert_array_equal(infer(pool, OTHER), expected(OTHER))


@pytest.mark.parametrize("proxy", ["grpc"], indirect=True)
def test_a_pool_that_cannot_be_opened_does_not_block_the_event_loop(
    proxy: TcpProxy, protocol: Any
) -> None:
    async def run() -> float:
        longest_s = 0.0

        async def look() -> None:
            nonlocal longest_s
            while True:
                begin = time.monotonic()
                await asyncio.sleep(0.01)
                longest_s = max(longest_s, time.monotonic() - begin)

        options = ConnectionOptions(timeout_s=0.5, retries=0)
        async with AsyncConnection(parse_address(proxy.address, protocol), options) as connection:
            await connection.is_live()
            looking = asyncio.create_task(look())
            await asyncio.sleep(0.05)
            proxy.stall()
            with pytest.raises(RequestError):
                await AsyncSharedMemoryPool.create(connection, region_bytes=REGION_BYTES)
            await asyncio.sleep(0.05)
            looking.cancel()
        return longest_s

    assert asyncio.run(run()) < 0.3


@pytest.mark.parametrize("proxy", ["http"], indirect=True)
def test_who_registers_again_keeps_to_the_requests_time(
    proxy: TcpProxy, protocol: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        connect(proxy, protocol, timeout_s=20) as connection,
        SharedMemoryPool(connection, regions=1, region_bytes=REGION_BYTES) as pool,
    ):
        connection.unregister_shared("system", pool.names[0])
        real_infer = connection.infer

        def then_hang(*arguments: Any, **options: Any) -> Any:
            try:
                return real_infer(*arguments, **options)
            finally:
                proxy.stall()

        monkeypatch.setattr(connection, "infer", then_hang)
        with pool.acquire() as lease:
            begin = time.monotonic()
            with pytest.raises(RequestError, match="no response"):
                pool.infer(lease, call(lease, IMAGE)[0], timeout_s=0.3)
            assert time.monotonic() - begin < 2
