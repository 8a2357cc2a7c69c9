"""HTTP connections that threads share: each request has one to itself and then gives it back."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import ssl
import threading
import time
import weakref
from http.client import HTTPException, IncompleteRead

from endcap.client.address import Address
from endcap.client.options import ConnectionOptions, Tls
from endcap.client.wire.exchange import HttpAnswer, HttpQuestion
from endcap.client.wire.http_socket import connect, receive, send
from endcap.client.wire.tls import ssl_context
from endcap.client.wire.translate import closed, cut_short, from_os_error, not_triton

_living: weakref.WeakSet[HttpConnections] = weakref.WeakSet()


class HttpConnections:
    """The connections to one server, as many as there are requests at once. Thread-safe.

    A forked child opens its own: over the parent's it would take the parent's answers.
    """

    def __init__(self, address: Address, options: ConnectionOptions) -> None:
        host, _, port = address.authority.rpartition(":")
        self._place = (host.strip("[]"), int(port))
        given = {name.lower() for name in options.headers}
        self._headers = {} if "host" in given else {"Host": address.authority}
        self._headers |= options.headers
        self._context = ssl_context(options.tls or Tls()) if address.secure else None
        self._lock = threading.Lock()
        self._idle: list[socket.socket] = []
        self._busy: set[socket.socket] = set()
        self._closed = False
        _living.add(self)

    def send(self, question: HttpQuestion, timeout_s: float) -> HttpAnswer:
        """Returns the response of any status; RequestError or TimeoutError where none comes."""
        deadline = time.monotonic() + timeout_s
        try:
            return self._exchange(question, deadline)
        except TimeoutError:
            raise
        except (OSError, HTTPException) as error:
            if self._closed:
                raise closed() from error
            if isinstance(error, OSError):  # http.client.RemoteDisconnected, too
                raise from_os_error(error) from error
            if isinstance(error, IncompleteRead):
                raise cut_short() from error
            raise not_triton("http") from error

    def close(self) -> None:
        """Closes the connections; requests in flight end as cancelled."""
        with self._lock:
            self._closed = True
            while self._idle:
                self._idle.pop().close()
            for wire in self._busy:  # the thread that reads from it wakes, and closes it
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(wire, socket.SHUT_RDWR)

    def forget(self) -> None:
        """Lets go of all connections without a word to the server; for a forked child."""
        self._lock = threading.Lock()  # one of the parent's threads may have held it
        for wire in (*self._idle, *self._busy):
            wire.close()
        self._idle.clear()
        self._busy.clear()

    def _exchange(self, question: HttpQuestion, deadline: float) -> HttpAnswer:
        wire = self._take(deadline)
        reusable = False
        try:
            send(wire, question, {**self._headers, **question.headers}, deadline)
            answer, reusable = receive(wire, question.method, deadline)
            return answer
        finally:
            with self._lock:
                self._busy.discard(wire)
                reusable = reusable and not self._closed
                if reusable:
                    self._idle.append(wire)
            if not reusable:
                wire.close()

    def _take(self, deadline: float) -> socket.socket:
        while True:
            with self._lock:
                wire = self._idle.pop() if self._idle else None
            if wire is None:
                if self._closed:
                    raise closed()
                wire = connect(self._place, self._context, deadline)
            elif _has_ended(wire):
                wire.close()
                continue
            with self._lock:
                if not self._closed:
                    self._busy.add(wire)
                    return wire
            wire.close()
            raise closed()


def _has_ended(wire: socket.socket) -> bool:
    """Whether an idle connection can be read from: then its other side has closed it."""
    poll = select.poll()
    poll.register(wire, select.POLLIN)
    return bool(poll.poll(0)) or (isinstance(wire, ssl.SSLSocket) and wire.pending() > 0)


def _forget_in_child() -> None:
    for connections in list(_living):
        connections.forget()


os.register_at_fork(after_in_child=_forget_in_child)
