"""Threads and tasks behind one interface: the client is written once, as coroutines.

With `Tasks` an event loop runs them. With `Threads` they block the thread instead of suspending, so
that `run` completes a coroutine in one step.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import queue
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Coroutine, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

_STOP_TIMEOUT_S = 0.1  # for a thread to end, unless it waits for a camera's frame


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that uses `Threads`."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise RuntimeError(
        "a client for threads ran a coroutine that needs an event loop; report it as a defect"
    )


def iterate(items: AsyncGenerator[T, None]) -> Generator[T, None, None]:
    """Yield the items of an asynchronous generator that uses `Threads`."""
    step: Any = items.__anext__
    try:
        while True:
            try:
                item = run(step())
            except StopAsyncIteration:
                return
            yield item
    finally:
        run(items.aclose())


async def as_async(items: Iterable[T] | AsyncIterable[T]) -> AsyncGenerator[T, None]:
    """Yield the items of either kind of iterable."""
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item


class _Permits(queue.SimpleQueue[None]):
    """A semaphore for threads; `threading.Semaphore`, which is written in Python, is slower."""

    def __init__(self, count: int) -> None:
        for _ in range(count):
            self.put(None)

    def release(self) -> None:
        self.put(None)


class Threads:
    """The runtime of a client for threads; `submit` uses up to `workers` threads."""

    is_async = False
    make_queue = queue.SimpleQueue
    make_semaphore = _Permits

    def __init__(self, workers: int = 1) -> None:
        self._workers = ThreadPoolExecutor(workers, "endcap client")

    @staticmethod
    async def get(items: Any, timeout_s: float | None = None) -> Any:
        """Remove and return the first item; raise TimeoutError after `timeout_s` seconds."""
        try:
            return items.get(timeout=timeout_s)
        except queue.Empty:
            raise TimeoutError from None

    @staticmethod
    async def acquire(permits: Any, timeout_s: float | None = None) -> bool:
        """Wait for a permit of a semaphore; return whether there was one in time."""
        try:
            permits.get(timeout=timeout_s)
        except queue.Empty:
            return False
        return True

    @staticmethod
    async def sleep(seconds: float) -> None:
        """Block the thread."""
        time.sleep(seconds)

    @staticmethod
    async def call(function: Callable[..., T], *arguments: Any) -> T:
        """Call a function that blocks."""
        return function(*arguments)

    def submit(
        self, work: Coroutine[Any, Any, Any], jobs: set[Any], on_end: Callable[[], None]
    ) -> None:
        """Run a coroutine concurrently, with the context variables of the caller.

        Args:
            work: The coroutine.
            jobs: A set that holds it until it ends, if `stop` can stop it.
            on_end: A function that is called when it has ended.
        """

        async def work_and_end() -> None:
            try:
                await work
            finally:
                on_end()

        job = work_and_end()
        try:
            self._workers.submit(contextvars.copy_context().run, run, job)
        except RuntimeError:  # the client was closed, or the main thread has ended
            self.start(job)

    @staticmethod
    def start(work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine in a new thread, since it may wait for long."""
        run_in_context = contextvars.copy_context().run
        thread = threading.Thread(target=run_in_context, args=(run, work), daemon=True)
        thread.start()
        return thread

    @staticmethod
    async def stop(jobs: Iterable[Any]) -> None:
        """Wait briefly for threads, which cannot be cancelled."""
        for thread in jobs:
            thread.join(_STOP_TIMEOUT_S)

    def close(self) -> None:
        """End the threads, as soon as they are done."""
        self._workers.shutdown(wait=False)


class Tasks:
    """The runtime of a client for asyncio: `Threads` with tasks."""

    is_async = True
    make_queue = asyncio.Queue
    make_semaphore = asyncio.Semaphore
    sleep = staticmethod(asyncio.sleep)

    def __init__(self, workers: int = 1) -> None:
        self.close = lambda: None

    @staticmethod
    async def get(items: Any, timeout_s: float | None = None) -> Any:
        """Remove and return the first item; raise TimeoutError after `timeout_s` seconds."""
        try:
            return await asyncio.wait_for(items.get(), timeout_s)
        except asyncio.TimeoutError:  # before Python 3.11 another class
            raise TimeoutError from None

    @staticmethod
    async def acquire(permits: Any, timeout_s: float | None = None) -> bool:
        """Wait for a permit of a semaphore; return whether there was one in time."""
        if timeout_s is None or not permits.locked():
            return bool(await permits.acquire())
        try:
            return await asyncio.wait_for(permits.acquire(), timeout_s)
        except asyncio.TimeoutError:
            return False

    @staticmethod
    async def call(function: Callable[..., T], *arguments: Any) -> T:
        """Call a function that blocks, in a thread."""
        return await asyncio.to_thread(function, *arguments)

    @staticmethod
    def start(work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine concurrently."""
        return asyncio.create_task(work)

    @staticmethod
    def submit(work: Coroutine[Any, Any, Any], jobs: set[Any], on_end: Callable[[], None]) -> None:
        """Run a coroutine concurrently; see `Threads.submit`."""
        task = asyncio.create_task(work)
        jobs.add(task)
        task.add_done_callback(jobs.discard)
        # A task that is cancelled before it begins runs no code of `work`, but its callbacks.
        task.add_done_callback(lambda _: on_end())

    @staticmethod
    async def stop(jobs: Iterable[Any]) -> None:
        """Cancel tasks, and wait for them."""
        tasks = [*jobs]
        for task in tasks:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)


Runtime = Threads | Tasks
