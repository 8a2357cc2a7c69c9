"""Takes a pipeline step by step, over a connection of either kind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from numpy.typing import NDArray

from endcap.client.calls import Call, Response
from endcap.client.errors import RequestError
from endcap.client.in_thread import in_thread
from endcap.client.pipeline import Steps

Arrived: TypeAlias = "list[dict[str, NDArray[Any] | None]]"


def run_steps(steps: Steps, infer: Callable[[Call], Response]) -> Arrived:
    """Returns what the steps return; `infer` makes their calls. Raises RequestError."""
    taken = _take(steps, None)
    while isinstance(taken, Call):
        try:
            answer: Response | RequestError = infer(taken)
        except RequestError as error:
            answer = error
        taken = _take(steps, answer)
    return taken


async def run_steps_async(
    steps: Steps, infer: Callable[[Call], Awaitable[Response]], *, blocking: bool
) -> Arrived:
    """Does the same with awaited calls. blocking: takes the steps between them in a thread."""
    taken = await _take_async(steps, None, blocking)
    while isinstance(taken, Call):
        try:
            answer: Response | RequestError = await infer(taken)
        except RequestError as error:
            answer = error
        taken = await _take_async(steps, answer, blocking)
    return taken


async def _take_async(
    steps: Steps, answer: Response | RequestError | None, blocking: bool
) -> Call | Arrived:
    if not blocking:
        return _take(steps, answer)
    # It may write into shared memory that is about to be given back.
    return await in_thread(_take, steps, answer)


def _take(steps: Steps, answer: Response | RequestError | None) -> Call | Arrived:
    try:
        if answer is None:
            return next(steps)
        return steps.throw(answer) if isinstance(answer, RequestError) else steps.send(answer)
    except StopIteration as end:
        arrived: Arrived = end.value
        return arrived
