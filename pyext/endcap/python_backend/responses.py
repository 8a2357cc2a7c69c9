"""Responses to requests, and lines in the server's log about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import triton_python_backend_utils as pb_utils

from endcap.python_backend.failures import (
    CANCELLED_TEXT,
    ModelCallError,
    RequestCancelledError,
    code_name,
    describe,
)
from endcap.python_backend.requests import request_label

Job = TypeVar("Job")


def respond_with_error(request: Any, error: BaseException, *, log: ModelLog) -> Any:
    """Return the response with an error, and write it into the log.

    The text begins with the failure class, ``corrupt_image: ...``; the code is the class's, or that
    of the called model for a ModelCallError. A RequestCancelledError has its own response.
    """
    if isinstance(error, RequestCancelledError):
        log.write_cancellation(request)
        gone = pb_utils.TritonError(CANCELLED_TEXT, pb_utils.TritonError.CANCELLED)
        return pb_utils.InferenceResponse([], gone)
    text = describe(error)
    log.write_failure(request, text)
    if isinstance(error, ModelCallError):
        return pb_utils.InferenceResponse([], pb_utils.TritonError(text, error.code))
    code = getattr(pb_utils.TritonError, code_name(error))
    return pb_utils.InferenceResponse([], pb_utils.TritonError(text, code))


def respond_to_each(
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

    Requests that were cancelled before the run get that response, without any work. Whether one was
    cancelled since is not read again: that is a round trip to the server for each request.
    """
    responses: list[Any] = [None] * len(requests)
    jobs: dict[int, Job] = {}
    for index, request in enumerate(requests):
        try:
            if request.is_cancelled():
                raise RequestCancelledError
            jobs[index] = prepare(request)
        except Exception as error:
            responses[index] = respond_with_error(request, error, log=log)
    try:
        if jobs:
            run(list(jobs.values()))
    except Exception as error:
        for index in jobs:
            responses[index] = respond_with_error(requests[index], error, log=log)
        return responses
    for index, job in jobs.items():
        try:
            responses[index] = pb_utils.InferenceResponse(finish(job))
        except Exception as error:
            responses[index] = respond_with_error(requests[index], error, log=log)
    return responses


class ModelLog:
    """Writes log lines of one model instance.

    Args:
        args: what the server hands to ``initialize``.
    """

    def __init__(self, args: Mapping[str, str]) -> None:
        self._label = f"model '{args['model_name']}' version {args['model_version']}"

    def write_parameters(self, values: Iterable[tuple[str, str]]) -> None:
        """Write the value of every parameter."""
        text = " ".join(f"{name}={value}" for name, value in values)
        pb_utils.Logger.log_info(f"{self._label} takes {text}")

    def write_failure(self, request: Any, text: str) -> None:
        """Write why a request has failed, as a warning."""
        pb_utils.Logger.log_warn(f"{self._label}, {request_label(request)}: {text}")

    def write_cancellation(self, request: Any) -> None:
        """Write that a request's client has gone."""
        pb_utils.Logger.log_info(f"{self._label}, {request_label(request)}: {CANCELLED_TEXT}")


def to_tensors(results: Mapping[str, Any]) -> list[Any]:
    """Return a tensor for each NumPy array or CudaArray; those of a GPU stay there."""
    return [
        pb_utils.Tensor(name, array)
        if isinstance(array, np.ndarray)
        else pb_utils.Tensor.from_dlpack(name, array)
        for name, array in results.items()
    ]
