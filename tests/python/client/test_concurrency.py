"""The driver of threads and asyncio: order, timeouts, cancellation and clean-up."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from typing import Any

import pytest

from endcap.client.concurrency import (
    ItemReader,
    Runtime,
    Tasks,
    Threads,
    as_async,
    finish,
    map_in_threads,
    map_unordered,
    run,
)

RUNTIMES = pytest.mark.parametrize("runtime", [Threads(), Tasks()], ids=["threads", "tasks"])


def drive(runtime: Runtime, test: Coroutine[Any, Any, None]) -> None:
    if isinstance(runtime, Tasks):
        asyncio.run(asyncio.wait_for(test, 10))
    else:
        run(test)


def test_a_coroutine_of_an_event_loop_is_refused() -> None:
    with pytest.raises(RuntimeError, match="belongs to an event loop"):
        run(asyncio.sleep(0))


def test_a_call_in_a_thread_ends_before_its_cancelled_task() -> None:
    async def test() -> None:
        begun, go_on, done = threading.Event(), threading.Event(), threading.Event()

        def work() -> None:
            begun.set()
            assert go_on.wait(5)
            done.set()

        task = asyncio.ensure_future(Tasks.call(work))
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

    drive(Tasks(), test())


@RUNTIMES
def test_results_and_errors_of_calls_are_passed_on(runtime: Runtime) -> None:
    async def test() -> None:
        assert await runtime.call(divmod, 7, 4) == (1, 3)
        with pytest.raises(ZeroDivisionError):
            await runtime.call(divmod, 7, 0)

    drive(runtime, test())


def test_a_cancelled_or_late_awaitable_is_ended() -> None:
    cancelled: list[str] = []

    async def work(name: str) -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            await asyncio.sleep(0.01)  # releases what it holds
            cancelled.append(name)
            raise

    async def test() -> None:
        with pytest.raises(TimeoutError):
            await finish(work("late"), 0.02)
        waiting = asyncio.ensure_future(finish(work("cancelled"), 5))
        await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        inner = asyncio.ensure_future(work("alone"))
        asyncio.get_running_loop().call_later(0.01, inner.cancel)
        with pytest.raises(InterruptedError):
            await finish(inner)

    drive(Tasks(), test())
    assert cancelled == ["late", "cancelled", "alone"]


@RUNTIMES
def test_items_of_a_queue_come_in_order(runtime: Runtime) -> None:
    async def test() -> None:
        items = runtime.queue()
        for number in (4, 5, 0, 6):
            items.put(number)
        assert [number async for number in as_async(items.until(0))] == [4, 5]
        assert await items.get() == 6
        with pytest.raises(TimeoutError):
            await items.get(0.02)
        items.put(1)
        assert await items.get(0) == 1

    drive(runtime, test())


@pytest.mark.parametrize("turns", range(4))
def test_a_task_that_is_cancelled_takes_no_item(turns: int) -> None:
    """However many turns of the loop after the item has come."""

    async def test() -> None:
        items, taken = Tasks.queue(), list[int]()

        async def take() -> None:
            taken.append(await items.get(5))
            await asyncio.sleep(5)

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

    drive(Tasks(), test())


@RUNTIMES
def test_items_are_read_on_request_and_the_generator_is_closed(runtime: Runtime) -> None:
    ended = threading.Event()

    async def letters() -> AsyncGenerator[str, None]:
        try:
            for letter in "abc":
                yield letter
        finally:
            ended.set()

    async def test() -> None:
        taken = runtime.queue()
        reader = ItemReader(runtime, letters(), taken.put)
        reader.request_next()
        assert await taken.get(5) == ("a",)
        with pytest.raises(TimeoutError):
            await taken.get(0.02)
        reader.request_next()
        assert await taken.get(5) == ("b",)
        await reader.stop()

    drive(runtime, test())
    assert ended.wait(5)


# --- many calls at once ---------------------------------------------------------------------------


def mapped(runtime: Runtime, function: Callable[[Any], Any], items: Any, limit: int) -> list[Any]:
    results: list[Any] = []

    async def call(item: Any) -> Any:
        if isinstance(runtime, Tasks):
            return await asyncio.to_thread(function, item)
        return function(item)

    async def test() -> None:
        finished = map_unordered(runtime, call, as_async(items), limit)
        async with contextlib.aclosing(finished):
            async for result in finished:
                results.append(result)

    drive(runtime, test())
    return results


@RUNTIMES
@pytest.mark.parametrize(("count", "limit"), [(0, 3), (1, 3), (3, 3), (20, 3), (20, 1)])
def test_each_item_has_its_result_and_no_more_calls_than_the_limit(
    runtime: Runtime, count: int, limit: int
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

    results = mapped(runtime, square, list(range(count)), limit)
    assert sorted(results) == [number * number for number in range(count)]
    assert most <= limit
    assert most == min(count, limit) or count == limit


@RUNTIMES
def test_errors_of_calls_and_of_the_source_are_raised(runtime: Runtime) -> None:
    def fail(number: int) -> int:
        if number == 3:
            raise LookupError("number 3")
        return number

    def broken() -> Generator[int, None, None]:
        yield 1
        raise KeyError("mine")

    with pytest.raises(LookupError, match="number 3"):
        mapped(runtime, fail, list(range(30)), 2)
    with pytest.raises(KeyError, match="mine"):
        mapped(runtime, fail, broken(), 2)


def test_results_of_threads_do_not_wait_for_the_next_item() -> None:
    came = threading.Event()

    def items() -> Generator[int, None, None]:
        yield 1
        assert came.wait(5), "the first result waits for the second item"
        yield 2

    results = []
    for result in map_in_threads(str, items(), 2):
        results.append(result)
        came.set()
    assert results == ["1", "2"]


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

    results = map_in_threads(lambda number: time.sleep(0.01) or number, items(), 2)
    next(results)
    results.close()
    assert ended.wait(5)
    assert len(taken) < 10
