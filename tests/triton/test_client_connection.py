"""Connections of a client to a real server: requests, retries, and how they end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from endcap.client.concurrency import run
from endcap.client.connection import Connection
from endcap.client.errors import RequestError
from endcap.client.options import ConnectionOptions, Keepalive
from tests.support.tcp_proxy import TcpProxy, proxy_to
from tests.triton.connection_calls import (
    KINDS,
    LOGITS,
    PROTOCOLS,
    echo,
    infer,
    received,
    send,
    server_address,
    use,
)
from tests.triton.running_server import RunningServer, wait_for

CLASSES: tuple[str, Any, list[str]] = ("classes", {"logits": LOGITS}, ["class_ids"])


@pytest.fixture(scope="session")
def server(client_server: RunningServer) -> RunningServer:
    return client_server


@pytest.fixture
def idle_afterwards(server: RunningServer) -> Iterator[None]:
    """For tests that leave a request over HTTP, which the server goes on with."""
    yield
    infer(server_address(server, "grpc"), *echo(), retries=100)


@KINDS
@PROTOCOLS
@pytest.mark.parametrize("compression", [None, "gzip", "deflate"])
def test_tensors_and_headers_go_and_come(
    server: RunningServer, protocol: str, kind: str, compression: str | None
) -> None:
    texts = [b"", b"one", bytes(range(256)) * 40, bytes(200_000)]
    headers = {"X-Tenant": "orchard; row 3", "Authorization": "Bearer t"}
    options: dict[str, Any] = {"headers": headers, "compression": compression}
    more = {"request_id": "a"}
    with proxy_to(getattr(server, protocol)) as proxy:
        address = server_address(server, protocol, proxy)
        result = infer(address, *echo(*texts), kind=kind, more=more, **options)
        assert len(proxy.sent) > 200_000 if compression is None else len(proxy.sent) < 12_000
        # Over gRPC the server decides of its own part.
        plain = compression is None or protocol == "grpc"
        assert len(proxy.received) > 200_000 if plain else len(proxy.received) < 12_000
    assert result.as_numpy("response")[1:].tolist() == texts
    name = "x-tenant" if protocol == "grpc" else "X-Tenant"
    assert received(result)["parameters"][name] == "orchard; row 3"


@KINDS
@PROTOCOLS
def test_errors_of_the_server_have_its_words(
    server: RunningServer, protocol: str, kind: str
) -> None:
    for model, inputs, status, words in (
        ("absent", {}, "unavailable", "unknown model: 'absent'"),
        ("classes", {"nose": LOGITS}, "invalid_argument", "unexpected inference input 'nose'"),
    ):
        with pytest.raises(RequestError, match=words) as caught:
            infer(server_address(server, protocol), model, inputs, kind=kind)
        assert caught.value.status_name == status
        assert not caught.value.region_lost
        assert not caught.value.transient


@KINDS
@PROTOCOLS
def test_a_region_that_the_server_does_not_know_is_known_as_one(
    server: RunningServer, protocol: str, kind: str
) -> None:
    name = f"endcap-test-{uuid.uuid4().hex}"

    async def request(connection: Connection) -> None:
        given = connection.module.InferInput("logits", [2, 5], "FP32")
        given.set_shared_memory(name, 40)
        await connection.infer({"model_name": "classes", "inputs": [given]}, 10)

    with pytest.raises(RequestError, match=f"region: '{name}'") as caught:
        use(server_address(server, protocol), kind, request)
    assert caught.value.region_lost


@KINDS
@PROTOCOLS
def test_what_responds_may_be_no_such_service(
    server: RunningServer, protocol: str, kind: str
) -> None:
    other = server.http if protocol == "grpc" else server.grpc
    with proxy_to(other) as proxy, pytest.raises(RequestError) as caught:
        infer(server_address(server, protocol, proxy), *CLASSES, kind=kind, retries=0)
    assert caught.value.status_name == "unavailable"
    if protocol == "http":
        assert "not a Triton server's http service" in str(caught.value)


# --- retries --------------------------------------------------------------------------------------


@contextlib.contextmanager
def full_queue(server: RunningServer, folder: Path) -> Iterator[Path]:
    """While this lasts, `echo` is busy and takes no more, until there is the file that is given."""
    end = folder / "end"
    request_id = f"busy {uuid.uuid4().hex}"
    address, call = server_address(server, "grpc"), echo(behavior={"until": str(end)})
    with ThreadPoolExecutor(3) as workers:
        try:
            workers.submit(infer, address, *call, more={"request_id": request_id})
            wait_for(lambda: server.log_lines(f"echo: {request_id} begins"))
            for _ in range(2):
                workers.submit(infer, address, *call)
            pending = "nv_inference_pending_request_count"
            wait_for(lambda: server.metric(pending, model="echo") == 2)
            yield end
        finally:
            end.touch()


@KINDS
@PROTOCOLS
def test_a_busy_server_gets_the_request_again(
    server: RunningServer, protocol: str, kind: str, tmp_path: Path
) -> None:
    address = server_address(server, protocol)
    with full_queue(server, tmp_path) as end:
        with pytest.raises(RequestError, match="Exceeds maximum queue size") as caught:
            infer(address, *echo(b"x"), kind=kind, retries=0)
        assert caught.value.status_name == "unavailable"
        assert caught.value.transient
        threading.Timer(0.1, end.touch).start()
        result = infer(address, *echo(b"x"), kind=kind, retries=100)
        assert result.as_numpy("response")[1:].tolist() == [b"x"]


@KINDS
def test_what_is_not_to_be_sent_twice_is_not(
    server: RunningServer, kind: str, tmp_path: Path
) -> None:
    """Requests over HTTP can be counted on the wire."""
    wrong: Any = ("classes", {"nose": LOGITS})
    with proxy_to(server.http) as proxy, full_queue(server, tmp_path):
        for call, more, retries, times in (
            (wrong, {}, 100, 1),
            (echo(), {"sequence_id": 3}, 100, 1),
            (echo(), {}, 0, 1),
            (echo(), {}, 1, 2),
        ):
            before, address = proxy.sent.count(b"POST"), server_address(server, "http", proxy)
            with pytest.raises(RequestError):
                infer(address, *call, kind=kind, more=more, retries=retries)
            assert proxy.sent.count(b"POST") - before == times


@KINDS
@PROTOCOLS
def test_a_server_that_comes_up_is_met(server: RunningServer, protocol: str, kind: str) -> None:
    proxy = TcpProxy(getattr(server, protocol))
    address = server_address(server, protocol, proxy)
    opener = threading.Timer(0.4, proxy.open)
    try:
        with pytest.raises(RequestError) as caught:
            infer(address, *CLASSES, kind=kind, retries=0)
        assert caught.value.status_name == "unavailable"
        opener.start()
        result = infer(address, *CLASSES, kind=kind, retries=100)
        assert result.as_numpy("class_ids").shape == (2, 3)
    finally:
        opener.join()
        proxy.close()


@KINDS
@PROTOCOLS
def test_a_broken_connection_is_replaced(server: RunningServer, protocol: str, kind: str) -> None:
    async def work(connection: Connection) -> None:
        await send(connection, *CLASSES)
        await send(connection, *CLASSES)
        assert proxy.connections == 1  # it is used again
        proxy.cut()
        assert (await send(connection, *CLASSES)).as_numpy("class_ids").shape == (2, 3)
        assert proxy.connections == 2

    with proxy_to(getattr(server, protocol)) as proxy:
        use(server_address(server, protocol, proxy), kind, work)


def test_a_dead_peer_is_noticed_by_keepalive(server: RunningServer) -> None:
    keepalive = Keepalive(time_s=0.2, timeout_s=0.2, without_calls=True, max_pings_without_data=0)

    async def work(connection: Connection) -> None:
        assert await connection.request("is_server_live")
        proxy.stall()
        begin = time.monotonic()
        with pytest.raises(RequestError) as caught:
            await send(connection, *CLASSES)
        assert caught.value.status_name == "unavailable"
        assert time.monotonic() - begin < 15  # and not the deadline of 30 s

    with proxy_to(server.grpc) as proxy:
        address = server_address(server, "grpc", proxy)
        use(address, "sync", work, keepalive=keepalive, retries=0)


# --- ends -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("idle_afterwards")
@KINDS
@PROTOCOLS
def test_a_deadline_holds(server: RunningServer, protocol: str, kind: str, tmp_path: Path) -> None:
    address, end = server_address(server, protocol), tmp_path / "end"
    use(address, kind, lambda each: each.request("is_server_live"))  # tritonclient is imported
    more = {"request_id": f"late {kind}"}
    with pytest.raises(RequestError, match=r"no response within 1 s") as caught:
        infer(address, *echo(behavior={"until": str(end)}), kind=kind, timeout_s=1, more=more)
    assert caught.value.status_name == "timeout"
    if protocol == "grpc":
        wait_for(lambda: server.log_lines(f"echo: late {kind} is cancelled"))
    end.touch()


@PROTOCOLS
def test_threads_share_a_connection(server: RunningServer, protocol: str) -> None:
    def best_classes(number: int) -> set[int]:
        logits = np.roll(np.float32([[9, 0, 0, 0, 0]]), number)
        requests = [send(connection, "classes", {"logits": logits}) for _ in range(20)]
        return {int(run(each).as_numpy("class_ids")[0, 0]) for each in requests}

    with proxy_to(getattr(server, protocol)) as proxy, ThreadPoolExecutor(5) as workers:
        connection = Connection(server_address(server, protocol, proxy), ConnectionOptions())
        assert list(workers.map(best_classes, range(5))) == [{0}, {1}, {2}, {3}, {4}]
        assert 1 <= proxy.connections <= (1 if protocol == "grpc" else 5)
        run(connection.close())


@pytest.mark.usefixtures("idle_afterwards")
@KINDS
@PROTOCOLS
def test_closing_ends_what_is_in_flight(
    server: RunningServer, protocol: str, kind: str, tmp_path: Path
) -> None:
    end = tmp_path / "end"

    async def work(connection: Connection) -> None:
        if kind == "sync":
            threading.Timer(0.2, lambda: run(connection.close())).start()
        else:
            closing = asyncio.ensure_future(asyncio.sleep(0.2))
            closing.add_done_callback(lambda _: asyncio.ensure_future(connection.close()))
        with pytest.raises(RequestError, match="the connection was closed") as caught:
            await send(connection, *echo(behavior={"until": str(end)}))
        end.touch()
        assert caught.value.status_name == "cancelled"
        with pytest.raises(RequestError, match="the connection was closed; open another one"):
            await connection.request("is_server_live")

    use(server_address(server, protocol), kind, work)


@pytest.mark.usefixtures("idle_afterwards")
@pytest.mark.parametrize("closes", [False, True])
@PROTOCOLS
def test_a_cancelled_task_cancels_its_request_alone(
    server: RunningServer, protocol: str, closes: bool, tmp_path: Path
) -> None:
    end, request_id = tmp_path / "end", f"gone {protocol} {closes}"

    async def work(connection: Connection) -> None:
        call = send(connection, *echo(behavior={"until": str(end)}), request_id=request_id)
        task = asyncio.ensure_future(call)
        other = asyncio.ensure_future(send(connection, *CLASSES))
        while not server.log_lines(f"echo: {request_id} begins"):
            await asyncio.sleep(0.01)
        if closes:
            await other
        task.cancel()
        if closes:
            await connection.close()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await other).as_numpy("class_ids").shape == (2, 3)
        assert closes or await connection.request("is_server_live")

    use(server_address(server, protocol), "async", work)
    if protocol == "grpc":  # over HTTP this server does not look whether its client has gone
        wait_for(lambda: server.log_lines(f"echo: {request_id} is cancelled"))
    end.touch()


@KINDS
@PROTOCOLS
def test_nothing_is_left_of_connections_and_their_threads(
    server: RunningServer, protocol: str, kind: str
) -> None:
    def connect() -> None:
        use(server_address(server, protocol), kind, lambda each: each.request("is_server_live"))

    def count(times: int) -> int:
        for _ in range(times):
            thread = threading.Thread(target=connect)
            thread.start()
            thread.join()
        return len(os.listdir("/proc/self/fd"))

    before = count(5)
    assert wait_for(lambda: count(50) <= before + 2)
    assert threading.active_count() < 20
