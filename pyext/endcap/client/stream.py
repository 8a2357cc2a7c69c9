"""A stream of requests and answers over one gRPC call."""

from __future__ import annotations

import copy
import queue
import threading
import weakref
from types import TracebackType
from typing import Any

from endcap.client.calls import Call, Response
from endcap.client.errors import RequestError
from endcap.client.stream_responses import StreamResponses, ended
from endcap.client.wire.grpc_channel import GrpcChannel
from endcap.client.wire.translate import no_answer


class Stream:
    """Requests to one model that are sent without waiting, and their answers as they come.

    All requests are for the model of the first: where a decoupled model and another one answer on
    a stream, Triton (2.51, and its sources up to 2.71) may begin a write while another is under
    way, and gRPC aborts the server then.

    Models that are not decoupled answer each request once, in the order of the requests. A
    decoupled one answers as often as it likes, `Response.final` with the last, which may have no
    tensors; the answers of several requests mix, and `request_id` tells them apart.

    The error of one request is raised by `receive` and leaves the stream as it is: Triton tells its
    message, and `request_id` where the request had one, but no status, so that `status_name` is
    "internal" unless endcap's backends say more. An error of the stream itself ends it: `alive` is
    False, each further `receive` and `send` raises that error, and what was not answered will not
    be. Open another one then. Nothing is sent again by itself.

    Thread-safe: one thread may send while another receives.
    """

    def __init__(self, channel: GrpcChannel, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._answers = StreamResponses()
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        call = channel.stream(iter(self._requests.get, None))
        self._cancel = weakref.finalize(self, call.cancel)
        self._reader = _Reader(channel, call, self._answers, self._requests)
        self._reader.start()

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def alive(self) -> bool:
        """Whether the stream still takes requests."""
        return self._reader.end is None

    def send(self, call: Call) -> None:
        """Sends a request, without waiting.

        Raises RequestError where the stream has ended, InvalidArgumentError for another model.
        """
        if self._reader.end is not None:
            raise copy.copy(self._reader.end)
        self._requests.put(self._answers.request(call))

    def receive(self, timeout_s: float | None = None) -> Response:
        """Returns the next answer.

        timeout_s: how long to wait for it; None is the connection's.

        Raises RequestError for the error of a request, for the end of the stream, and where no
        answer comes in time; the last leaves the stream as it is.
        """
        wait_s = self._timeout_s if timeout_s is None else timeout_s
        try:
            received = self._reader.received.get(timeout=wait_s)
        except queue.Empty:
            raise no_answer(wait_s) from None
        if received is self._reader.end:
            self._reader.received.put(received)  # for whoever receives next
            raise copy.copy(received)
        if isinstance(received, RequestError):
            raise received
        return received

    def close(self) -> None:
        """Ends the stream; what was not answered is cancelled."""
        self._cancel()
        self._reader.join()


class _Reader(threading.Thread):
    """Receives. It does not hold the stream, so that one that is left behind ends, too."""

    def __init__(
        self,
        channel: GrpcChannel,
        call: Any,
        answers: StreamResponses,
        requests: queue.SimpleQueue[Any],
    ) -> None:
        super().__init__(name="endcap stream", daemon=True)
        self.received: queue.SimpleQueue[Response | RequestError] = queue.SimpleQueue()
        self.end: RequestError | None = None
        self._channel = channel
        self._call = call
        self._answers = answers
        self._requests = requests

    def run(self) -> None:
        try:
            for response in self._call:
                try:
                    self.received.put(self._answers.read(response))
                except RequestError as error:
                    self.received.put(error)
            end = ended()
        except Exception as error:
            end = self._channel.why_ended(error)
        self.end = end
        self.received.put(end)
        self._requests.put(None)  # gRPC's thread that waits for requests ends
