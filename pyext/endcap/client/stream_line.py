"""A stream that images are sent over while a thread receives their responses."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from endcap.client.calls import Response
from endcap.client.errors import RequestError
from endcap.client.sequences import StreamImage
from endcap.client.streaming import StreamBook
from endcap.client.wire.translate import no_answer

if TYPE_CHECKING:
    from endcap.client.connection import Connection
    from endcap.client.stream import Stream

_A_DAY_S = 86400.0  # the line looks after the deadline itself


@dataclass(frozen=True)
class Received:
    """A response, or an error, of one stream. at: when it came, by time.perf_counter()."""

    stream: Stream
    answer: Response | RequestError
    at: float


class StreamLine:
    """Opens a stream when it is needed, and again when it was lost.

    put: is called with each response as it comes, by another thread; they are to be given to
    `take`, in their order.
    """

    def __init__(
        self, connection: Connection, book: StreamBook, put: Callable[[Received], None]
    ) -> None:
        self._connection = connection
        self._book = book
        self._put = put
        self._resources = contextlib.ExitStack()
        self._stream: Stream | None = None
        self._since = 0.0  # when the server last had nothing to answer, or answered

    def __enter__(self) -> StreamLine:
        return self

    def __exit__(self, *exception: object) -> None:
        self._close()

    def send(self, image: StreamImage) -> None:
        """Sends an image, if there is anything to send."""
        if not self._book.in_flight:
            self._since = time.perf_counter()
        call = self._book.enter(image)
        if call is None:
            return
        try:
            if self._stream is None:
                self._stream = self._open()
            self._stream.send(call)
        except RequestError as error:
            self._lose(error)

    def left_s(self) -> float | None:
        """Returns how long to wait for the next response, None where none is awaited."""
        if not self._book.in_flight:
            return None
        return max(self._since + self._timeout_s - time.perf_counter(), 0.0)

    def take(self, received: Received | None) -> None:
        """Takes what was received; None where nothing came in time, which ends the stream."""
        if received is None:
            self._lose(no_answer(self._timeout_s))
        elif received.stream is self._stream:
            self._since = max(self._since, received.at)
            self._enter(received)

    @property
    def _timeout_s(self) -> float:
        return self._connection.options.timeout_s

    def _enter(self, received: Received) -> None:
        answer = received.answer
        if isinstance(answer, Response):
            self._book.answered(answer, received.at)
        elif answer.request_id or received.stream.alive:
            self._book.failed(answer, received.at)
        else:
            self._lose(answer)

    def _open(self) -> Stream:
        stream = self._resources.enter_context(self._connection.stream())
        arguments = (stream, self._put)
        receiver = threading.Thread(
            target=_receive, args=arguments, name="endcap answers", daemon=True
        )
        receiver.start()
        return stream

    def _lose(self, error: RequestError) -> None:
        self._close()
        self._book.lost(error)

    def _close(self) -> None:
        self._resources.close()
        self._stream = None


def _receive(stream: Stream, put: Callable[[Received], None]) -> None:
    """Receives until the stream has ended, which closing it does, too."""
    while True:
        try:
            answer: Response | RequestError = stream.receive(_A_DAY_S)
        except RequestError as error:
            if error.status_name == "timeout" and stream.alive:
                continue
            put(Received(stream, error, time.perf_counter()))
            if not (error.request_id or stream.alive):
                return
        else:
            put(Received(stream, answer, time.perf_counter()))
