"""A relay on loopback between FFmpeg and the RTSP server of a client's URL.

FFmpeg would look up the server's name by itself, and follow redirects to wherever they lead. Here
it connects to the relay, which connects to an address that was checked, has the certificate
checked, and ends the connection where the server redirects.
"""

from __future__ import annotations

import contextlib
import re
import selectors
import socket
import ssl
import threading

from endcap.errors import InvalidArgumentError
from endcap.triton.url_patterns import Url
from endcap.video.addresses import UrlRules
from endcap.video.downloads import connect

_PART = 1 << 16
_LONGEST_HEAD = 1 << 16
_LONGEST_LINE = 4000  # FFmpeg cuts longer ones
_LONGEST_BODY = 1 << 20
_PACKET = b"$"
_STATUS = re.compile(rb"RTSP/\d\.\d +(\d{3})(?: .*)?")
_LENGTH = re.compile(rb"content-length\s*:(.*)", re.IGNORECASE)


class RtspRelay:
    """Relays one connection at a time, each to a server that is looked up and checked anew.

    Args:
        url: The server, rtsp:// or rtsps://.
        rules: Which URLs and addresses may be used.
        timeout_s: For connecting, and the longest silence.

    Raises:
        InvalidArgumentError: The URL is not allowed, or the server cannot be reached.
    """

    def __init__(self, url: Url, rules: UrlRules, *, timeout_s: float) -> None:
        self._url = url
        self._rules = rules
        self._timeout_s = timeout_s
        self._is_closed = False
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self.error: str | None = None  # why the last connection was ended
        self._first: socket.socket | None = self._connect()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1)
        self._thread = threading.Thread(target=self._run, name="endcap rtsp relay", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """What FFmpeg opens in place of the URL, by TCP alone."""
        user = "" if self._url.user is None else f"{self._url.user}@"
        port = self._listener.getsockname()[1]
        return f"rtsp://{user}127.0.0.1:{port}{self._url.target}"

    def close(self) -> None:
        """End the connections."""
        with self._lock:
            self._is_closed = True
            for each in self._open:
                _end(each)
        # A thread in accept() is not woken by close().
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(self._timeout_s)
        self._listener.close()

    def _run(self) -> None:
        while not self._is_closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                break
            with client:
                self.error = None
                self._keep(client)
                try:
                    server, self._first = self._first or self._connect(), None
                    with server:
                        self._relay(client, server)
                except InvalidArgumentError as error:
                    self.error = None if self._is_closed else str(error)
                except OSError:  # one side has gone, and FFmpeg connects again
                    pass
                finally:
                    self._forget(client)
        if self._first is not None:
            self._first.close()

    def _connect(self) -> socket.socket:
        addresses = self._rules.addresses(self._url)
        with_tls = self._url.scheme == "rtsps"
        server = connect(self._url, addresses, self._timeout_s, with_tls=with_tls)
        self._keep(server)
        return server

    def _relay(self, client: socket.socket, server: socket.socket) -> None:
        """Pass on what comes from both sides, in one thread: a connection of TLS is for one."""
        check = ResponseCheck()
        try:
            with selectors.DefaultSelector() as ready:
                for each in (client, server):
                    ready.register(each, selectors.EVENT_READ)
                while True:
                    buffered = isinstance(server, ssl.SSLSocket) and server.pending() > 0
                    wait_s = 0 if buffered else self._timeout_s
                    readable = [key.fileobj for key, _ in ready.select(wait_s)]
                    if not readable and not buffered:
                        raise InvalidArgumentError(f"{self._url} was silent for too long")
                    if client in readable:
                        content = client.recv(_PART)
                        if not content:
                            return
                        server.sendall(content)
                    if server in readable or buffered:
                        content = server.recv(_PART)
                        if not content:
                            return
                        client.sendall(check.take(content))
        finally:
            self._forget(server)

    def _keep(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.add(connection)
            if self._is_closed:
                _end(connection)

    def _forget(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.discard(connection)


class ResponseCheck:
    """Follows what an RTSP server sends: messages, and packets of the streams between them.

    What FFmpeg could read in another way than this class is refused.
    """

    def __init__(self) -> None:
        self._waiting = bytearray()

    def take(self, content: bytes) -> bytes:
        """Return what can be passed on, whole messages and packets.

        Raises:
            InvalidArgumentError: The server redirects, or does not send RTSP.
        """
        self._waiting += content
        end = 0
        while (size := self._next(end)) is not None:
            end += size
        ready = bytes(self._waiting[:end])
        del self._waiting[:end]
        return ready

    def _next(self, start: int) -> int | None:
        """Return the size of what begins at a position, None where it has not come whole."""
        waiting = self._waiting
        left = len(waiting) - start
        if left == 0:
            return None
        if waiting[start : start + 1] == _PACKET:
            if left < 4:
                return None
            size = 4 + int.from_bytes(waiting[start + 2 : start + 4], "big")
            return size if left >= size else None
        head_end = waiting.find(b"\r\n\r\n", start, start + _LONGEST_HEAD)
        if head_end < 0:
            if left >= _LONGEST_HEAD:
                raise InvalidArgumentError("the RTSP server sends a head without an end")
            return None
        size = head_end + 4 - start + _check_head(bytes(waiting[start:head_end]))
        return size if left >= size else None


def _check_head(head: bytes) -> int:
    """Check the head of a message, and return the length of its body."""
    lines = head.split(b"\r\n")
    for line in lines:
        if len(line) > _LONGEST_LINE or line.startswith(_PACKET) or set(b"\r\n\0") & set(line):
            raise InvalidArgumentError("the RTSP server sends a head that is no RTSP")
    status = _STATUS.fullmatch(lines[0])
    if lines[0].startswith(b"RTSP/") and status is None:
        raise InvalidArgumentError("the RTSP server sends a response without a status")
    if status is not None and status[1].startswith(b"3"):
        raise InvalidArgumentError(
            f"the RTSP server redirects (status {status[1].decode()}), which is not followed; give "
            "the URL that it leads to"
        )
    lengths = [match[1].strip() for match in map(_LENGTH.fullmatch, lines[1:]) if match]
    if not lengths:
        return 0
    if len(lengths) > 1 or not lengths[0].isdigit() or int(lengths[0]) > _LONGEST_BODY:
        raise InvalidArgumentError("the RTSP server sends a message of no clear length")
    return int(lengths[0])


def _end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
