"""One response for each request, whatever becomes of it and of its neighbours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import triton_python_backend_utils as pb_utils

from endcap.python_backend.failures import CANCELLED_TEXT, ModelCallError, code_name, describe
from endcap.python_backend.log import ModelLog

Job = TypeVar("Job")


def failed(request: Any, error: BaseException, *, log: ModelLog) -> Any:
    """Return the response that says what went wrong, and write it into the log.

    The text begins with the failure class, ``corrupt_image: ...``; the code is the class's, or that
    of the inner model for a ModelCallError.
    """
    text = describe(error)
    log.failed(request, text)
    if isinstance(error, ModelCallError):
        return pb_utils.InferenceResponse([], pb_utils.TritonError(text, error.code))
    code = getattr(pb_utils.TritonError, code_name(error))
    return pb_utils.InferenceResponse([], pb_utils.TritonError(text, code))


def cancelled(request: Any, *, log: ModelLog) -> Any:
    """Return the response for a client that has gone, and write it into the log."""
    log.cancelled(request)
    error = pb_utils.TritonError(CANCELLED_TEXT, pb_utils.TritonError.CANCELLED)
    return pb_utils.InferenceResponse([], error)


def answer_each(
    requests: Sequence[Any],
    *,
    prepare: Callable[[Any], Job],
    run: Callable[[list[Job]], None],
    finish: Callable[[Job], list[Any]],
    log: ModelLog,
) -> list[Any]:
    """Return a response for each request, in their order, out of one run for all of them.

    Args:
        requests: as the server hands them to ``execute``.
        prepare: reads one request. What it raises fails that request alone.
        run: works on all that were prepared. What it raises fails all of these.
        finish: returns the output tensors of one request. What it raises fails that request alone.
        log: where failures are written.

    Requests that were cancelled before the run are answered so, without any work. They are not
    asked again behind it: to ask is a round trip to the server for each request.
    """
    answers: list[Any] = [None] * len(requests)
    jobs: dict[int, Job] = {}
    for index, request in enumerate(requests):
        if request.is_cancelled():
            answers[index] = cancelled(request, log=log)
            continue
        try:
            jobs[index] = prepare(request)
        except Exception as error:
            answers[index] = failed(request, error, log=log)
    try:
        if jobs:
            run(list(jobs.values()))
    except Exception as error:
        for index in jobs:
            answers[index] = failed(requests[index], error, log=log)
        return answers
    for index, job in jobs.items():
        try:
            answers[index] = pb_utils.InferenceResponse(finish(job))
        except Exception as error:
            answers[index] = failed(requests[index], error, log=log)
    return answers
