"""Permits of one event loop, with a time limit for who waits."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque


class Permits:
    """A number of permits, which go to who waits in the order of asking.

    In place of asyncio.Semaphore with asyncio.wait_for, which loses a cancellation that comes in
    the instant of the permit before Python 3.12.
    """

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[asyncio.Future[bool]] = deque()

    async def acquire(self, timeout_s: float) -> bool:
        """Waits for a permit for at most `timeout_s` seconds; returns whether there was one."""
        if self._free:
            self._free -= 1
            return True
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[bool] = loop.create_future()
        self._waiting.append(waiting)
        timer = loop.call_later(max(timeout_s, 0), _settle, waiting, False)
        try:
            return await waiting
        except asyncio.CancelledError:
            if not waiting.cancelled() and waiting.result():
                self.release()  # it was granted in the same instant
            raise
        finally:
            timer.cancel()
            with contextlib.suppress(ValueError):  # a release took it out
                self._waiting.remove(waiting)

    def release(self) -> None:
        """Gives a permit back."""
        while self._waiting:
            if _settle(self._waiting.popleft(), True):
                return
        self._free += 1


def _settle(waiting: asyncio.Future[bool], granted: bool) -> bool:
    """Answers who waits; returns whether it waited still."""
    if waiting.done():
        return False
    waiting.set_result(granted)
    return True
