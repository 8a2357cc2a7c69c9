"""An aiohttp application in a thread of its own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import errno
import logging
import socket
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from endcap.terminal.failure import check_stop
from endcap.tools.web import PageError

_REQUESTS_END_WITHIN_S = 3.0
_LINGER_S = 5.0  # for the rest of a rejected body; a client that sends it sees the response
_LOOP_ENDS_WITHIN_S = 0.5
_SIGNAL_POLL_S = 0.2
_WILDCARD_TO_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class PageServer:
    """Serves an application as a context manager: listening inside the block, gone after it.

    A signal's exception must reach the program and not a callback of an event loop, which would
    swallow it; hence the loop has a thread of its own, and the caller waits beside it.
    """

    def __init__(
        self,
        application: web.Application,
        *,
        host: str,
        port: int,
        headers_within_s: float = 15.0,
    ) -> None:
        """Listen on a port; requests are served inside the block.

        Args:
            application: The application to serve.
            host: The address to listen on.
            port: The port; 0 picks a free one.
            headers_within_s: How long a connection may be open, or idle after a response, without
                a complete request header, before it is closed.

        Raises:
            PageError: The address or the port cannot be used.
        """
        self._application = application
        self._headers_within_s = headers_within_s
        self._listener = _listen(host, port)
        self.url = _url(host, self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._run, name="endcap page", daemon=True)
        self._started: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._ended = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None

    def __enter__(self) -> PageServer:
        self._thread.start()
        self._started.result()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._loop is not None and self._stop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(_REQUESTS_END_WITHIN_S + _LOOP_ENDS_WITHIN_S)

    def wait(self) -> None:
        """Block until an exception is raised in this thread, as a signal handler does."""
        # The kernel may deliver a signal to a thread that is just starting: this one is not woken.
        while not self._ended.wait(_SIGNAL_POLL_S):
            check_stop()
        raise PageError(f"the server of the page {self.url} has stopped unexpectedly")

    def _run(self) -> None:
        try:
            _run_to_end(self._serve())
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)
        finally:
            self._ended.set()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        runner = web.AppRunner(
            self._application,
            access_log=None,
            logger=_logger(),
            shutdown_timeout=_REQUESTS_END_WITHIN_S,
            keepalive_timeout=self._headers_within_s,
            lingering_time=_LINGER_S,
            auto_decompress=False,  # images are sent as they are
        )
        await runner.setup()
        try:
            await web.SockSite(runner, self._listener).start()
            self._started.set_result(None)
            await self._stop.wait()
        finally:
            await runner.cleanup()


def _run_to_end(serve: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine in an event loop of its own, as asyncio.run, and end with it.

    asyncio.run would then wait for the threads of the loop's executor, which may wait for Triton,
    and start a thread to do so: an error where the interpreter is ending.
    """
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(serve)
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def _logger() -> logging.Logger:
    """Return a log of this program's failures, without requests that are not HTTP."""
    logger = logging.getLogger(__name__)
    logger.addFilter(_is_ours)
    return logger


def _is_ours(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError)


def _listen(host: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen()
    except (OSError, OverflowError) as error:
        listener.close()
        raise PageError(_listen_error(host, port, error)) from error
    return listener


def _listen_error(host: str, port: int, error: OSError | OverflowError) -> str:
    reason = error.strerror if isinstance(error, OSError) else error
    if isinstance(error, socket.gaierror) or getattr(error, "errno", 0) == errno.EADDRNOTAVAIL:
        return (
            f"host {host} is no address of this machine ({reason}); give 127.0.0.1, 0.0.0.0 or one "
            "that it has"
        )
    return (
        f"port {port} on {host} cannot be used for the page ({reason}); end the program that holds "
        "it, or choose another port (0 picks a free one)"
    )


def _url(host: str, port: int) -> str:
    shown = _WILDCARD_TO_LOOPBACK.get(host, host)
    return f"http://[{shown}]:{port}/" if ":" in shown else f"http://{shown}:{port}/"
