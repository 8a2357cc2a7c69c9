"""What a pool does with a server, told step by step, so that threads and asyncio share it.

A generator yields a step, is sent its result, or has its exception thrown in.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from endcap.client.in_thread import in_thread

T = TypeVar("T")

# What a question has at the least, seconds.
_SHORTEST_S = 0.1


@dataclass(frozen=True)
class Ask:
    """A question to the server: a function of the connection."""

    of: Callable[[Any], Any]


@dataclass(frozen=True)
class Work:
    """Something that takes time, and no server."""

    do: Callable[[], Any]


@dataclass(frozen=True)
class Wait:
    """A time in which nothing is done."""

    seconds: float


def left_s(deadline: float | None) -> float | None:
    """Returns the seconds until `deadline`, not fewer than a question needs; None without one."""
    return None if deadline is None else max(deadline - time.monotonic(), _SHORTEST_S)


Steps = Generator[Ask | Work | Wait, Any, T]


def run(connection: Any, steps: Steps[T]) -> T:
    """Takes the steps one after the other, by a Connection."""
    resume: Callable[[], Any] = lambda: next(steps)  # noqa: E731
    while True:
        try:
            step = resume()
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        try:
            result = _take(connection, step)
        except BaseException as error:
            resume = _throwing(steps, error)
        else:
            resume = _sending(steps, result)


async def run_async(connection: Any, steps: Steps[T]) -> T:
    """Takes the steps one after the other, by an AsyncConnection; work is done in a thread."""
    resume: Callable[[], Any] = lambda: next(steps)  # noqa: E731
    while True:
        try:
            step = resume()
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        try:
            result = await _take_async(connection, step)
        except BaseException as error:
            resume = _throwing(steps, error)
        else:
            resume = _sending(steps, result)


def _take(connection: Any, step: Ask | Work | Wait) -> Any:
    if isinstance(step, Ask):
        return step.of(connection)
    return step.do() if isinstance(step, Work) else time.sleep(step.seconds)


async def _take_async(connection: Any, step: Ask | Work | Wait) -> Any:
    if isinstance(step, Ask):
        return await step.of(connection)
    if isinstance(step, Work):
        return await in_thread(step.do)
    return await asyncio.sleep(step.seconds)


def _throwing(steps: Steps[Any], error: BaseException) -> Callable[[], Any]:
    return lambda: steps.throw(error)


def _sending(steps: Steps[Any], result: Any) -> Callable[[], Any]:
    return lambda: steps.send(result)
