"""Stands between a client and a server, and counts what goes over the wire."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple

_PIECE = 1 << 16


class Bytes(NamedTuple):
    """Payload of TCP: with headers of HTTP and gRPC, compressed where that is asked for."""

    up: int  # from the client
    down: int


class CountingProxy:
    """Passes connections to a free port of the loopback on to a server.

    target: HOST:PORT of the server.

    Attributes:
        address: HOST:PORT for the client.
        connections: how many there have been.
    """

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.connections = 0
        self._lock = threading.Lock()
        self._counted = [0, 0]
        self._sockets: list[socket.socket] = []
        self._passing: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()

    def __enter__(self) -> CountingProxy:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Cut all connections and waits for the threads."""
        _cut(self._listener)
        self._accepting.join()  # what it was opening is among the sockets now
        for each in self._sockets:
            _cut(each)
        for thread in self._passing:
            thread.join()
        for each in (self._listener, *self._sockets):
            each.close()

    def take(self) -> Bytes:
        """Return the bytes counted since the last call."""
        with self._lock:
            counted, self._counted = self._counted, [0, 0]
        return Bytes(*counted)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(client)
            try:
                server = socket.create_connection(self._target)
            except OSError:  # the client learns that nobody is there
                _cut(client)
                continue
            self._sockets.append(server)
            self.connections += 1
            for index, pair in enumerate(((client, server), (server, client))):
                thread = threading.Thread(target=self._pass_on, args=(*pair, index))
                self._passing.append(thread)
                thread.start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, index: int) -> None:
        with suppress(OSError):  # either side may go at any time
            while piece := source.recv(_PIECE):
                with self._lock:
                    self._counted[index] += len(piece)
                sink.sendall(piece)
            sink.shutdown(socket.SHUT_WR)


def _cut(wire: socket.socket) -> None:
    with suppress(OSError):  # it is closed already
        wire.shutdown(socket.SHUT_RDWR)
