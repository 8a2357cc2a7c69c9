"""How tasks of an event loop are ended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any


async def cancel_all(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancels those that are not done, each once, and waits for all.

    A task that is cancelled again while it gives back what it holds would break that off; so a
    cancellation of the caller meanwhile is raised when all have ended. What they raise is
    theirs to tell.
    """
    every = list(tasks)
    left = {task for task in every if not task.done()}
    for task in left:
        task.cancel()
    cancelled = False
    while left:
        try:
            _, left = await asyncio.wait(left)
        except asyncio.CancelledError:
            cancelled = True
            left = {task for task in left if not task.done()}
    for task in every:
        if not task.cancelled():
            task.exception()  # else asyncio would report it as never seen
    if cancelled:
        raise asyncio.CancelledError
