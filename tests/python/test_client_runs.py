"""How images are taken and results handed out at the same time, and how tasks and time end."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from endcap.client.batches import Batch, make_batches
from endcap.client.cancellation import cancel_all
from endcap.client.deadline import Deadline
from endcap.client.detect_run import Answered, DetectRun
from endcap.client.errors import RequestError
from endcap.client.pulling import Exhausted, Pulled, Puller
from endcap.results.image_result import ImageResult
from endcap.results.task import Task


def answer(batch: Batch) -> Answered:
    future: Answered = Future()
    future.set_result([ImageResult(name, "ok") for name in batch.names])
    return future


def statuses(results: list[ImageResult]) -> list[str]:
    return [each.status for each in results]


# --- taking ---------------------------------------------------------------------------------------


def test_items_are_taken_when_they_are_asked_for() -> None:
    taken: queue.SimpleQueue[Any] = queue.SimpleQueue()
    puller = Puller(iter("abc"), taken.put)
    puller.ask(2)
    assert [taken.get(timeout=5) for _ in range(2)] == [Pulled("a"), Pulled("b")]
    with pytest.raises(queue.Empty):
        taken.get(timeout=0.05)
    puller.ask(2)
    assert [taken.get(timeout=5) for _ in range(2)] == [Pulled("c"), Exhausted()]


def test_a_generator_that_is_given_up_ends() -> None:
    ended = threading.Event()

    def items() -> Iterator[int]:
        try:
            yield from range(10)
        finally:
            ended.set()

    taken: queue.SimpleQueue[Any] = queue.SimpleQueue()
    puller = Puller(items(), taken.put)
    puller.ask()
    taken.get(timeout=5)
    puller.stop()
    assert ended.is_set()


# --- detect ---------------------------------------------------------------------------------------


def test_results_come_while_the_source_waits() -> None:
    came = threading.Event()

    def images() -> Iterator[bytes]:
        yield b"1"
        assert came.wait(5), "the first result waits for the second image"
        yield b"2"

    run = DetectRun(answer, Task.detection, lambda _: came.set())
    results = run.results(make_batches(images(), 1), most=2, counted=False)
    assert statuses(results) == ["ok", "ok"]


def test_an_error_of_the_source_is_raised_here() -> None:
    def images() -> Iterator[bytes]:
        yield b"1"
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        DetectRun(answer, Task.detection, None).results(
            make_batches(images(), 1), most=1, counted=False
        )


@pytest.mark.parametrize("counted", [True, False])
def test_what_was_answered_before_the_client_was_closed_is_kept(counted: bool) -> None:
    taken: list[int] = []

    def images() -> Iterator[bytes]:
        for number in range(6):
            taken.append(number)
            yield b"x"

    def start(batch: Batch) -> Answered | None:
        return answer(batch) if batch.start < 2 else None

    told: list[ImageResult] = []
    run = DetectRun(start, Task.detection, told.append)
    results = run.results(make_batches(images(), 1), most=1, counted=counted)
    assert statuses(results) == ["ok"] * 2 + ["cancelled"] * (4 if counted else 1)
    assert sorted(map(id, told)) == sorted(map(id, results))
    assert "the client was closed" in (results[-1].error or "")
    assert len(taken) <= (6 if counted else 4)


# --- ends -----------------------------------------------------------------------------------------


def test_tasks_are_cancelled_once_and_waited_for() -> None:
    cancels: list[int] = []

    async def work() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            cancels.append(1)
            await asyncio.sleep(0.05)  # gives back what it holds
            cancels.append(2)
            raise

    async def run() -> None:
        task = asyncio.ensure_future(work())
        await asyncio.sleep(0)
        ending = asyncio.ensure_future(cancel_all([task]))
        await asyncio.sleep(0.01)
        ending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ending
        assert task.cancelled()

    asyncio.run(run())
    assert cancels == [1, 2]


def test_a_deadline_that_is_over_is_a_timeout() -> None:
    assert 0 < Deadline(60.0).left_s() <= 60.0
    with pytest.raises(RequestError, match=r"no answer within 1e-09 s") as caught:
        Deadline(1e-9).left_s()
    with pytest.raises(RequestError, match=r"no answer within 3 s"):
        Deadline(3.0, spent_s=3.5).left_s()
    assert caught.value.status_name == "timeout"
