"""HTTP connections to servers that disconnect, are slow, or send invalid responses."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from endcap.client.calls import Call, InputTensor, OutputTensor, SharedSlice
from endcap.client.concurrency import run as run_blocking
from endcap.client.connection import AsyncConnection, Connection
from endcap.client.errors import ClientError, RequestError
from endcap.client.options import ConnectionOptions, Tls, parse_address
from endcap.client.served_model import fetch_served_model
from tests.support.raw_responses import RawServer, always, raw_server, reset, whole

INPUT = InputTensor.of("x", np.zeros(3, np.float32))
PLAIN = Call("m", [INPUT], [OutputTensor("y")], "id")
SHARED = Call("m", [INPUT], [OutputTensor("y", SharedSlice("region", 0, 4))], "id")
EMPTY = whole(b'{"id":"id","outputs":[]}')
KINDS = pytest.mark.parametrize("kind", ["sync", "async"])


def infer(
    server: RawServer, kind: str, call: Call = PLAIN, timeout_s: float | None = None, **options: Any
) -> Any:
    return send_request(server, kind, lambda each: each.infer(call, timeout_s=timeout_s), **options)


def send_request(
    server: RawServer, kind: str, operation: Callable[[Any], Any], **options: Any
) -> Any:
    address = parse_address(f"http://{server.address}")
    given = ConnectionOptions(**{"timeout_s": 5, **options})
    if kind == "sync":
        with Connection(address, given) as connection:
            return operation(connection)

    async def run() -> Any:
        async with AsyncConnection(address, given) as connection:
            return await operation(connection)

    return asyncio.run(run())


def breaking_once(begun: bytes) -> Callable[[socket.socket, int], None]:
    """Breaks the first request's connection after `begun`, responds to others."""

    def response(wire: socket.socket, number: int) -> None:
        if number > 1:
            wire.sendall(EMPTY)
            return
        wire.sendall(begun)
        time.sleep(0.05)  # a reset would overtake it
        reset(wire)

    return response


@KINDS
def test_a_request_that_was_reset_is_sent_again(kind: str) -> None:
    with raw_server(breaking_once(b"")) as server:
        assert infer(server, kind).tensors == {"y": None}
        assert server.requests == 2


@KINDS
@pytest.mark.parametrize(
    ("call", "begun"),
    [(SHARED, b""), (PLAIN, whole(b"{}")[:-1]), (PLAIN, whole(b"{}" * 50)[:-60])],
    ids=["shared memory", "cut in the end", "cut in the middle"],
)
def test_a_request_that_may_have_run_is_not(kind: str, call: Call, begun: bytes) -> None:
    with raw_server(breaking_once(begun)) as server:
        with pytest.raises(RequestError) as caught:
            infer(server, kind, call)
        assert caught.value.status_name == "unavailable"
        assert server.requests == 1


@KINDS
def test_a_head_that_trickles_in_is_not_waited_for(kind: str) -> None:
    def trickle(wire: socket.socket, _: int) -> None:
        wire.sendall(b"HTTP/1.1 200 OK\r\n")
        for _ in range(150):
            wire.sendall(b"x: y\r\n")
            time.sleep(0.02)

    with raw_server(trickle) as server:
        begin = time.monotonic()
        with pytest.raises(RequestError, match=r"no response within 0\.2 s"):
            infer(server, kind, timeout_s=0.2)
        assert time.monotonic() - begin < 1.5


@KINDS
def test_the_response_to_another_request_is_an_error(kind: str) -> None:
    other = whole(b'{"id":"another","outputs":[]}')
    with raw_server(always(other)) as server:
        with pytest.raises(RequestError, match="it is for the request 'another'") as caught:
            infer(server, kind)
        assert caught.value.request_id == "id"


@KINDS
@pytest.mark.parametrize(
    "operation",
    [
        lambda connection: connection.infer(PLAIN),
        lambda connection: connection.metadata("m"),
        lambda connection: connection.config("m"),
        lambda connection: connection.registered("system"),
    ],
)
@pytest.mark.parametrize("status", ["200 OK", "400 Bad Request"])
def test_json_that_is_nested_without_end_is_an_error(
    kind: str, operation: Callable[[Any], Any], status: str
) -> None:
    nested = b'{"outputs":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    with raw_server(always(whole(nested, status=status))) as server:
        with pytest.raises(RequestError) as caught:
            send_request(server, kind, operation)
        assert len(str(caught.value)) < 500


@KINDS
def test_only_the_first_requests_wait_for_a_lost_server(kind: str) -> None:
    counts: list[int] = []
    with raw_server(always(whole(b'{"error":"busy"}', status="503 Busy"))) as server:

        async def infer_async(connection: Any) -> None:
            for _ in range(3):
                with pytest.raises(RequestError, match="busy"):
                    await connection.infer(PLAIN)
                counts.append(server.requests)

        def infer_sync(connection: Any) -> None:
            for _ in range(3):
                with pytest.raises(RequestError, match="busy"):
                    connection.infer(PLAIN)
                counts.append(server.requests)

        operation = infer_async if kind == "async" else infer_sync
        send_request(server, kind, operation, retries=1)
    assert counts == [2, 3, 4]


# --- responses that have begun --------------------------------------------------------------------


@KINDS
@pytest.mark.parametrize(
    ("begun", "message"),
    [
        (b"HTTP/1.1 200 OK\r\nConte", "in the middle of the response"),
        (b"220 smtp ready\r\n", "is not a Triton server"),
    ],
    ids=["a part of a head", "another protocol"],
)
@pytest.mark.parametrize("end", [reset, socket.socket.close], ids=["reset", "closed"])
def test_a_request_whose_response_has_begun_is_not_sent_again(
    kind: str, begun: bytes, message: str, end: Callable[[socket.socket], None]
) -> None:
    def respond(wire: socket.socket, _: int) -> None:
        wire.sendall(begun)
        time.sleep(0.05)  # a reset would overtake it
        wire.shutdown(socket.SHUT_RDWR)
        end(wire)

    with raw_server(respond) as server:
        with pytest.raises(RequestError, match=message):
            infer(server, kind, retries=2)
        assert server.requests == 1


@KINDS
def test_an_empty_body_has_its_length(kind: str) -> None:
    with raw_server(always(whole(b""))) as server:
        send_request(server, kind, lambda each: each.unregister_shared("system", "region"))
        assert b"content-length: 0" in server.heads[0].lower()


# --- closing while a connection is being made -----------------------------------------------------


def closed_meanwhile(server: RawServer, scheme: str, kind: str) -> RequestError:
    """Return the error of a request whose connection is closed after 0.1 s."""
    options = ConnectionOptions(timeout_s=5, tls=Tls(verify=False) if scheme == "https" else None)
    address = parse_address(f"{scheme}://{server.address}")
    if kind == "sync":
        connection = Connection(address, options)
        closing = threading.Timer(0.1, connection.close)
        closing.start()
        with pytest.raises(RequestError) as caught:
            connection.infer(PLAIN)
        closing.join()
        return caught.value

    async def run() -> RequestError:
        connection = AsyncConnection(address, options)
        request = asyncio.ensure_future(connection.infer(PLAIN))
        await asyncio.sleep(0.1)
        await connection.close()
        with pytest.raises(RequestError) as caught:
            await request
        return caught.value

    return asyncio.run(run())


@KINDS
def test_closing_ends_a_handshake(kind: str) -> None:
    begin = time.monotonic()
    with raw_server(always(EMPTY)) as server:  # waits for more: no TLS client says "\r\n\r\n"
        assert closed_meanwhile(server, "https", kind).status_name == "cancelled"
    assert time.monotonic() - begin < 3


@KINDS
def test_a_refused_connection_is_known_as_one(kind: str) -> None:
    with raw_server(always(EMPTY)) as gone:
        pass
    with pytest.raises(RequestError) as refused:
        infer(gone, kind, retries=0)
    assert "Errno" not in str(refused.value)
    assert (refused.value.refused, refused.value.transient) == (True, True)


@pytest.mark.parametrize(
    ("content", "is_triton"), [(b'{"model_stats":[]}', True), (b"# HELP metrics", False)]
)
def test_grpc_to_the_http_port_names_the_address_over_http(content: bytes, is_triton: bool) -> None:
    expected = "the HTTP port: give http://" if is_triton else "or give its address with --url"
    with raw_server(always(whole(content))) as server:
        address = parse_address(server.address)

        async def run() -> None:
            async with AsyncConnection(address) as connection:
                await fetch_served_model(connection, "detect")

        with pytest.raises(ClientError, match=expected):
            asyncio.run(run())
        with Connection(address) as connection, pytest.raises(ClientError, match=expected):
            run_blocking(fetch_served_model(connection.coroutines, "detect"))
