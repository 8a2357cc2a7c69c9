"""The driver of threads and asyncio: the client is written once, as coroutines.

`Tasks` runs them in an event loop. With `Threads` whatever they await has finished when it returns:
it blocks its thread instead of suspending, so that `run` completes a coroutine in one step. What
tritonclient has for asyncio only runs for threads in one event loop of the process.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import functools
import inspect
import os
import queue
import selectors
import threading
import time
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
)
from typing import Any, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

# Seconds to wait for a thread whose work is not wanted any more. One that waits for a camera's next
# frame is left alone, and ends with the program.
_STOP_TIMEOUT_S = 0.1
END: Any = object()


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that uses `Threads`."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise RuntimeError("the coroutine belongs to an event loop")


def iterate(items: AsyncGenerator[T, None]) -> Generator[T, None, None]:
    """Yield the items of an asynchronous generator that uses `Threads`."""
    step: Any = items.__anext__
    try:
        while (item := run(next_item(step))) is not END:
            yield item
    finally:
        run(items.aclose())


async def next_item(step: Callable[[], Awaitable[T]]) -> T:
    """Return the result of `__anext__` of a generator, END where it has ended."""
    try:
        return await step()
    except StopAsyncIteration:
        return END  # type: ignore[no-any-return]


async def as_async(items: Iterable[T] | AsyncIterable[T]) -> AsyncGenerator[T, None]:
    """Yield the items of either kind of iterable."""
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item


def in_event_loop() -> bool:
    """Whether this thread runs an event loop now."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


# --- threads --------------------------------------------------------------------------------------


class _ThreadQueue(Generic[T]):
    """An unbounded queue."""

    def __init__(self) -> None:
        self._items: queue.SimpleQueue[T] = queue.SimpleQueue()
        self.put = self._items.put

    async def get(self, timeout_s: float | None = None) -> T:
        """Remove and return the first item; raise TimeoutError after `timeout_s` seconds."""
        try:
            return self._items.get(timeout=timeout_s)
        except queue.Empty:
            raise TimeoutError from None

    def until(self, last: T) -> Iterator[T]:
        """Yield the items before `last`; for tasks an asynchronous iterator."""
        return iter(self._items.get, last)


class _ThreadSemaphore:
    """A number of permits."""

    def __init__(self, permits: int) -> None:
        self._permits = threading.Semaphore(permits)
        self.release = self._permits.release

    async def __aenter__(self) -> None:
        self._permits.acquire()

    async def __aexit__(self, *exception: object) -> None:
        self._permits.release()

    async def acquire(self, timeout_s: float | None = None) -> bool:
        """Wait for a permit; return whether there was one within `timeout_s` seconds."""
        return self._permits.acquire(timeout=timeout_s)


class _ThreadJob:
    """A coroutine that runs concurrently, with the context variables of its caller."""

    def __init__(self, name: str, function: Callable[..., Any], *arguments: Any) -> None:
        context = contextvars.copy_context()
        self._error: BaseException | None = None
        self._thread = threading.Thread(
            target=lambda: context.run(self._run, function, *arguments), name=name, daemon=True
        )
        self._thread.start()

    async def join(self) -> None:
        """Wait until it has ended, and raise its error."""
        self._thread.join()
        if self._error is not None:
            raise self._error

    async def stop(self) -> None:
        """Cancel it; a thread, which cannot be cancelled, is waited for briefly."""
        self._thread.join(_STOP_TIMEOUT_S)

    def _run(self, function: Callable[..., Any], *arguments: Any) -> None:
        try:
            run(function(*arguments))
        except BaseException as error:
            self._error = error


class Threads:
    """The runtime of the clients for threads."""

    queue = _ThreadQueue[Any]
    semaphore = _ThreadSemaphore
    start = _ThreadJob

    @staticmethod
    async def sleep(seconds: float) -> None:
        """Block the thread."""
        time.sleep(seconds)

    @staticmethod
    async def call(function: Callable[..., T], *arguments: Any) -> T:
        """Call a function in this thread."""
        return function(*arguments)

    @staticmethod
    async def finish(
        work: Any, timeout_s: float | None = None, in_flight: set[Any] | None = None
    ) -> Any:
        """Do what `finish` does; an awaitable runs in the event loop of the process."""
        if not inspect.isawaitable(work):
            return work
        done = asyncio.run_coroutine_threadsafe(_in_flight(work, in_flight), event_loop())
        try:
            return done.result(timeout_s)
        except concurrent.futures.CancelledError:
            raise InterruptedError from None
        except concurrent.futures.TimeoutError:
            done.cancel()
            raise TimeoutError from None
        except BaseException:
            done.cancel()  # after KeyboardInterrupt, for example
            raise


async def _in_flight(work: Awaitable[T], in_flight: set[Any] | None) -> T:
    task, tasks = asyncio.current_task(), set() if in_flight is None else in_flight
    tasks.add(task)
    try:
        return await work
    finally:
        tasks.discard(task)


_loops: dict[int, asyncio.AbstractEventLoop] = {}  # by process
_opening = threading.Lock()


def event_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of this process, which a daemon thread runs."""
    process = os.getpid()
    if process not in _loops:
        with _opening:
            if process not in _loops:
                _loops[process] = _run_event_loop()
    return _loops[process]


def _run_event_loop() -> asyncio.AbstractEventLoop:
    # Not epoll, whose state a forked child shares: what it frees would go for its parent, too.
    loop = asyncio.SelectorEventLoop(selectors.PollSelector())
    loop.set_exception_handler(_handle_exception)
    threading.Thread(target=loop.run_forever, name="endcap client loop", daemon=True).start()
    return loop


def _handle_exception(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    # aiohttp reports clients that are garbage in a forked child, which must not close them.
    if not {"client_session", "connector"} & context.keys():
        loop.default_exception_handler(context)


# --- tasks of an event loop -----------------------------------------------------------------------


class _TaskQueue(Generic[T]):
    """`_ThreadQueue` for tasks; a cancelled one takes no item.

    `asyncio.wait_for` around `asyncio.Queue` may lose one before Python 3.12.
    """

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._waiting: set[asyncio.Future[None]] = set()

    def put(self, item: T) -> None:
        self._items.append(item)
        self._wake()

    async def get(self, timeout_s: float | None = None) -> T:
        loop = asyncio.get_running_loop()
        timer = None if timeout_s is None else loop.call_later(timeout_s, self._wake)
        try:
            while not self._items:
                if timer is not None and loop.time() >= timer.when():
                    raise TimeoutError
                waiting: asyncio.Future[None] = loop.create_future()
                self._waiting.add(waiting)
                try:
                    await waiting
                finally:
                    self._waiting.discard(waiting)
            return self._items.popleft()
        finally:
            if timer is not None:
                timer.cancel()

    async def until(self, last: T) -> AsyncIterator[T]:
        while (item := await self.get()) is not last:
            yield item

    def _wake(self) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)


class _TaskSemaphore(asyncio.Semaphore):
    """`_ThreadSemaphore` for tasks."""

    async def acquire(self, timeout_s: float | None = None) -> Any:
        if not self.locked():
            return await super().acquire()
        waiting = asyncio.ensure_future(super().acquire())
        try:
            await asyncio.wait([waiting], timeout=timeout_s)
        except asyncio.CancelledError:
            if not waiting.cancel():  # it was granted at the same time
                self.release()
            raise
        return not waiting.cancel()


class _TaskJob:
    """`_ThreadJob` as a task."""

    def __init__(self, name: str, function: Callable[..., Any], *arguments: Any) -> None:
        self._task: asyncio.Task[Any] = asyncio.create_task(function(*arguments), name=name)

    async def join(self) -> None:
        await asyncio.wait([self._task])
        self._task.result()

    async def stop(self) -> None:
        await settle(self._task, cancel=True)


async def settle(work: asyncio.Future[Any], *, cancel: bool = False) -> None:
    """Wait until `work` is done; a cancellation meanwhile, once or more often, is raised then."""
    if cancel:
        work.cancel()
    cancelled = False
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError:
            cancelled = True
    if not work.cancelled():
        work.exception()  # retrieved here, or asyncio would report it
    if cancelled:
        raise asyncio.CancelledError


async def finish(
    work: Any, timeout_s: float | None = None, in_flight: set[Any] | None = None
) -> Any:
    """Return the result of an awaitable; what is not one, of a blocking call, unchanged.

    A cancellation of the caller cancels the awaitable.

    Args:
        work: The awaitable.
        timeout_s: Seconds to wait for it.
        in_flight: A set that holds the awaitable's task meanwhile, for others to cancel it.

    Raises:
        TimeoutError: There is no result within `timeout_s` seconds.
        InterruptedError: The awaitable was cancelled, but not the caller.
    """
    if not inspect.isawaitable(work):
        return work
    task = asyncio.ensure_future(work)
    in_flight = set() if in_flight is None else in_flight
    in_flight.add(task)
    try:
        await asyncio.wait([task], timeout=timeout_s)
        if not task.done():
            await settle(task, cancel=True)
            raise TimeoutError
    except asyncio.CancelledError:
        await settle(task, cancel=True)
        raise
    finally:
        in_flight.discard(task)
    if task.cancelled():
        raise InterruptedError
    return task.result()


class Tasks:
    """The runtime of the clients for asyncio."""

    queue = _TaskQueue[Any]
    semaphore = _TaskSemaphore
    start = _TaskJob
    sleep = staticmethod(asyncio.sleep)
    finish = staticmethod(finish)

    @staticmethod
    async def call(function: Callable[..., T], *arguments: Any) -> T:
        """Call a function in a thread, and wait for it even when cancelled."""
        call = functools.partial(contextvars.copy_context().run, function, *arguments)
        # Not a task: the end of asyncio.run would cancel it while the thread continues.
        work: asyncio.Future[T] = asyncio.get_running_loop().run_in_executor(None, call)
        await settle(work)
        return work.result()


Runtime = Threads | Tasks
Queue = _ThreadQueue[T] | _TaskQueue[T]
Job = _ThreadJob | _TaskJob


# --- work with either -----------------------------------------------------------------------------


async def map_unordered(
    runtime: Runtime,
    function: Callable[[T], Awaitable[R]],
    items: AsyncGenerator[T, None],
    limit: int,
) -> AsyncGenerator[R, None]:
    """Yield a function's result for each item, in order of completion, with `limit` calls at once.

    An item is read when a call can begin with it. Exceptions of the function and of the items are
    raised; tasks are cancelled then, and when the generator is closed, but not threads.
    """
    results = runtime.queue()
    turn = runtime.semaphore(1)
    jobs: list[Job] = []
    started = 0
    stopped = False

    def start() -> None:
        nonlocal started
        started += 1
        jobs.append(runtime.start("endcap client", work))

    async def work() -> None:
        try:
            while True:
                async with turn:
                    item = END if stopped else await next_item(items.__anext__)
                    if item is not END and started < limit:
                        start()
                if item is END:
                    break
                results.put((await function(item),))
                del item  # not to be kept alive until the next one
            results.put(None)
        except BaseException as error:
            results.put(error)
            if not isinstance(error, Exception):
                raise

    start()
    ended = 0
    try:
        while ended < started:
            result = await results.get()
            if isinstance(result, BaseException):
                raise result
            if result is None:
                ended += 1
            else:
                yield result[0]
    finally:
        stopped = True
        if isinstance(runtime, Tasks):
            for job in jobs:
                await job.stop()
        if await turn.acquire(_STOP_TIMEOUT_S):
            with contextlib.suppress(RuntimeError):
                await items.aclose()
