"""Threads and tasks behind the same interface.

Each thing here exists twice: for asyncio, with the prefix `Async` or `async_`, and for threads. The
package `_async` is written with the former; `scripts/generate_sync_client.py` makes `_sync` of it,
which has the latter in their place.
"""

from __future__ import annotations

import asyncio
import contextlib
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

# How long an iterator that is being asked may take to notice that nobody wants more, seconds. One
# that waits for a camera is left to its thread, which ends with the program.
_PARTING_S = 0.1
_NOTHING: Any = object()

sleep = time.sleep
async_sleep = asyncio.sleep


# What iterating over a call may raise: asyncio's calls are cancelled as their tasks are.
ASYNC_ENDS: tuple[type[BaseException], ...] = (Exception, asyncio.CancelledError)
ENDS: tuple[type[BaseException], ...] = (Exception,)


async def async_in_thread(function: Callable[..., T], *arguments: object) -> T:
    """Return what a function returns that runs in a thread.

    A thread cannot be cancelled, and what it makes or writes has to be done before anybody cleans
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
        work.exception()  # nobody gets it: not to be reported as one that was never retrieved
        try:
            raise cancelled
        finally:
            del cancelled  # or it and its frames, with views on shared memory, kept each other
    return work.result()


def in_thread(function: Callable[..., T], *arguments: object) -> T:
    """Return what a function returns, in the thread that asks."""
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
    """A number of permits, which go to who waits in the order of asking.

    In place of asyncio.Semaphore with asyncio.wait_for, which loses a cancellation that comes in
    the instant of the permit before Python 3.12.
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
                self.release()  # it was granted in the same instant
            raise
        finally:
            if timer is not None:
                timer.cancel()
            with contextlib.suppress(ValueError):  # a release took it out
                self._waiting.remove(waiting)

    def release(self) -> None:
        """Give a permit back."""
        while self._waiting:
            if _settle(self._waiting.popleft(), True):
                return
        self._free += 1


class Semaphore:
    """AsyncSemaphore for threads; who waits is served in any order."""

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
        """Give a permit back."""
        self._permits.release()


def _settle(waiting: asyncio.Future[Any], result: Any) -> bool:
    """Give a result to who waits; return whether it waited still."""
    if waiting.done():
        return False
    waiting.set_result(result)
    return True


class AsyncQueue(Generic[T]):
    """What came, in order, for whoever takes it.

    A task that is cancelled while it waits takes nothing and ends as cancelled, which
    `asyncio.wait_for` around a queue does not promise before Python 3.12.
    """

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._waiting: set[asyncio.Future[None]] = set()

    def put(self, item: T) -> None:
        """Put an item behind the others."""
        self._items.append(item)
        for waiting in self._waiting:
            _settle(waiting, None)

    async def get(self, timeout_s: float | None = None) -> T:
        """Take the first item. Raises TimeoutError where none comes within `timeout_s` seconds."""
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
        """Yield items as they come, until that one."""
        while (item := await self.get()) is not last:
            yield item


class Queue(Generic[T]):
    """AsyncQueue for threads."""

    def __init__(self) -> None:
        self._items: queue.SimpleQueue[T] = queue.SimpleQueue()

    def put(self, item: T) -> None:
        """Put an item behind the others."""
        self._items.put(item)

    def get(self, timeout_s: float | None = None) -> T:
        """Take the first item. Raises TimeoutError where none comes within `timeout_s` seconds."""
        try:
            return self._items.get(timeout=timeout_s)
        except queue.Empty:
            raise TimeoutError from None

    def until(self, last: T) -> Iterator[T]:
        """Yield items as they come, until that one."""
        return iter(self._items.get, last)


class AsyncTask:
    """A coroutine that runs by itself, in the event loop of who makes it."""

    def __init__(self, name: str, function: Callable[..., Awaitable[None]], *arguments: Any):
        self._task = asyncio.ensure_future(function(*arguments))

    async def join(self) -> None:
        """Wait for its end."""
        await self._task


class Task:
    """A function that runs by itself, in a thread that does not hold up the program's end."""

    def __init__(self, name: str, function: Callable[..., None], *arguments: Any):
        self._thread = threading.Thread(target=function, args=arguments, name=name, daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait for its end."""
        self._thread.join()


@dataclass(frozen=True)
class Pulled(Generic[T]):
    """An item that was taken."""

    item: T


@dataclass(frozen=True)
class Exhausted:
    """There are no more items. error: what the iterator raised."""

    error: BaseException | None = None


class AsyncPuller(Generic[T]):
    """Takes items, each when it is asked for, so that nobody else waits while it waits.

    Args:
        put: Is called with each item, and with `Exhausted` at the end.
    """

    def __init__(
        self, items: AsyncGenerator[T, None], put: Callable[[Pulled[T] | Exhausted], None]
    ) -> None:
        self._items = items
        self._put = put
        self._wanted = AsyncSemaphore(0)
        self._task = asyncio.ensure_future(self._run())

    def ask(self) -> None:
        """Has one more item taken."""
        self._wanted.release()

    async def stop(self) -> None:
        """Has no more items taken; end the generator."""
        await cancel_all([self._task])
        await self._items.aclose()

    async def _run(self) -> None:
        try:
            while True:
                await self._wanted.acquire()
                item = await anext(self._items, _NOTHING)
                if item is _NOTHING:
                    self._put(Exhausted())
                    return
                self._put(Pulled(item))
                del item  # while it waits, only its taker has it
        except Exception as error:
            self._put(Exhausted(error))


class Puller(Generic[T]):
    """AsyncPuller with a thread; `put` is called there."""

    def __init__(
        self, items: Generator[T, None, None], put: Callable[[Pulled[T] | Exhausted], None]
    ) -> None:
        self._items = items
        self._put = put
        self._wanted = threading.Semaphore(0)
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="endcap images", daemon=True)
        self._thread.start()

    def ask(self) -> None:
        """Has one more item taken."""
        self._wanted.release()

    def stop(self) -> None:
        """Has no more items taken; end the generator, unless it waits for long."""
        self._stopped = True
        self._wanted.release()
        self._thread.join(_PARTING_S)

    def _run(self) -> None:
        try:
            while True:
                self._wanted.acquire()
                if self._stopped:
                    return
                item = next(self._items, _NOTHING)
                if item is _NOTHING:
                    self._put(Exhausted())
                    return
                self._put(Pulled(item))
                del item  # while it waits, only its taker has it
        except BaseException as error:
            self._put(Exhausted(error))
        finally:
            del self._items  # a generator ends now, in the thread that ran it


async def async_map_unordered(
    function: Callable[[T], Awaitable[R]], items: AsyncGenerator[T, None], limit: int
) -> AsyncGenerator[R, None]:
    """Yield what a function returns for each item, as it comes, with `limit` calls at once.

    An item is taken when a call can begin with it. Raises what the function or the items raise; the
    calls under way are cancelled then, and when the generator is closed.
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
    """async_map_unordered with threads, which take the items; calls under way are not cancelled."""
    workers = _Workers(function, items, limit)
    try:
        yield from workers.results()
    finally:
        workers.stop()


class _Workers(Generic[T, R]):
    """Threads that take items in turn; each starts another one as long as there may be more."""

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
        """Has no more items taken; end the generator, unless it waits for long."""
        self._stopped = True
        if self._turn.acquire(timeout=_PARTING_S):
            try:
                self._items.close()
            finally:
                self._turn.release()

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name="endcap client", daemon=True)
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
    """Cancel those that are not done, each once, and wait for all.

    A task that is cancelled again while it gives back what it holds would break that off; so a
    cancellation of the caller meanwhile is raised when all have ended. What they raise is dropped.
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


async def async_interrupt(connection: Any) -> None:
    """Wake who waits for data of a socket: nothing to do, closing it does so in an event loop."""


def interrupt(connection: Any) -> None:
    """Wake the thread that waits for data of a socket, which closing it would not."""
    with contextlib.suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)  # also of one that speaks TLS
