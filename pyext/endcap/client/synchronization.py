"""Primitives of concurrency in two variants, for asyncio tasks and for threads.

Those for asyncio have the prefix `Async` or `async_`, and are used by the package `_async`. From it
`scripts/generate_sync_client.py` generates `_sync`, which uses those for threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import queue
import socket
import threading
import time
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
)
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

# Seconds to wait for a running iterator when no more items are wanted. One that waits for a camera
# is left to its thread, which ends with the program.
_STOP_TIMEOUT_S = 0.1
_NOTHING: Any = object()
# Of a body, written between two checks of the deadline, which asyncio watches meanwhile.
ASYNC_WRITE_BYTES = 1 << 20
WRITE_BYTES = 1 << 18

sleep = time.sleep
async_sleep = asyncio.sleep


# Exceptions of the iteration over a gRPC call: asyncio's calls are cancelled as their tasks are.
ASYNC_ENDS: tuple[type[BaseException], ...] = (Exception, asyncio.CancelledError)
ENDS: tuple[type[BaseException], ...] = (Exception,)


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


async def async_iterate(items: Iterable[T] | AsyncIterable[T]) -> AsyncGenerator[T, None]:
    """Yield items of either kind of iterable."""
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item


def iterate(items: Iterable[T]) -> Generator[T, None, None]:
    """Yield items."""
    yield from items


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


class AsyncQueue(Generic[T]):
    """An unbounded queue with timeouts.

    A task that is cancelled while it waits takes no item, which `asyncio.wait_for` around a queue
    does not guarantee before Python 3.12.
    """

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._waiting: set[asyncio.Future[None]] = set()

    def put(self, item: T) -> None:
        """Append an item."""
        self._items.append(item)
        for waiting in self._waiting:
            _settle(waiting, None)

    async def get(self, timeout_s: float | None = None) -> T:
        """Remove and return the first item; raise TimeoutError after `timeout_s` seconds."""
        loop = asyncio.get_running_loop()
        deadline = None if timeout_s is None else loop.time() + timeout_s
        while not self._items:
            if deadline is not None and loop.time() >= deadline:
                raise TimeoutError
            waiting: asyncio.Future[None] = loop.create_future()
            self._waiting.add(waiting)
            timer = None if deadline is None else loop.call_at(deadline, _settle, waiting, None)
            try:
                await waiting
            finally:
                if timer is not None:
                    timer.cancel()
                self._waiting.discard(waiting)
        return self._items.popleft()

    async def until(self, last: T) -> AsyncIterator[T]:
        """Yield items until `last`."""
        while (item := await self.get()) is not last:
            yield item


class Queue(Generic[T]):
    """AsyncQueue for threads."""

    def __init__(self) -> None:
        self._items: queue.SimpleQueue[T] = queue.SimpleQueue()

    def put(self, item: T) -> None:
        """Append an item."""
        self._items.put(item)

    def get(self, timeout_s: float | None = None) -> T:
        """Remove and return the first item; raise TimeoutError after `timeout_s` seconds."""
        try:
            return self._items.get(timeout=timeout_s)
        except queue.Empty:
            raise TimeoutError from None

    def until(self, last: T) -> Iterator[T]:
        """Yield items until `last`."""
        return iter(self._items.get, last)


def new_thread(name: str, function: Callable[..., None], *arguments: Any) -> threading.Thread:
    """Return a daemon thread that has the context variables of this one, as a task of asyncio has.

    So a request that a thread sends belongs to the caller's OpenTelemetry span.
    """
    run = contextvars.copy_context().run
    return threading.Thread(target=run, args=(function, *arguments), name=name, daemon=True)


class AsyncTask:
    """A coroutine that runs concurrently, in the current event loop."""

    def __init__(self, name: str, function: Callable[..., Awaitable[None]], *arguments: Any):
        self._task = asyncio.ensure_future(function(*arguments))

    async def join(self) -> None:
        """Wait until it has ended; being cancelled meanwhile does not cancel it."""
        await asyncio.wait([self._task])
        self._task.result()


class Task:
    """A function that runs concurrently, in a daemon thread."""

    def __init__(self, name: str, function: Callable[..., None], *arguments: Any):
        self._thread = new_thread(name, function, *arguments)
        self._thread.start()

    def join(self) -> None:
        """Wait until it has ended."""
        self._thread.join()


@dataclass(frozen=True)
class Item(Generic[T]):
    """An item of an iterator."""

    item: T


@dataclass(frozen=True)
class EndOfItems:
    """The end of an iterator, with the error that it raised."""

    error: BaseException | None = None


class AsyncItemReader(Generic[T]):
    """Reads items from a generator on request, concurrently with its user.

    Args:
        items: The generator.
        put: A function that is called with each item, and with `EndOfItems` at the end.
    """

    def __init__(
        self, items: AsyncGenerator[T, None], put: Callable[[Item[T] | EndOfItems], None]
    ) -> None:
        self._items = items
        self._put = put
        self._wanted = AsyncSemaphore(0)
        self._task = asyncio.ensure_future(self._run())

    def request_next(self) -> None:
        """Request one more item."""
        self._wanted.release()

    async def stop(self) -> None:
        """Read no more items; close the generator."""
        await cancel_all([self._task])
        await self._items.aclose()

    async def _run(self) -> None:
        try:
            while True:
                await self._wanted.acquire()
                item = await anext(self._items, _NOTHING)
                if item is _NOTHING:
                    self._put(EndOfItems())
                    return
                self._put(Item(item))
                del item  # not to be kept alive until the next one
        except Exception as error:
            self._put(EndOfItems(error))


class ItemReader(Generic[T]):
    """AsyncItemReader with a thread, which calls `put`."""

    def __init__(
        self, items: Generator[T, None, None], put: Callable[[Item[T] | EndOfItems], None]
    ) -> None:
        self._items = items
        self._put = put
        self._wanted = threading.Semaphore(0)
        self._stopped = False
        self._thread = new_thread("endcap images", self._run)
        self._thread.start()

    def request_next(self) -> None:
        """Request one more item."""
        self._wanted.release()

    def stop(self) -> None:
        """Read no more items; close the generator, unless it is blocked for long."""
        self._stopped = True
        self._wanted.release()
        self._thread.join(_STOP_TIMEOUT_S)

    def _run(self) -> None:
        try:
            while True:
                self._wanted.acquire()
                if self._stopped:
                    return
                item = next(self._items, _NOTHING)
                if item is _NOTHING:
                    self._put(EndOfItems())
                    return
                self._put(Item(item))
                del item  # not to be kept alive until the next one
        except BaseException as error:
            self._put(EndOfItems(error))
        finally:
            del self._items  # closes the generator in the thread that ran it


async def async_map_unordered(
    function: Callable[[T], Awaitable[R]], items: AsyncGenerator[T, None], limit: int
) -> AsyncGenerator[R, None]:
    """Yield a function's result for each item, in order of completion, with `limit` calls at once.

    An item is read when a call can begin with it. Exceptions of the function and of the items are
    raised; the running calls are cancelled then, and when the generator is closed.
    """
    results: AsyncQueue[tuple[R] | BaseException | None] = AsyncQueue()
    turn = asyncio.Lock()

    async def work() -> None:
        try:
            while True:
                async with turn:
                    item = await anext(items, _NOTHING)
                if item is _NOTHING:
                    break
                results.put((await function(item),))
                del item
            results.put(None)
        except Exception as error:
            results.put(error)

    workers = [asyncio.ensure_future(work()) for _ in range(limit)]
    working = limit
    try:
        while working:
            result = await results.get()
            if isinstance(result, BaseException):
                raise result
            if result is None:
                working -= 1
            else:
                yield result[0]
    finally:
        await cancel_all(workers)
        await items.aclose()


def map_unordered(
    function: Callable[[T], R], items: Generator[T, None, None], limit: int
) -> Generator[R, None, None]:
    """async_map_unordered with threads, which read the items; running calls are not cancelled."""
    workers = _Workers(function, items, limit)
    try:
        yield from workers.results()
    finally:
        workers.stop()


class _Workers(Generic[T, R]):
    """Threads that read items in turn; each starts another one while there may be more."""

    def __init__(
        self, function: Callable[[T], R], items: Generator[T, None, None], limit: int
    ) -> None:
        self._function = function
        self._items = items
        self._limit = limit
        self._turn = threading.Lock()
        self._stopped = False
        self._threads: list[threading.Thread] = []
        self._results: queue.SimpleQueue[tuple[R] | BaseException | None] = queue.SimpleQueue()
        self._start()

    def results(self) -> Generator[R, None, None]:
        ended = 0
        while ended < len(self._threads):
            result = self._results.get()
            if isinstance(result, BaseException):
                raise result
            if result is None:
                ended += 1
            else:
                yield result[0]

    def stop(self) -> None:
        """Read no more items; close the generator, unless it is blocked for long."""
        self._stopped = True
        if self._turn.acquire(timeout=_STOP_TIMEOUT_S):
            try:
                self._items.close()
            finally:
                self._turn.release()

    def _start(self) -> None:
        thread = new_thread("endcap client", self._run)
        self._threads.append(thread)
        thread.start()

    def _run(self) -> None:
        try:
            while True:
                with self._turn:
                    item = _NOTHING if self._stopped else next(self._items, _NOTHING)
                    if item is not _NOTHING and len(self._threads) < self._limit:
                        self._start()
                if item is _NOTHING:
                    break
                self._results.put((self._function(item),))
                del item
            self._results.put(None)
        except BaseException as error:
            self._results.put(error)


async def cancel_all(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel the tasks that are not done, each once, and wait for all.

    A second cancellation would interrupt a task's clean-up; so a cancellation of the caller
    meanwhile is raised when all have ended. Their exceptions are dropped.
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
            task.exception()  # or asyncio would report it as never retrieved
    if cancelled:
        raise asyncio.CancelledError


async def async_interrupt(connection: Any) -> None:
    """Do nothing: in an event loop closing a socket wakes the tasks that wait for its data."""


def shut_down(connection: Any) -> None:
    """Wake who waits for data of a socket, a thread too, which closing it would not."""
    with contextlib.suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)  # not that of ssl.SSLSocket


interrupt = shut_down
