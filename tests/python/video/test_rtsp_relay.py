"""The relay between FFmpeg and RTSP servers: what it passes on, and what it refuses."""

from __future__ import annotations

import contextlib
import socket
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from endcap.errors import InvalidArgumentError
from endcap.triton.url_patterns import parse_patterns, parse_url
from endcap.video.addresses import UrlRules
from endcap.video.rtsp_relay import ResponseCheck, RtspRelay

OK = b"RTSP/1.0 200 OK\r\nCSeq: 1\r\nContent-Length: 4\r\n\r\nbody"
PACKET = b"$\x00\x00\x05" + b"\r\n\r\n$"  # its payload is no message
REQUEST = b"OPTIONS rtsp://a/b RTSP/1.0\r\nCSeq: 1\r\n\r\n"


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_messages_and_packets_pass_whatever_their_parts(size: int) -> None:
    content = OK + PACKET + b"RTSP/1.0 404 Not Found\r\n\r\n" + PACKET + REQUEST + OK
    check = ResponseCheck()
    parts = [content[start : start + size] for start in range(0, len(content), size)]
    assert b"".join(check.take(part) for part in parts) == content


def test_what_is_not_whole_waits() -> None:
    check = ResponseCheck()
    assert check.take(OK + PACKET[:-1]) == OK
    assert check.take(PACKET[-1:]) == PACKET


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"RTSP/1.0 302 Found\r\nLocation: rtsp://127.0.0.1/\r\n\r\n", "redirects .status 302"),
        (b"RTSP/1.0 301 Moved\r\n\r\n", "redirects .status 301"),
        (b"RTSP/1.0  305 Use Proxy\r\n\r\n", "redirects"),
        (OK + PACKET + b"RTSP/1.0 303 x\r\n\r\n", "redirects"),
        (b"RTSP/1.0 2o0 OK\r\n\r\n", "without a status"),
        (b"RTSP/1.0 200 OK\nRTSP/1.0 302 Found\r\n\r\n", "no RTSP"),
        (b"RTSP/1.0 200 OK\r\n$\x00\x00\x00\r\n\r\n", "no RTSP"),
        (b"RTSP/1.0 200 OK\r\nA: \x00\r\n\r\n", "no RTSP"),
        (b"RTSP/1.0 200 OK\r\nA: \rB\r\n\r\n", "no RTSP"),
        (b"RTSP/1.0 200 OK\r\n" + b"A" * 5000 + b"\r\n\r\n", "no RTSP"),
        (b"RTSP/1.0 200 OK\r\nContent-Length: 4\r\nContent-length: 0\r\n\r\n", "no clear length"),
        (b"RTSP/1.0 200 OK\r\nContent-Length: -1\r\n\r\n", "no clear length"),
        (b"RTSP/1.0 200 OK\r\nContent-Length: 99999999\r\n\r\n", "no clear length"),
        (b"A" * 70_000, "without an end"),
    ],
)
def test_redirects_and_what_may_be_read_differently_are_refused(content: bytes, part: str) -> None:
    check = ResponseCheck()
    with pytest.raises(InvalidArgumentError, match=part):
        check.take(content)


@contextlib.contextmanager
def rtsp_server(*responses: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """A server that sends the next response for each part that it gets, and what it got."""
    got: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(10)

    def run() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    for response in responses:
                        content = connection.recv(65536)
                        if not content:
                            break
                        got.append(content)
                        connection.sendall(response)
                    connection.recv(65536)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1], got
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)


def connected(relay: RtspRelay) -> socket.socket:
    address = urllib.parse.urlsplit(relay.url)
    assert address.hostname == "127.0.0.1"
    return socket.create_connection((address.hostname, address.port), 10)


def relay_to(port: int, resolve: Callable[..., Any] | None = None, **options: Any) -> RtspRelay:
    host = "127.0.0.1" if resolve is None else "localhost"
    more = {} if resolve is None else {"resolve": resolve}
    rules = UrlRules(parse_patterns(f"rtsp://viewer:*@{host}:{port}/*"), **more)
    url = parse_url(f"rtsp://viewer:secret@{host}:{port}/live?x=1")
    return RtspRelay(url, rules, **{"timeout_s": 5.0, **options})


def test_a_connection_is_relayed_both_ways() -> None:
    with rtsp_server(OK, PACKET + OK) as (port, got), contextlib.closing(relay_to(port)) as relay:
        assert relay.url.startswith("rtsp://viewer:secret@127.0.0.1:")
        assert relay.url.endswith("/live?x=1")
        with connected(relay) as client:
            client.sendall(REQUEST)
            assert _read(client, len(OK)) == OK
            client.sendall(REQUEST)
            assert _read(client, len(PACKET + OK)) == PACKET + OK
        assert got == [REQUEST, REQUEST]


def test_it_connects_again_for_the_next_connection_after_another_check() -> None:
    queried: list[str] = []

    def resolve(host: str, port: int) -> list[str]:
        queried.append(host)
        return ["127.0.0.1"] if len(queried) < 3 else ["169.254.169.254"]

    with rtsp_server(OK) as (port, _), contextlib.closing(relay_to(port, resolve)) as relay:
        for _ in range(2):
            with connected(relay) as client:
                client.sendall(REQUEST)
                assert _read(client, len(OK)) == OK
        with connected(relay) as client:
            assert client.recv(100) == b""
        assert queried == ["localhost"] * 3
        assert relay.error is not None
        assert "is not public" in relay.error


def test_a_redirect_ends_the_connection_before_it_is_passed_on() -> None:
    redirect = b"RTSP/1.0 302 Found\r\nLocation: rtsp://127.0.0.1:1/\r\n\r\n"
    with rtsp_server(redirect) as (port, _), contextlib.closing(relay_to(port)) as relay:
        with connected(relay) as client:
            client.sendall(REQUEST)
            assert client.recv(100) == b""
        assert relay.error is not None
        assert "redirects (status 302)" in relay.error


def test_a_server_that_is_silent_is_given_up() -> None:
    with (
        rtsp_server() as (port, _),
        contextlib.closing(relay_to(port, timeout_s=0.3)) as relay,
        connected(relay) as client,
    ):
        client.settimeout(10)
        assert client.recv(100) == b""


def test_what_is_not_allowed_or_not_there_fails_at_once() -> None:
    with pytest.raises(InvalidArgumentError, match="no pattern"):
        RtspRelay(
            parse_url("rtsp://127.0.0.1/x"), UrlRules(parse_patterns("rtsp://a/*")), timeout_s=1
        )
    with pytest.raises(InvalidArgumentError, match="cannot be reached"):
        relay_to(9)


def test_close_ends_a_connection_and_the_thread() -> None:
    with rtsp_server(OK) as (port, _):
        relay = relay_to(port, timeout_s=20)
        with connected(relay) as client:
            client.sendall(REQUEST)
            assert _read(client, len(OK)) == OK
            relay.close()
            assert client.recv(100) == b""
        names = {thread.name for thread in threading.enumerate()}
        assert "endcap rtsp relay" not in names


def _read(connection: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size and (part := connection.recv(size - len(content))):
        content += part
    return content
