"""Relay on loopback between FFmpeg and the server of a video.

FFmpeg would follow redirects to other hosts and does not count bytes. It connects to the relay,
which connects to one host only, checks its certificate, and ends the connection on a redirect.
It serves this process alone: other programs on the machine would reach the host through it.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

from endcap.errors import EndcapError, ImageLimitError, InvalidArgumentError
from endcap.triton.video_sources import Address
from endcap.video.source import Source, make_relayed_source

_PART = 1 << 16
# Longer than the lines that FFmpeg reads. It skips carriage returns, and takes the rest loosely.
_LINE = 1 << 13
_REDIRECTS = {
    "http": re.compile(rb"\A[^/\n]*/+\S*\s+\+?0*3\d\d"),
    "rtsp": re.compile(rb"RTSP/\S*\s+\+?0*3\d\d"),
}


class Relay:
    """Relays connections of FFmpeg to one server.

    Args:
        name: The source, for messages.
        address: The server and what is requested of it.
        timeout_s: For connecting.
        max_bytes: The most bytes to receive; None for no limit.

    Attributes:
        error: Why the last connection was ended before its end, or None.
    """

    def __init__(
        self, name: str, address: Address, *, timeout_s: float, max_bytes: int | None
    ) -> None:
        self.error: EndcapError | None = None
        self._name = name
        self._address = address
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._received = 0
        self._is_closed = False
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, name="endcap video relay", daemon=True).start()

    @property
    def source(self) -> Source:
        """What the reader opens."""
        address = self._address
        user = "" if address.user is None else f"{address.user}@"
        port = self._listener.getsockname()[1]
        url = f"{address.scheme[:4]}://{user}127.0.0.1:{port}{address.path}{address.query}"
        return make_relayed_source(self._name, url, host=address.authority)

    def close(self) -> None:
        """End all connections, from any thread."""
        with self._lock:
            self._is_closed = True
            for each in (self._listener, *self._open):
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, (_, port) = self._listener.accept()
                threading.Thread(
                    target=self._serve, args=(client, port), name="endcap video relay", daemon=True
                ).start()

    def _serve(self, client: socket.socket, port: int) -> None:
        # Errors of connections: one side is gone, and FFmpeg reports what it lacks.
        with contextlib.suppress(OSError), client, self._closable(client):
            if not _owns_connection(port, client.getsockname()[1]):
                return
            self.error = None
            try:
                with self._connect() as server, self._closable(server):
                    self._relay(client, server)
            except EndcapError as error:
                # Before FFmpeg sees the end of the connection, and its reader looks here.
                self.error = error.with_traceback(None)

    def _connect(self) -> socket.socket:
        address = self._address
        try:
            server = socket.create_connection((address.host, address.port), self._timeout_s)
            if address.scheme.endswith("s"):
                context = ssl.create_default_context()
                server = context.wrap_socket(server, server_hostname=address.host)
        except OSError as error:
            reason = error.strerror or error
            raise InvalidArgumentError(f"{self._name} cannot be reached: {reason}") from error
        return server

    def _relay(self, client: socket.socket, server: socket.socket) -> None:
        """Pass on what comes from both sides, in one thread: a connection of TLS is for one."""
        scheme, start, count = self._address.scheme[:4], b"", 0
        with selectors.DefaultSelector() as ready:
            for each in (client, server):
                ready.register(each, selectors.EVENT_READ)
            while True:
                pending = isinstance(server, ssl.SSLSocket) and server.pending() > 0
                readable = [key.fileobj for key, _ in ready.select(0 if pending else None)]
                if client in readable:
                    content = client.recv(_PART)
                    if not content:
                        return
                    server.sendall(content)
                if pending or server in readable:
                    content = server.recv(_PART)
                    if not content:
                        return
                    if scheme == "rtsp" or count < _LINE:
                        start += content.replace(b"\r", b"")
                        if _REDIRECTS[scheme].search(start):
                            raise self._redirects()
                        start = start[-_LINE:]
                    count += len(content)
                    self._count(len(content))
                    client.sendall(content)

    @contextlib.contextmanager
    def _closable(self, connection: socket.socket) -> Iterator[None]:
        """Let `close` end a connection."""
        with self._lock:
            if self._is_closed:
                raise ConnectionAbortedError
            self._open.add(connection)
        try:
            yield
        finally:
            with self._lock:
                self._open.remove(connection)

    def _count(self, size: int) -> None:
        with self._lock:
            self._received += size
            if self._max_bytes is not None and self._received > self._max_bytes:
                raise ImageLimitError(
                    f"{self._name} has more than {self._max_bytes} bytes, the limit of the "
                    "parameter max_file_bytes"
                )

    def _redirects(self) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"{self._name} redirects to another address, which is not followed; send or configure "
            "the address that it leads to"
        )


def _owns_connection(port: int, peer_port: int) -> bool:
    """Return whether this process has the socket of a connection from one port on loopback."""
    ends = [f"0100007F:{each:04X}" for each in (port, peer_port)]
    rows = map(str.split, Path("/proc/self/net/tcp").read_text("ascii").splitlines())
    sockets = {f"socket:[{row[9]}]" for row in rows if row[1:3] == ends}
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            if os.readlink(descriptor) in sockets:
                return True
    return False
