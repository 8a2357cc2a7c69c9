"""A queue of an event loop whose readers have deadlines."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Inbox(Generic[T]):
    """What came, in order, for whoever takes it.

    A task that is cancelled while it waits takes nothing and ends as cancelled, which
    `asyncio.wait_for` around a queue does not promise before Python 3.12.
    """

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._waiters: set[asyncio.Future[None]] = set()

    def put(self, item: T) -> None:
        """Puts an item behind the others."""
        self._items.append(item)
        for waiter in self._waiters:
            _wake(waiter)

    async def take(self, wait_s: float) -> T:
        """Takes the first item. Raises TimeoutError where none comes in time, seconds."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_s
        while not self._items:
            if loop.time() >= deadline:
                raise TimeoutError
            waiter = loop.create_future()
            self._waiters.add(waiter)
            timer = loop.call_at(deadline, _wake, waiter)
            try:
                await waiter
            finally:
                timer.cancel()
                self._waiters.discard(waiter)
        return self._items.popleft()


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
