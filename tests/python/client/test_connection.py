"""Connections to servers that disconnect, are slow or busy, or send invalid responses."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import socketserver
import struct
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from endcap.client import ClientError
from endcap.client.errors import RequestError
from tests.triton.client_layouts import HTTP, OVER_GRPC, OVER_HTTP, Layout, each

Responder = Callable[[socket.socket, int], Any]


class RawServer(socketserver.ThreadingTCPServer):
    """An HTTP server that calls `respond` with the connection and the number of each request."""

    daemon_threads = True

    def __init__(self, respond: Responder) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.address = f"127.0.0.1:{self.server_address[1]}"
        self.respond = respond
        self.requests: list[http.client.HTTPMessage] = []  # the headers of each


class _Handler(socketserver.StreamRequestHandler):
    server: RawServer

    def handle(self) -> None:
        with contextlib.suppress(OSError):  # it is cut
            while self.rfile.readline():
                headers = http.client.parse_headers(self.rfile)
                self.rfile.read(int(headers.get("Content-Length", 0)))
                self.server.requests.append(headers)
                self.server.respond(self.request, len(self.server.requests))


@contextlib.contextmanager
def raw_server(respond: Responder | bytes) -> Iterator[RawServer]:
    """Runs a server; a response instead of a function is that to each request."""
    always = respond if callable(respond) else lambda wire, _: wire.sendall(respond)
    with RawServer(always) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def whole(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def reset(wire: socket.socket) -> None:
    """End a connection so that its other side is told of a reset."""
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wire.close()


PLAIN: Any = ("m", {"x": np.zeros(3, np.float32)}, ["y"])
EMPTY = whole(b'{"id":"id","outputs":[]}')


def send(layout: Layout, server: RawServer, *, more: Any = None, **options: Any) -> Any:
    options = {"timeout_s": 5, **options}
    return layout.send(server, *PLAIN, more={"request_id": "id", **(more or {})}, **options)


@each(OVER_HTTP)
def test_a_head_that_trickles_in_is_not_waited_for(layout: Layout) -> None:
    def trickle(wire: socket.socket, _: int) -> None:
        wire.sendall(b"HTTP/1.1 200 OK\r\n")
        for _ in range(1500):
            wire.sendall(b"x: y\r\n")
            time.sleep(0.02)

    with raw_server(trickle) as server:
        begin = time.monotonic()
        with pytest.raises(RequestError, match=r"no response within 0\.2 s"):
            send(layout, server, timeout_s=0.2)
        assert time.monotonic() - begin < 15


@each(OVER_HTTP)
@pytest.mark.parametrize(
    "call",
    [
        lambda each: each.send(*PLAIN),
        lambda each: each.request("get_model_metadata", model_name="m"),
        lambda each: each.request("get_system_shared_memory_status"),
    ],
)
@pytest.mark.parametrize("status", ["200 OK", "400 Bad Request"])
def test_json_that_is_nested_without_end_is_an_error(
    layout: Layout, call: Callable[[Any], Any], status: str
) -> None:
    nested = b'{"outputs":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    with (
        raw_server(whole(nested, status)) as server,
        layout.connect(server) as connection,
        pytest.raises(RequestError) as caught,
    ):
        call(connection)
    assert len(str(caught.value)) < 500


@each(OVER_HTTP)
@pytest.mark.parametrize(
    ("begun", "message", "requests"),
    [
        (b"", "connection broke|reset by peer", 3),
        (b"HTTP/1.1 200 OK\r\nConte", "connection broke|reset by peer", 3),
        (whole(b"{}" * 50)[:-60], "connection broke|reset by peer", 3),
        (b"220 smtp ready\r\n", "is not a Triton server", 1),
    ],
    ids=["nothing", "a part of a head", "a part of a body", "another protocol"],
)
@pytest.mark.parametrize("end", [reset, socket.socket.close], ids=["reset", "closed"])
def test_a_response_that_breaks_off_is_requested_again(
    layout: Layout, begun: bytes, message: str, requests: int, end: Callable[[socket.socket], None]
) -> None:
    def respond(wire: socket.socket, number: int) -> None:
        if number > 4:
            wire.sendall(EMPTY)
            return
        wire.sendall(begun)
        time.sleep(0.05)  # a reset would overtake it
        wire.shutdown(socket.SHUT_RDWR)
        end(wire)

    with raw_server(respond) as server:
        with pytest.raises(RequestError, match=message) as caught:
            send(layout, server, retries=2)
        assert caught.value.status_name == "unavailable"
        assert len(server.requests) == requests
        if requests > 1:
            assert send(layout, server, retries=2).as_numpy("y") is None


@each(OVER_HTTP)
@pytest.mark.parametrize(
    ("status", "options", "requests"),
    [
        ("503 Busy", {"retries": 0}, 1),
        ("503 Busy", {"retries": 1}, 2),
        ("503 Busy", {"retries": 100, "more": {"sequence_id": 3}}, 1),
        ("400 Bad Request", {"retries": 100}, 1),
    ],
)
def test_what_is_not_to_be_sent_twice_is_not(
    layout: Layout, status: str, options: dict[str, Any], requests: int
) -> None:
    with raw_server(whole(b'{"error":"busy"}', status)) as server:
        with pytest.raises(RequestError, match="busy"):
            send(layout, server, **options)
        assert len(server.requests) == requests


@each(OVER_HTTP)
def test_only_the_first_requests_wait_for_a_lost_server(layout: Layout) -> None:
    busy = whole(b'{"error":"busy"}', "503 Busy")
    with raw_server(busy) as server, layout.connect(server, retries=1) as connection:
        for requests in (2, 3, 4):
            with pytest.raises(RequestError, match="busy"):
                connection.send(*PLAIN)
            assert len(server.requests) == requests


@each(OVER_HTTP)
def test_an_overloaded_server_gets_the_request_when_it_says(layout: Layout) -> None:
    def respond(wire: socket.socket, number: int) -> None:
        text = b'{"error":"unavailable: too much; retry after 700 ms"}'
        wire.sendall(EMPTY if number > 1 else whole(text, "503 Busy"))

    with raw_server(respond) as server:
        begin = time.monotonic()
        assert send(layout, server).as_numpy("y") is None
        assert time.monotonic() - begin > 0.7


def test_an_interrupted_request_closes_its_connection() -> None:
    """The server reads and sends nothing, until the request is interrupted."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    def interrupt_when_connected() -> None:
        accepted.append(server.accept()[0])
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGUSR1)

    accepted: list[socket.socket] = []
    previous = signal.signal(signal.SIGUSR1, interrupt)
    interrupting = threading.Thread(target=interrupt_when_connected)
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as server:
        address = SimpleNamespace(address=f"127.0.0.1:{server.getsockname()[1]}")
        with HTTP.connect(address) as connection:
            interrupting.start()
            with pytest.raises(KeyboardInterrupt):
                connection.send("m", {"x": np.zeros(1, np.uint8)})
            interrupting.join()
            signal.signal(signal.SIGUSR1, previous)
            with accepted[0] as wire:
                wire.settimeout(5)
                while wire.recv(1 << 20):
                    pass  # it ends, since the other side is closed


@each(OVER_GRPC)
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"model_stats":[]}', "the HTTP port: give http://"),
        (b"# HELP metrics", "or give its address with --url"),
    ],
)
def test_grpc_to_the_http_port_names_the_address_over_http(
    layout: Layout, content: bytes, message: str
) -> None:
    with (
        raw_server(whole(content)) as server,
        pytest.raises(ClientError, match=message),
        layout.client(server),
    ):
        pass
