"""What stands between a client and a server: it counts, and cuts, stalls or wraps by TLS."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
from collections.abc import Callable, Iterator


class TcpProxy:
    """Passes connections on to `target`; listens once it is opened.

    sent, received: what clients have sent and received in the clear, of all connections.
    """

    def __init__(self, target: str, *, tls: ssl.SSLContext | None = None) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._tls = tls
        self._listener = _bound(0)
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._stalled = False
        self._closed = False
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.connections = 0
        self.sent = bytearray()
        self.received = bytearray()

    def open(self) -> None:
        """Before this, connections are refused."""
        self._listener.listen()
        self._start(self._accept)

    def stall(self) -> None:
        """From now on nothing passes, and nobody is told: as where a cable is pulled."""
        self._stalled = True

    def cut(self) -> None:
        """Ends all connections that there are."""
        with self._lock:
            ending, self._open = self._open, []
        for end in ending:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def refuse(self) -> None:
        """Ends all connections, and refuses others until it is opened again, at the same port."""
        port = self._listener.getsockname()[1]
        self._stop_listening()
        self.cut()
        self._listener = _bound(port)

    def _stop_listening(self) -> None:
        with contextlib.suppress(OSError):  # it may never have listened
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def close(self) -> None:
        self._stop_listening()
        with self._lock:
            self._closed = True
        self.cut()
        for thread in self._threads:
            thread.join()

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the listener is closed
            while True:
                client, _ = self._listener.accept()
                self.connections += 1
                self._start(self._connect, client)

    def _connect(self, client: socket.socket) -> None:
        with contextlib.ExitStack() as ends:
            self._hold(ends.enter_context(client))
            try:
                if self._tls is not None:
                    client = ends.enter_context(
                        self._tls.wrap_socket(
                            client, server_side=True, do_handshake_on_connect=False
                        )
                    )
                    self._hold(client)
                    client.do_handshake()
                server = ends.enter_context(socket.create_connection(self._target))
            except OSError:  # of TLS, too: the client does not trust the server, say
                return
            self._hold(server)
            with contextlib.suppress(OSError):  # it is cut
                self._pass(client, server)

    def _hold(self, end: socket.socket) -> None:
        """What is opened once the proxy is closed is cut at once."""
        with self._lock:
            self._open.append(end)
            closed = self._closed
        if closed:
            self.cut()

    def _pass(self, client: socket.socket, server: socket.socket) -> None:
        """One thread for both directions: two must not use a TLS connection at once."""
        while True:
            ready, _, _ = select.select([client, server], [], [])
            for source, sink, seen in (
                (client, server, self.sent),
                (server, client, self.received),
            ):
                if source not in ready:
                    continue
                content = _available(source)
                if not content:
                    return
                if not self._stalled:
                    seen += content
                    sink.sendall(content)


def _bound(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    return listener


def _available(source: socket.socket) -> bytes:
    content = source.recv(1 << 16)
    while isinstance(source, ssl.SSLSocket) and source.pending():
        content += source.recv(1 << 16)
    return content


@contextlib.contextmanager
def proxy_to(target: str, *, tls: ssl.SSLContext | None = None) -> Iterator[TcpProxy]:
    proxy = TcpProxy(target, tls=tls)
    try:
        proxy.open()
        yield proxy
    finally:
        proxy.close()
