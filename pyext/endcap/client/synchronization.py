"""What the pools of shared memory for threads and for asyncio wait with."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

sleep = time.sleep
async_sleep = asyncio.sleep


async def async_run_blocking(function: Callable[..., T], *arguments: object) -> T:
    """Run a function in a thread and return its result.

    A thread cannot be cancelled, and must have finished before its caller cleans up: a task that is
    cancelled meanwhile, once or more often, ends when the function has ended.
    """
    call = functools.partial(contextvars.copy_context().run, function, *arguments)
    # Not a task: the end of asyncio.run would cancel it while the thread continues.
    work = asyncio.get_running_loop().run_in_executor(None, call)
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        work.exception()  # retrieved here, or asyncio would report it
        try:
            raise cancelled
        finally:
            del cancelled  # or it and its frames would keep views of shared memory alive
    return work.result()


def run_blocking(function: Callable[..., T], *arguments: object) -> T:
    """Run a function in this thread and return its result."""
    return function(*arguments)


class AsyncSemaphore:
    """A semaphore with timeouts, first come, first served.

    asyncio.Semaphore with asyncio.wait_for loses a cancellation that coincides with the permit,
    before Python 3.12.
    """

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[asyncio.Future[bool]] = deque()

    async def __aenter__(self) -> None:
        await self.acquire()

    async def __aexit__(self, *exception: object) -> None:
        self.release()

    async def acquire(self, timeout_s: float | None = None) -> bool:
        """Wait for a permit; return whether there was one within `timeout_s` seconds."""
        if self._free:
            self._free -= 1
            return True
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[bool] = loop.create_future()
        self._waiting.append(waiting)
        timer = (
            None
            if timeout_s is None
            else loop.call_later(max(timeout_s, 0), _settle, waiting, False)
        )
        try:
            return await waiting
        except asyncio.CancelledError:
            if not waiting.cancelled() and waiting.result():
                self.release()  # it was granted at the same time
            raise
        finally:
            if timer is not None:
                timer.cancel()
            with contextlib.suppress(ValueError):  # a release removed it
                self._waiting.remove(waiting)

    def release(self) -> None:
        """Release a permit."""
        while self._waiting:
            if _settle(self._waiting.popleft(), True):
                return
        self._free += 1


class Semaphore:
    """AsyncSemaphore for threads; waiting threads are served in any order."""

    def __init__(self, count: int) -> None:
        self._permits = threading.Semaphore(count)

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *exception: object) -> None:
        self.release()

    def acquire(self, timeout_s: float | None = None) -> bool:
        """Wait for a permit; return whether there was one within `timeout_s` seconds."""
        return self._permits.acquire(timeout=None if timeout_s is None else max(timeout_s, 0))

    def release(self) -> None:
        """Release a permit."""
        self._permits.release()


def _settle(waiting: asyncio.Future[Any], result: Any) -> bool:
    """Set the result of a future; return whether it was pending."""
    if waiting.done():
        return False
    waiting.set_result(result)
    return True
