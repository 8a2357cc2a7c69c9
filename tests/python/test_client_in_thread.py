"""Work in a thread: however often its task is cancelled, the work ends before the task."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator

import pytest

from endcap.client.in_thread import in_thread
from endcap.client.run_steps import run_steps_async
from endcap.client.shared_memory.steps import Steps, Work, run_async

Started = Callable[[], None]


async def alone(work: Started) -> None:
    await in_thread(work)


async def as_a_step_of_a_pool(work: Started) -> None:
    def steps() -> Steps[None]:
        yield Work(work)

    await run_async(None, steps())


async def as_a_step_of_a_pipeline(work: Started) -> None:
    def steps() -> Generator[None, None, None]:
        work()
        yield

    await run_steps_async(steps(), lambda call: None, blocking=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("way", [alone, as_a_step_of_a_pool, as_a_step_of_a_pipeline])
def test_a_task_that_is_cancelled_twice_waits_for_its_thread(
    way: Callable[[Started], object],
) -> None:
    async def run() -> None:
        begun, go_on, done = threading.Event(), threading.Event(), threading.Event()

        def work() -> None:
            begun.set()
            assert go_on.wait(5)
            done.set()

        task = asyncio.ensure_future(way(work))  # type: ignore[arg-type]
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

    asyncio.run(run())


def test_results_and_errors_come_through() -> None:
    assert asyncio.run(in_thread(divmod, 7, 4)) == (1, 3)
    with pytest.raises(ZeroDivisionError):
        asyncio.run(in_thread(divmod, 7, 0))
