"""An HTTP server that responds as no Triton server would."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator

Responder = Callable[[socket.socket, int], None]


class RawServer:
    """Calls `respond` with the connection and the number of each request, from 1."""

    def __init__(self, respond: Responder) -> None:
        self._respond = respond
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._serving: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept)
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.requests = 0
        self.connections = 0
        self.heads: list[bytes] = []
        self._accepting.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()  # nothing is opened from here on
        self._listener.close()
        for wire in self._open:
            with contextlib.suppress(OSError):
                wire.shutdown(socket.SHUT_RDWR)
        for thread in self._serving:
            thread.join()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the listener is closed
            while True:
                wire, _ = self._listener.accept()
                self.connections += 1
                self._open.append(wire)
                self._serving.append(threading.Thread(target=self._serve, args=(wire,)))
                self._serving[-1].start()

    def _serve(self, wire: socket.socket) -> None:
        with wire, contextlib.suppress(OSError):  # it is cut
            while head := _read_request(wire):
                with self._lock:
                    self.heads.append(head)
                    self.requests += 1
                    number = self.requests
                self._respond(wire, number)


@contextlib.contextmanager
def raw_server(respond: Responder) -> Iterator[RawServer]:
    server = RawServer(respond)
    try:
        yield server
    finally:
        server.close()


def whole(body: bytes, *, status: str = "200 OK", **fields: object) -> bytes:
    """A response; fields: of its head, with _ for -."""
    fields = {"Content_Length": len(body), **fields}
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode() + body


def always(content: bytes) -> Responder:
    return lambda wire, _: wire.sendall(content)


def reset(wire: socket.socket) -> None:
    """End a connection so that its other side is told of a reset."""
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wire.close()


def _read_request(wire: socket.socket) -> bytes:
    """Return the head of a request, after its body was received; empty without a request."""
    head = b""
    while b"\r\n\r\n" not in head:
        part = wire.recv(1 << 16)
        if not part:
            return b""
        head += part
    head, _, body = head.partition(b"\r\n\r\n")
    fields = [line.split(b":", 1) for line in head.lower().split(b"\r\n")[1:]]
    left = sum(int(value) for name, value in fields if name == b"content-length") - len(body)
    while left > 0:
        left -= len(wire.recv(left))
    return head
