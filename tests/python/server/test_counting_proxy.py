"""The proxy that counts what goes over the wire: what it passes on, and how it ends."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from counting_proxy import CountingProxy


@pytest.fixture
def doubling_server() -> Iterator[str]:
    """Responses each connection with twice what it gets until the client has ended."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection, connection.makefile("rb") as file:
                        connection.sendall(file.read() * 2)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def send_through(proxy: CountingProxy, message: bytes) -> bytes:
    host, _, port = proxy.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as client:
        client.sendall(message)
        client.shutdown(socket.SHUT_WR)
        with client.makefile("rb") as file:
            return file.read()


def test_the_proxy_passes_on_and_counts_both_ways(doubling_server: str) -> None:
    message = os.urandom(300_000)
    with CountingProxy(doubling_server) as proxy:
        assert send_through(proxy, message) == message * 2
        assert proxy.take() == (300_000, 600_000)
        assert proxy.take() == (0, 0)
        send_through(proxy, b"abc")
        assert (proxy.take(), proxy.connections) == ((3, 6), 2)


def test_a_closed_proxy_cuts_what_is_open(doubling_server: str) -> None:
    with CountingProxy(doubling_server) as proxy:
        host, _, port = proxy.address.rpartition(":")
        client = socket.create_connection((host, int(port)), timeout=10)
        client.sendall(b"abc")
    with client, contextlib.suppress(ConnectionResetError):
        assert client.recv(10) in (b"", b"abcabc")  # and no timeout
    with pytest.raises(OSError, match="refused"):
        send_through(proxy, b"abc")


def test_a_proxy_that_is_closed_while_it_opens_a_connection_ends(
    doubling_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect, opens, goes_on = socket.create_connection, threading.Event(), threading.Event()

    def slowly(address: tuple[str, int]) -> socket.socket:
        opens.set()
        assert goes_on.wait(10)
        return connect(address)

    proxy = CountingProxy(doubling_server)
    host, _, port = proxy.address.rpartition(":")
    monkeypatch.setattr(socket, "create_connection", slowly)
    with connect((host, int(port)), timeout=10) as client:
        assert opens.wait(10)
        closing = threading.Thread(target=proxy.close, daemon=True)
        closing.start()
        time.sleep(0.1)  # close() has cut what it knew of
        goes_on.set()
        closing.join(10)
        assert not closing.is_alive()
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(10) == b""


def test_a_client_learns_that_the_server_behind_the_proxy_is_gone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = f"127.0.0.1:{taken.getsockname()[1]}"
    with CountingProxy(nobody) as proxy:
        host, _, port = proxy.address.rpartition(":")
        for _ in range(2):
            with socket.create_connection((host, int(port)), timeout=10) as client:
                assert client.recv(10) == b""
        assert proxy.connections == 0
