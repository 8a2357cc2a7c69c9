"""Connections to a server: requests with deadlines and retries over gRPC or HTTP.

Method of the waits: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import os
import random
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

from endcap.client.concurrency import Runtime, Threads, as_async
from endcap.client.errors import (
    UNREADABLE,
    ClientError,
    RequestError,
    closed_error,
    from_grpc,
    from_message,
    timeout_error,
    unreadable_error,
)
from endcap.client.options import Address, ConnectionOptions, check_timeout
from endcap.client.transport import make_transport

T = TypeVar("T")

FIRST_WAIT_S = 0.25
MAX_WAIT_S = 5.0
_STREAM_END_S = 1.0  # for a server to end a stream after its last response


def choose_retry_wait(error: RequestError, attempt: int, left_s: float) -> float | None:
    """Return how many seconds to wait before a retry, None if there must not be one.

    Args:
        error: The error of the last attempt.
        attempt: The number of retries so far.
        left_s: The seconds until the deadline.
    """
    wait_s = random.uniform(0.0, min(FIRST_WAIT_S * 2**attempt, MAX_WAIT_S))
    wait_s += error.retry_after_s or 0.0
    return wait_s if error.transient and wait_s < left_s else None


class Connection:
    """A connection to a server: one channel over gRPC, over HTTP one per request in flight.

    Nothing is sent before the first request. A method that sends a request raises RequestError if
    the response is late or an error, and ClientError in a forked child, which would receive the
    parent's responses. With `Threads` it is thread-safe. With `Tasks` it is for one event loop, and
    cancelling a task cancels its request.

    Raises:
        ClientError: tritonclient is not installed.
        InvalidArgumentError: The options cannot be used.
    """

    def __init__(
        self, address: Address, options: ConnectionOptions, runtime: Runtime | None = None
    ) -> None:
        self.options = options
        self.address = replace(address, secure=address.secure or options.tls is not None)
        self.runtime: Runtime = runtime or Threads()
        self.transport = make_transport(self.address, options, is_async=self.runtime.is_async)
        self.module: Any = self.transport.module  # tritonclient.grpc or tritonclient.http
        self.is_closed = False
        self._is_lost = False  # whether the attempts of the last request were used up
        self._process = os.getpid()

    async def __aenter__(self) -> Connection:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection. Requests in flight end as cancelled, and so do later ones."""
        if not self.is_closed and self._process == os.getpid():
            self.is_closed = True
            await self.transport.close()

    async def request(
        self, method: str, *, timeout_s: float | None = None, **arguments: Any
    ) -> Any:
        """Call any method of tritonclient's client but `infer`; return its JSON, True or False.

        Over gRPC objects have protobuf's names, and lack default values.
        """
        send = functools.partial(self._send, method, arguments)
        response = await self.repeat(send, timeout_s, is_repeatable=not method.startswith("is_"))
        if method == "get_model_config" and self.address.protocol == "grpc":
            return response.get("config", {})
        return response

    async def infer(self, arguments: dict[str, Any], timeout_s: float) -> Any:
        """Return tritonclient's InferResult of the arguments of `infer`, by one attempt."""
        # While sequences wait for one another, Triton refuses all frames of a sequence when the
        # first timeout ends.
        if self.options.send_timeout and "sequence_id" not in arguments:
            arguments.setdefault("timeout", max(1, int(timeout_s * 1e6)))
        return await self._send("infer", arguments | self.transport.infer_options, timeout_s)

    async def stream(self, arguments: dict[str, Any]) -> AsyncGenerator[tuple[Any, bool], None]:
        """Yield the InferResults of a request to a decoupled model, over a gRPC stream.

        Each comes with whether it is the last one. Unless the caller stops early, the server ends
        the stream: release 24.10 can crash when one that ends is cancelled.

        Raises:
            RequestError: An error of the request, or no response in time after the one before.
        """
        self._check()
        limit_s = self.options.timeout_s
        received: Any = self.runtime.make_queue()
        call = self.transport.start_stream(arguments, self.headers())

        async def receive() -> None:
            try:
                async with contextlib.aclosing(as_async(call)) as messages:
                    async for message in messages:
                        received.put_nowait(message)
                received.put_nowait(None)
            except (Exception, asyncio.CancelledError) as error:  # gRPC's aio cancels calls so
                received.put_nowait(error)

        async def wait_for_end() -> None:
            with contextlib.suppress(TimeoutError):
                await self.runtime.get(received, min(limit_s, _STREAM_END_S))

        job = self.runtime.start(receive())
        try:
            while (message := await self.runtime.get(received, limit_s)) is not None:
                if isinstance(message, BaseException):
                    raise self._stream_error(message) from message
                if message.error_message:
                    await wait_for_end()
                    raise from_message(message.error_message)
                last = message.infer_response.parameters.get("triton_final_response")
                is_last = last is not None and last.bool_param
                yield self.module.InferResult(message.infer_response), is_last
                if is_last:
                    await wait_for_end()
                    return
        except TimeoutError as error:
            raise timeout_error(limit_s) from error
        finally:
            call.cancel()
            await self.runtime.stop([job])

    def _stream_error(self, error: Any) -> RequestError:
        status = error.code().name if hasattr(error, "code") else "CANCELLED"
        if self.is_closed or status == "CANCELLED":
            return closed_error()
        return from_grpc(status, error.details() or status)

    async def repeat(
        self,
        send: Callable[[float], Awaitable[T]],
        timeout_s: float | None = None,
        *,
        is_repeatable: bool = True,
    ) -> T:
        """Return the result of `send`, which is called for each attempt with the seconds left.

        timeout_s: The deadline of all attempts; None is `options.timeout_s`.
        """
        limit_s = self.options.timeout_s if timeout_s is None else timeout_s
        check_timeout(limit_s)
        end = time.monotonic() + limit_s
        left_s, attempt = limit_s, 0
        # When all attempts of a request have failed, the others make one attempt each, until there
        # is a response: only the first images of a folder wait for a lost server.
        retries = 0 if self._is_lost or not is_repeatable else self.options.retries
        while True:
            try:
                result = await send(left_s)
                self._is_lost = False
                return result
            except TimeoutError as error:
                raise timeout_error(limit_s) from error
            except RequestError as error:
                left_s = end - time.monotonic()
                wait_s = choose_retry_wait(error, attempt, left_s)
                if wait_s is None or attempt >= retries:
                    if is_repeatable:
                        # A server that says when to come back has responded.
                        self._is_lost = error.transient and error.retry_after_s is None
                    raise
            await self.runtime.sleep(wait_s)
            attempt += 1
            left_s = max(end - time.monotonic(), 1e-3)

    async def _send(self, method: str, arguments: dict[str, Any], timeout_s: float) -> Any:
        """Return the response to one attempt; raise RequestError or TimeoutError."""
        self._check()
        try:
            return await self.transport.send(method, arguments, self.headers(), timeout_s)
        except Exception as error:
            if self.is_closed:
                raise closed_error() from error
            if isinstance(error, (TimeoutError, RequestError)):
                raise
            raise self.transport.convert_error(error) from error

    def _check(self) -> None:
        if self.is_closed:
            raise closed_error()
        if self._process != os.getpid():
            raise ClientError(
                f"this connection was made by process {self._process}, before a fork, which it "
                "does not survive; make one in each process"
            )

    def headers(self) -> dict[str, str]:
        """Return the headers of a request, including those of the caller's OpenTelemetry span."""
        own_headers = dict(self.options.headers)
        if "opentelemetry.trace" not in sys.modules:  # then there is no span
            return own_headers
        headers: dict[str, str] = {}
        importlib.import_module("opentelemetry.propagate").inject(headers)
        names = {name.lower() for name in own_headers}
        return {n: value for n, value in headers.items() if n.lower() not in names} | own_headers


def read_items(response: Any, name: str) -> list[dict[str, Any]]:
    """Return the objects of a list in a response, or of a map with their keys as `name`.

    Raises:
        RequestError: The response is malformed.
    """
    try:
        items = response if isinstance(response, list) else response.get(name, [])
        if isinstance(items, dict):
            items = [{"name": key, **value} for key, value in items.items()]
        return [dict(item) for item in items]
    except UNREADABLE as error:
        raise unreadable_error(error) from error
