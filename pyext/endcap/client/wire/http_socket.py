"""HTTP/1.1 over a blocking socket, each exchange within a deadline of `time.monotonic`."""

from __future__ import annotations

import contextlib
import io
import socket
import ssl
import time
from http.client import HTTPResponse, IncompleteRead
from typing import IO, TYPE_CHECKING, cast

from endcap.client.wire.exchange import HttpAnswer, HttpQuestion
from endcap.client.wire.http_bodies import check_size

if TYPE_CHECKING:
    from typing_extensions import Buffer

_CHUNK_BYTES = 1 << 20
_COPIED_BYTES = 1 << 16  # a body up to this goes in one piece with its head


def connect(
    place: tuple[str, int], context: ssl.SSLContext | None, deadline: float
) -> socket.socket:
    """Returns a connection to the first address of a host that takes one.

    context: of TLS, None without. Raises OSError where none does, TimeoutError after the deadline.
    """
    wire = _connect_any(place, deadline)
    try:
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is None:
            return wire
        wire.settimeout(time_left(deadline))
        return context.wrap_socket(wire, server_hostname=place[0])
    except BaseException:
        wire.close()
        raise


def send(
    wire: socket.socket, question: HttpQuestion, headers: dict[str, str], deadline: float
) -> None:
    """Sends a request."""
    if question.method != "GET":
        headers = {**headers, "Content-Length": str(len(question.body))}
    lines = [f"{question.method} {question.path} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    head = "\r\n".join([*lines, "", ""]).encode("ascii")
    if len(question.body) <= _COPIED_BYTES:
        _send_all(wire, head + question.body, deadline)
        return
    _send_all(wire, head, deadline)
    _send_all(wire, question.body, deadline)


def receive(wire: socket.socket, method: str, deadline: float) -> tuple[HttpAnswer, bool]:
    """Returns the answer, and whether the connection can be used again.

    Raises IncompleteRead where the connection breaks after something of an answer has come, and
    RequestError for an answer that is too large.
    """
    source = DeadlineSource(wire, deadline)
    try:
        with contextlib.closing(HTTPResponse(cast(socket.socket, source), method=method)) as answer:
            answer.begin()
            body = _body(answer)
            fields = {name.lower(): value for name, value in answer.getheaders()}
            return HttpAnswer(answer.status, fields, body), not answer.will_close
    except ConnectionError as error:
        if source.has_received:
            raise IncompleteRead(b"") from error
        raise


def time_left(deadline: float) -> float:
    """Returns the seconds until a deadline; TimeoutError where there are none."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


class DeadlineSource(io.RawIOBase):
    """What comes over a connection, as a file: each read has but the time that is left."""

    def __init__(self, wire: socket.socket, deadline: float) -> None:
        super().__init__()
        self._wire = wire
        self._deadline = deadline
        self.has_received = False

    def makefile(self, _mode: str) -> IO[bytes]:
        """As of a socket, for HTTPResponse."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        """As of a file."""
        return True

    def readinto(self, buffer: Buffer) -> int:
        """As of a file; raises TimeoutError after the deadline."""
        self._wire.settimeout(time_left(self._deadline))
        count = self._wire.recv_into(buffer)
        self.has_received |= count > 0
        return count


def _body(answer: HTTPResponse) -> bytes:
    check_size(answer.length or 0)
    parts: list[bytes] = []
    byte_size = 0
    while not answer.isclosed():
        part = answer.read1(_CHUNK_BYTES)
        if not part:
            break
        parts.append(part)
        byte_size += len(part)
        check_size(byte_size)
    if answer.length:  # less came than was announced
        raise IncompleteRead(b"", answer.length)
    return b"".join(parts)


def _send_all(wire: socket.socket, content: bytes, deadline: float) -> None:
    rest = memoryview(content)
    while rest:
        wire.settimeout(time_left(deadline))
        rest = rest[wire.send(rest) :]


def _connect_any(place: tuple[str, int], deadline: float) -> socket.socket:
    failed: OSError | None = None
    for family, kind, protocol, _, address in socket.getaddrinfo(*place, type=socket.SOCK_STREAM):
        wire = socket.socket(family, kind, protocol)
        try:
            wire.settimeout(time_left(deadline))
            wire.connect(address)
            return wire
        except TimeoutError:
            wire.close()
            raise
        except OSError as error:
            wire.close()
            failed = error
        except BaseException:
            wire.close()
            raise
    raise failed or OSError(f"{place[0]} has no address")
