"""How requests and connections end: deadlines, closing, cancellation; and what is left."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from endcap.client.calls import Call, InputTensor, OutputTensor
from endcap.client.connection import AsyncConnection, Connection
from endcap.client.errors import RequestError
from endcap.client.options import parse_address
from tests.support.tcp_proxy import proxy_to
from tests.triton.connection_calls import CLASSES, KINDS, PROTOCOLS, echo, open_connection, request
from tests.triton.running_server import RunningServer, wait_for


@pytest.fixture(scope="session")
def server(client_server: RunningServer) -> RunningServer:
    return client_server


@pytest.fixture
def idle_afterwards(server: RunningServer) -> Iterator[None]:
    """For tests that leave a request over HTTP, which the server goes on with."""
    yield
    request(server, "grpc", "sync", "infer", echo(), retries=100)


@pytest.mark.usefixtures("idle_afterwards")
@KINDS
@PROTOCOLS
def test_a_deadline_holds(server: RunningServer, protocol: str, kind: str) -> None:
    call = echo(behavior={"wait_s": 0.8}, request_id="d")
    request(server, protocol, kind, "is_live")  # tritonclient is imported
    begin = time.monotonic()
    with pytest.raises(RequestError, match=r"no response within 0\.2 s") as caught:
        request(server, protocol, kind, "infer", call, timeout_s=0.2)
    assert time.monotonic() - begin < 0.7
    assert caught.value.status_name == "timeout"
    assert caught.value.request_id == "d"
    if protocol == "grpc":
        wait_for(lambda: server.log_lines("echo: d is cancelled"))


@PROTOCOLS
def test_threads_share_a_connection(server: RunningServer, protocol: str) -> None:
    def best_classes(number: int) -> set[int]:
        logits = np.roll(np.float32([[9, 0, 0, 0, 0]]), number)
        call = Call("classes", [InputTensor.of("logits", logits)], [OutputTensor("class_ids")])
        responses = [connection.infer(call).tensors["class_ids"] for _ in range(20)]
        return {int(ids[0, 0]) for ids in responses if ids is not None}

    with (
        proxy_to(getattr(server, protocol)) as proxy,
        open_connection(server, protocol, proxy) as connection,
        ThreadPoolExecutor(5) as workers,
    ):
        assert list(workers.map(best_classes, range(5))) == [{0}, {1}, {2}, {3}, {4}]
        assert 1 <= proxy.connections <= (1 if protocol == "grpc" else 5)


@pytest.mark.usefixtures("idle_afterwards")
@PROTOCOLS
def test_closing_ends_what_is_in_flight(server: RunningServer, protocol: str) -> None:
    with open_connection(server, protocol) as connection:
        threading.Timer(0.2, connection.close).start()
        begin = time.monotonic()
        with pytest.raises(RequestError, match="the connection was closed") as caught:
            connection.infer(echo(behavior={"wait_s": 0.8}))
        assert time.monotonic() - begin < 0.7
        assert caught.value.status_name == "cancelled"
        with pytest.raises(RequestError, match="the connection was closed; open another one"):
            connection.is_live()


@pytest.mark.usefixtures("idle_afterwards")
@PROTOCOLS
def test_closing_ends_tasks_in_flight(server: RunningServer, protocol: str) -> None:
    async def run() -> None:
        connection = AsyncConnection(parse_address(f"{protocol}://{getattr(server, protocol)}"))
        waiting = asyncio.ensure_future(connection.infer(echo(behavior={"wait_s": 0.8})))
        await asyncio.sleep(0.2)
        begin = time.monotonic()
        await connection.close()
        with pytest.raises(RequestError, match="the connection was closed") as caught:
            await waiting
        assert time.monotonic() - begin < 0.6
        assert caught.value.status_name == "cancelled"
        with pytest.raises(RequestError, match="the connection was closed; open another one"):
            await connection.is_live()

    asyncio.run(run())


@pytest.mark.usefixtures("idle_afterwards")
@PROTOCOLS
def test_a_task_that_is_cancelled_before_the_connection_is_closed_stays_cancelled(
    server: RunningServer, protocol: str
) -> None:
    async def run() -> None:
        connection = AsyncConnection(parse_address(f"{protocol}://{getattr(server, protocol)}"))
        waiting = asyncio.ensure_future(connection.infer(echo(behavior={"wait_s": 0.8})))
        await asyncio.sleep(0.2)
        waiting.cancel()
        await connection.close()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(run())


@pytest.mark.usefixtures("idle_afterwards")
@PROTOCOLS
def test_a_cancelled_task_cancels_its_request_alone(server: RunningServer, protocol: str) -> None:
    async def run() -> None:
        address = parse_address(f"{protocol}://{getattr(server, protocol)}")
        async with AsyncConnection(address) as connection:
            call = echo(behavior={"wait_s": 0.8}, request_id="gone")
            task = asyncio.ensure_future(connection.infer(call))
            other = asyncio.ensure_future(connection.infer(CLASSES))
            await asyncio.sleep(0.2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await other).request_id == "request-7"
            assert await connection.is_live()

    asyncio.run(run())
    if protocol == "grpc":  # over HTTP this server does not look whether its client has gone
        wait_for(lambda: server.log_lines("echo: gone is cancelled"))


@KINDS
@PROTOCOLS
def test_nothing_is_left_of_two_hundred_connections(
    server: RunningServer, protocol: str, kind: str
) -> None:
    def open_files() -> int:
        return len(os.listdir("/proc/self/fd"))

    async def run(times: int) -> int:
        for _ in range(times):
            async with AsyncConnection(address) as connection:
                assert await connection.is_live()
        return open_files()

    def run_blocking(times: int) -> int:
        for _ in range(times):
            with Connection(address) as connection:
                assert connection.is_live()
        return open_files()

    address = parse_address(f"{protocol}://{getattr(server, protocol)}")
    count = run_blocking if kind == "sync" else lambda times: asyncio.run(run(times))
    before = count(5)
    assert wait_for(lambda: count(200) <= before + 1)
    if kind == "sync":
        assert threading.active_count() < 20
