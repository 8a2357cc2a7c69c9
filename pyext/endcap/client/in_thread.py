"""Work of a coroutine that is done in a thread."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_thread(function: Callable[..., T], *arguments: object) -> T:
    """Returns what a function returns that runs in a thread.

    A thread cannot be broken off, and what it makes or writes has to be done before anybody cleans
    up: a task that is cancelled meanwhile, once or more often, ends when the function has ended.
    """
    # No task, which the end of asyncio.run would cancel by itself while the thread goes on.
    work = asyncio.get_running_loop().run_in_executor(None, functools.partial(function, *arguments))
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        work.exception()  # nobody gets it: not to be told of as one that was never retrieved
        try:
            raise cancelled
        finally:
            del cancelled  # or it and its frames, with views on shared memory, kept each other
    return work.result()
