"""HTTP connections to servers that disconnect, are slow, or send invalid responses."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from endcap.client.connection import Connection
from endcap.client.errors import ClientError, RequestError
from endcap.client.options import parse_address
from endcap.client.served_model import fetch_served_model
from tests.support.raw_responses import RawServer, always, raw_server, reset, whole
from tests.triton.connection_calls import KINDS, Operation, send, use

PLAIN: Any = ("m", {"x": np.zeros(3, np.float32)}, ["y"])
EMPTY = whole(b'{"id":"id","outputs":[]}')


def infer(server: RawServer, kind: str, timeout_s: float | None = None, **options: Any) -> Any:
    return request(
        server,
        kind,
        lambda each: send(each, *PLAIN, timeout_s=timeout_s, request_id="id"),
        **options,
    )


def request(server: RawServer, kind: str, operation: Operation[Any], **options: Any) -> Any:
    address = parse_address(f"http://{server.address}")
    return use(address, kind, operation, **{"timeout_s": 5, **options})


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
        assert infer(server, kind).as_numpy("y") is None
        assert server.requests == 2


@KINDS
def test_a_head_that_trickles_in_is_not_waited_for(kind: str) -> None:
    def trickle(wire: socket.socket, _: int) -> None:
        wire.sendall(b"HTTP/1.1 200 OK\r\n")
        for _ in range(1500):
            wire.sendall(b"x: y\r\n")
            time.sleep(0.02)

    with raw_server(trickle) as server:
        begin = time.monotonic()
        with pytest.raises(RequestError, match=r"no response within 0\.2 s"):
            infer(server, kind, timeout_s=0.2)
        assert time.monotonic() - begin < 15


@KINDS
@pytest.mark.parametrize(
    "operation",
    [
        lambda each: send(each, *PLAIN),
        lambda each: each.request("get_model_metadata", model_name="m"),
        lambda each: each.request("get_model_config", model_name="m"),
        lambda each: each.request("get_system_shared_memory_status"),
    ],
)
@pytest.mark.parametrize("status", ["200 OK", "400 Bad Request"])
def test_json_that_is_nested_without_end_is_an_error(
    kind: str, operation: Operation[Any], status: str
) -> None:
    nested = b'{"outputs":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    with raw_server(always(whole(nested, status=status))) as server:
        with pytest.raises(RequestError) as caught:
            request(server, kind, operation)
        assert len(str(caught.value)) < 500


@KINDS
def test_only_the_first_requests_wait_for_a_lost_server(kind: str) -> None:
    counts: list[int] = []
    with raw_server(always(whole(b'{"error":"busy"}', status="503 Busy"))) as server:

        async def work(connection: Connection) -> None:
            for _ in range(3):
                with pytest.raises(RequestError, match="busy"):
                    await send(connection, *PLAIN)
                counts.append(server.requests)

        request(server, kind, work, retries=1)
    assert counts == [2, 3, 4]


@KINDS
@pytest.mark.parametrize(
    ("begun", "message", "requests"),
    [
        (b"HTTP/1.1 200 OK\r\nConte", "connection broke|reset by peer", 3),
        (whole(b"{}" * 50)[:-60], "connection broke|reset by peer", 3),
        (b"220 smtp ready\r\n", "is not a Triton server", 1),
    ],
    ids=["a part of a head", "a part of a body", "another protocol"],
)
@pytest.mark.parametrize("end", [reset, socket.socket.close], ids=["reset", "closed"])
def test_a_response_that_breaks_off_is_requested_again(
    kind: str, begun: bytes, message: str, requests: int, end: Callable[[socket.socket], None]
) -> None:
    def respond(wire: socket.socket, _: int) -> None:
        wire.sendall(begun)
        time.sleep(0.05)  # a reset would overtake it
        wire.shutdown(socket.SHUT_RDWR)
        end(wire)

    with raw_server(respond) as server:
        with pytest.raises(RequestError, match=message) as caught:
            infer(server, kind, retries=2)
        assert caught.value.status_name == "unavailable"
        assert server.requests == requests


@KINDS
def test_an_empty_body_has_its_length(kind: str) -> None:
    with raw_server(always(whole(b""))) as server:
        request(server, kind, lambda each: each.request("unregister_system_shared_memory"))
        assert b"content-length: 0" in server.heads[0].lower()


@KINDS
def test_a_refused_connection_is_known_as_one(kind: str) -> None:
    with raw_server(always(EMPTY)) as gone:
        pass
    with pytest.raises(RequestError) as refused:
        infer(gone, kind, retries=0)
    assert "Errno" not in str(refused.value)
    assert refused.value.transient


@pytest.mark.parametrize(
    ("content", "is_triton"), [(b'{"model_stats":[]}', True), (b"# HELP metrics", False)]
)
def test_grpc_to_the_http_port_names_the_address_over_http(content: bytes, is_triton: bool) -> None:
    expected = "the HTTP port: give http://" if is_triton else "or give its address with --url"
    with raw_server(always(whole(content))) as server:
        for kind in ("sync", "async"):
            with pytest.raises(ClientError, match=expected):
                use(
                    parse_address(server.address),
                    kind,
                    lambda each: fetch_served_model(each, "detect"),
                )
