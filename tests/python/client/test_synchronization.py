"""Primitives of concurrency: order, timeouts, cancellation and clean-up."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from typing import Any

import pytest

from endcap.client.synchronization import (
    AsyncItemReader,
    AsyncQueue,
    AsyncSemaphore,
    AsyncTask,
    EndOfItems,
    Item,
    ItemReader,
    Queue,
    Semaphore,
    async_map_unordered,
    async_run_blocking,
    cancel_all,
    map_unordered,
)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 10))


# --- tasks ----------------------------------------------------------------------------------------


def test_a_cancellation_while_joining_is_not_lost() -> None:
    async def test() -> None:
        ended = asyncio.Event()

        async def work() -> None:
            try:
                await ended.wait()
            except asyncio.CancelledError:
                return  # as the receiver of a stream does

        task = AsyncTask("work", work)
        joining = asyncio.ensure_future(task.join())
        await asyncio.sleep(0)
        joining.cancel()
        with pytest.raises(asyncio.CancelledError):
            await joining
        ended.set()
        await task.join()

    run(test())


# --- work in threads ------------------------------------------------------------------------------


def test_a_task_that_is_cancelled_waits_for_its_thread() -> None:
    async def test() -> None:
        begun, go_on, done = threading.Event(), threading.Event(), threading.Event()

        def work() -> None:
            begun.set()
            assert go_on.wait(5)
            done.set()

        task = asyncio.ensure_future(async_run_blocking(work))
        while not begun.is_set():
            await asyncio.sleep(0.01)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0.01)
            assert not task.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert done.is_set()

    run(test())


def test_results_and_errors_of_threads_are_passed_on() -> None:
    assert asyncio.run(async_run_blocking(divmod, 7, 4)) == (1, 3)
    with pytest.raises(ZeroDivisionError):
        asyncio.run(async_run_blocking(divmod, 7, 0))


# --- semaphores -----------------------------------------------------------------------------------


def test_permits_are_first_come_first_served() -> None:
    async def test() -> None:
        permits = AsyncSemaphore(1)
        served = []

        async def send_request(number: int) -> None:
            assert await permits.acquire(5)
            served.append(number)

        assert await permits.acquire()
        asking = [asyncio.create_task(send_request(number)) for number in range(3)]
        await asyncio.sleep(0)
        for _ in asking:
            permits.release()
        await asyncio.gather(*asking)
        assert served == [0, 1, 2]

    run(test())


def test_a_task_gets_no_permit_after_the_timeout() -> None:
    async def test() -> None:
        permits = AsyncSemaphore(1)
        assert await permits.acquire(0)
        begin = time.monotonic()
        assert not await permits.acquire(0.05)
        assert not await permits.acquire(-1)
        assert 0.04 < time.monotonic() - begin < 1
        permits.release()
        assert await permits.acquire(0)

    run(test())


def test_a_thread_gets_no_permit_after_the_timeout() -> None:
    permits = Semaphore(1)
    assert permits.acquire(0)
    assert not permits.acquire(0.01)
    assert not permits.acquire(-1)
    threading.Timer(0.02, permits.release).start()
    assert permits.acquire()


@pytest.mark.parametrize("turns", range(5))
def test_a_cancellation_at_the_time_of_a_permit_is_not_lost(turns: int) -> None:
    async def test() -> None:
        permits = AsyncSemaphore(1)
        assert await permits.acquire(5)

        async def hold() -> None:
            async with permits:
                await asyncio.sleep(20)

        waiting = asyncio.create_task(hold())
        await asyncio.sleep(0)
        permits.release()
        for _ in range(turns):
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await permits.acquire(0)  # it came back

    run(test())


# --- queues ---------------------------------------------------------------------------------------


def test_tasks_get_items_in_order() -> None:
    async def test() -> None:
        items: AsyncQueue[int] = AsyncQueue()
        items.put(1)
        items.put(2)
        asyncio.get_running_loop().call_later(0.02, items.put, 3)
        assert [await items.get(5) for _ in range(3)] == [1, 2, 3]
        for number in (4, 5, 0, 6):
            items.put(number)
        assert [number async for number in items.until(0)] == [4, 5]
        assert await items.get() == 6

    run(test())


def test_threads_get_items_in_order() -> None:
    items: Queue[int] = Queue()
    for number in (4, 5, 0, 6):
        items.put(number)
    assert list(items.until(0)) == [4, 5]
    assert items.get() == 6
    with pytest.raises(TimeoutError):
        items.get(0.01)


def test_no_item_in_time_is_a_timeout() -> None:
    async def test() -> None:
        items: AsyncQueue[int] = AsyncQueue()
        for wait_s in (0.02, 0.0):
            with pytest.raises(TimeoutError):
                await items.get(wait_s)
        items.put(1)
        assert await items.get(0) == 1

    run(test())


def test_each_of_several_tasks_takes_one_item() -> None:
    async def test() -> None:
        items: AsyncQueue[int] = AsyncQueue()
        tasks = [asyncio.ensure_future(items.get(5)) for _ in range(3)]
        await asyncio.sleep(0)
        for number in range(3):
            items.put(number)
        assert sorted(await asyncio.gather(*tasks)) == [0, 1, 2]

    run(test())


@pytest.mark.parametrize("turns", range(4))
def test_a_task_that_is_cancelled_ends_so_and_takes_no_item(turns: int) -> None:
    """However many turns of the loop after the item has come."""

    async def test() -> None:
        items: AsyncQueue[int] = AsyncQueue()

        async def take() -> None:
            taken.append(await items.get(5))
            await asyncio.sleep(5)

        taken: list[int] = []
        task = asyncio.ensure_future(take())
        await asyncio.sleep(0.01)
        items.put(1)
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        if not taken:
            assert await items.get(0) == 1

    run(test())


# --- taking items ---------------------------------------------------------------------------------


def test_a_thread_reads_items_on_request() -> None:
    taken: queue.SimpleQueue[Any] = queue.SimpleQueue()
    reader = ItemReader((letter for letter in "abc"), taken.put)
    reader.request_next()
    reader.request_next()
    assert [taken.get(timeout=5) for _ in range(2)] == [Item("a"), Item("b")]
    with pytest.raises(queue.Empty):
        taken.get(timeout=0.05)
    reader.request_next()
    reader.request_next()
    assert [taken.get(timeout=5) for _ in range(2)] == [Item("c"), EndOfItems()]


def test_a_task_reads_items_on_request() -> None:
    ended = []

    async def letters() -> AsyncGenerator[str, None]:
        try:
            yield "a"
            yield "b"
        finally:
            ended.append(True)

    async def test() -> None:
        taken: AsyncQueue[Any] = AsyncQueue()
        reader = AsyncItemReader(letters(), taken.put)
        reader.request_next()
        assert await taken.get(5) == Item("a")
        with pytest.raises(TimeoutError):
            await taken.get(0.02)
        await reader.stop()
        assert ended

    run(test())


def test_a_generator_that_is_not_exhausted_is_closed() -> None:
    ended = threading.Event()

    def items() -> Generator[int, None, None]:
        try:
            yield from range(10)
        finally:
            ended.set()

    taken: queue.SimpleQueue[Any] = queue.SimpleQueue()
    reader = ItemReader(items(), taken.put)
    reader.request_next()
    taken.get(timeout=5)
    reader.stop()
    assert ended.is_set()


# --- many calls at once ---------------------------------------------------------------------------

Mapped = Callable[..., list[Any]]


def mapped_by_threads(function: Callable[[Any], Any], items: list[Any], limit: int) -> list[Any]:
    return list(map_unordered(function, (item for item in items), limit))


def mapped_by_tasks(function: Callable[[Any], Any], items: list[Any], limit: int) -> list[Any]:
    async def call(item: Any) -> Any:
        return await asyncio.to_thread(function, item)

    async def source() -> AsyncGenerator[Any, None]:
        for item in items:
            yield item

    async def run() -> list[Any]:
        return [each async for each in async_map_unordered(call, source(), limit)]

    return asyncio.run(run())


KINDS = pytest.mark.parametrize("mapped", [mapped_by_threads, mapped_by_tasks])


@KINDS
@pytest.mark.parametrize(("count", "limit"), [(0, 3), (1, 3), (3, 3), (20, 3), (20, 1)])
def test_each_item_has_its_result_and_no_more_calls_than_the_limit(
    mapped: Mapped, count: int, limit: int
) -> None:
    lock, active, most = threading.Lock(), 0, 0

    def square(number: int) -> int:
        nonlocal active, most
        with lock:
            active += 1
            most = max(most, active)
        time.sleep(0.005)
        with lock:
            active -= 1
        return number * number

    results = mapped(square, list(range(count)), limit)
    assert sorted(results) == [number * number for number in range(count)]
    assert most <= limit
    assert most == min(count, limit) or count == limit


@KINDS
def test_an_error_of_a_call_is_raised(mapped: Mapped) -> None:
    def fail(number: int) -> int:
        if number == 3:
            raise LookupError("number 3")
        return number

    with pytest.raises(LookupError, match="number 3"):
        mapped(fail, list(range(30)), 2)


def test_results_of_threads_do_not_wait_for_the_next_item() -> None:
    came = threading.Event()

    def items() -> Generator[int, None, None]:
        yield 1
        assert came.wait(5), "the first result waits for the second item"
        yield 2

    results = []
    for result in map_unordered(str, items(), 2):
        results.append(result)
        came.set()
    assert results == ["1", "2"]


def test_an_error_of_the_source_is_raised() -> None:
    def items() -> Generator[int, None, None]:
        yield 1
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        list(map_unordered(str, items(), 2))


def test_no_items_are_read_after_the_caller_stops() -> None:
    taken: list[int] = []
    ended = threading.Event()

    def items() -> Generator[int, None, None]:
        try:
            for number in range(100):
                taken.append(number)
                yield number
        finally:
            ended.set()

    results = map_unordered(lambda number: time.sleep(0.01) or number, items(), 2)
    next(results)
    results.close()
    assert ended.is_set()
    assert len(taken) < 10


# --- ends -----------------------------------------------------------------------------------------


def test_tasks_are_cancelled_once_and_waited_for() -> None:
    cancels: list[int] = []

    async def work() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            cancels.append(1)
            await asyncio.sleep(0.05)  # releases what it holds
            cancels.append(2)
            raise

    async def test() -> None:
        task = asyncio.ensure_future(work())
        await asyncio.sleep(0)
        ending = asyncio.ensure_future(cancel_all([task]))
        await asyncio.sleep(0.01)
        ending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ending
        assert task.cancelled()

    run(test())
    assert cancels == [1, 2]
