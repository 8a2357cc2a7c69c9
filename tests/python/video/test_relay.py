"""The relay between FFmpeg and the server of a video: redirects, bytes, certificates."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from endcap.errors import ImageLimitError, InvalidArgumentError
from endcap.triton.video_sources import parse_address
from endcap.video import VideoReader
from endcap.video.relay import Relay
from tests.support.http_site import content, run_site
from tests.support.videos import encode, scene

BODY = bytes(range(256)) * 400


@contextlib.contextmanager
def responding(*parts: bytes) -> Iterator[int]:
    """A server on loopback that sends parts to its first client, and then ends."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def run() -> None:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for part in parts:
                    connection.sendall(part)

        thread = threading.Thread(target=run)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


def receive(relay: Relay) -> bytes:
    """What a client of the relay gets until the end."""
    url = parse_address(relay.source.target)  # type: ignore[arg-type]
    received = b""
    with socket.create_connection((url.host, url.port), timeout=10) as client:
        while part := client.recv(1 << 16):
            received += part
    return received


@contextlib.contextmanager
def relay_to(scheme: str, port: int, max_bytes: int | None = None) -> Iterator[Relay]:
    address = parse_address(f"{scheme}://me:secret@127.0.0.1:{port}/a?b")
    relay = Relay("camera gate", address, timeout_s=5, max_bytes=max_bytes)
    with contextlib.closing(relay):
        yield relay


@pytest.mark.parametrize("scheme", ["rtsp", "http"])
def test_responses_pass(scheme: str) -> None:
    content = f"{scheme.upper()}/1.0 200 OK\r\n\r\n".encode() + BODY
    with responding(content) as port, relay_to(scheme, port, len(content)) as relay:
        assert receive(relay) == content
        assert relay.error is None


def test_a_file_comes_through_the_relay_and_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    clip = encode(scene(5, 64, 48))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    with run_site() as site, relay_to("http", site.port) as relay:
        site.paths["/a"] = lambda handler: content(handler, body=clip)
        with VideoReader(relay.source) as reader:
            assert len(list(reader)) == 5
        assert site.heads[0]["Host"] == f"127.0.0.1:{site.port}"
        assert relay.error is None


@pytest.mark.parametrize(
    ("scheme", "parts"),
    [
        ("rtsp", [b"RTSP/1.0 302 Found\r\nLocation: rtsp://a/\r\n\r\n"]),
        ("rtsp", [b"RTSP/1.0 200 OK\r\n\r\n" + BODY + b"RTSP/1.0 30", b"1 Moved\r\n\r\n"]),
        ("rtsp", [b"RTSP/1.0\r  \r+3\r05 x\n\n"]),
        ("http", [b"HTTP/1.1 302 Found\r\n"]),
        ("http", [b"HT", b"TP/1.1\t0", b"308 x\r\n"]),
        ("http", [b"x//y 307\n"]),
    ],
)
def test_redirects_end_the_connection(scheme: str, parts: list[bytes]) -> None:
    with responding(*parts) as port, relay_to(scheme, port) as relay:
        assert not receive(relay).endswith(parts[-1])
        with pytest.raises(InvalidArgumentError, match="camera gate redirects to another address"):
            raise relay.error or AssertionError


def test_bytes_are_counted_over_all_connections() -> None:
    with run_site() as site, relay_to("http", site.port, 1000) as relay:
        url = parse_address(relay.source.target)  # type: ignore[arg-type]
        for _ in range(2):  # responses of 404 of some hundred bytes each
            assert relay.error is None
            with socket.create_connection((url.host, url.port), timeout=10) as client:
                client.sendall(b"GET /missing HTTP/1.0\r\n\r\n")
                while client.recv(1 << 16):
                    pass
        with pytest.raises(ImageLimitError, match="camera gate has more than 1000 bytes"):
            raise relay.error or AssertionError


def test_other_processes_get_no_connection_to_the_server() -> None:
    connect = (
        "import socket, sys\n"
        "with socket.create_connection(('127.0.0.1', int(sys.argv[1])), 10) as relay:\n"
        "    sys.exit(len(relay.recv(1)))"
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        with relay_to("rtsp", server.getsockname()[1]) as relay:
            port = parse_address(relay.source.target).port  # type: ignore[arg-type]
            subprocess.run([sys.executable, "-c", connect, str(port)], check=True, timeout=30)
            with pytest.raises(TimeoutError):
                server.accept()


@pytest.mark.parametrize("scheme", ["https", "rtsps"])
def test_a_server_without_a_certificate_is_not_read(scheme: str) -> None:
    with responding(BODY) as port, relay_to(scheme, port) as relay:
        assert receive(relay) == b""
        with pytest.raises(InvalidArgumentError, match="camera gate cannot be reached") as refused:
            raise relay.error or AssertionError
        assert "secret" not in str(refused.value)


def test_closing_ends_a_silent_connection() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        relay_to("rtsp", silent.getsockname()[1]) as relay,
    ):
        silent.settimeout(10)

        def close() -> None:
            with silent.accept()[0]:
                relay.close()

        closing = threading.Thread(target=close)
        closing.start()
        assert receive(relay) == b""
        closing.join()
