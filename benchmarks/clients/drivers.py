"""Keeps so many requests on their way: with threads, or with tasks of asyncio."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, field

from benchmarks.closed_loop import (
    MOST_WINDOWS,
    LoadError,
    Point,
    Span,
    clocks,
    figures,
    has_begun,
)
from benchmarks.pipelines.answers import Answer

Ask = Callable[[], Answer]
AskLater = Callable[[], Awaitable[Answer]]


@dataclass
class Window:
    """How long to measure which server, what every answer must hold, and what was seen.

    Attributes:
        pid: The server's.
        detections: How many each answer has.
    """

    pid: int
    detections: int
    concurrency: int
    warm_up_s: float
    seconds: float
    requests: list[Span] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)

    def took(self, begin: float, answer: Answer) -> None:
        """Note a request. Raises LoadError for another answer."""
        if len(answer) != self.detections:
            raise LoadError(f"{len(answer)} detections under load, not {self.detections}")
        self.requests.append((begin, time.perf_counter()))


def with_threads(opened: AbstractContextManager[Ask], window: Window) -> Point:
    """Threads ask. Raises what asking raised, and LoadError."""
    stop = threading.Event()

    def work(ask: Ask) -> None:
        try:
            while not stop.is_set():
                begin = time.perf_counter()
                window.took(begin, ask())
        except BaseException as error:
            window.failures.append(error)
            stop.set()

    with opened as ask:
        threads = [threading.Thread(target=work, args=(ask,)) for _ in range(window.concurrency)]
        for thread in threads:
            thread.start()
        stop.wait(window.warm_up_s)
        before = clocks(window.pid)
        for _ in range(MOST_WINDOWS):
            if stop.wait(window.seconds) or has_begun(window.requests, before[0]):
                break
        after = clocks(window.pid)
        stop.set()
        for thread in threads:
            thread.join()
    for failure in window.failures:
        raise failure
    return figures(window.concurrency, window.requests, before, after)


async def with_tasks(opened: AbstractAsyncContextManager[AskLater], window: Window) -> Point:
    """Tasks ask. Raises as with_threads."""
    stop = asyncio.Event()

    async def work(ask: AskLater) -> None:
        try:
            while not stop.is_set():
                begin = time.perf_counter()
                window.took(begin, await ask())
        except BaseException as error:
            window.failures.append(error)
            stop.set()

    async with opened as ask:
        tasks = [asyncio.create_task(work(ask)) for _ in range(window.concurrency)]
        await _wait(stop, window.warm_up_s)
        before = clocks(window.pid)
        for _ in range(MOST_WINDOWS):
            if await _wait(stop, window.seconds) or has_begun(window.requests, before[0]):
                break
        after = clocks(window.pid)
        stop.set()
        await asyncio.gather(*tasks)
    for failure in window.failures:
        raise failure
    return figures(window.concurrency, window.requests, before, after)


async def _wait(stop: asyncio.Event, seconds: float) -> bool:
    """As threading.Event.wait."""
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except asyncio.TimeoutError:
        return False
    return True
