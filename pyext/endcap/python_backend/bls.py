"""Calls of other models through the server (Triton's "business logic scripting")."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import triton_python_backend_utils as pb_utils

from endcap.python_backend.failures import ModelCallError, code_name_of_message
from endcap.python_backend.model_calls import ModelCall, Tensor
from endcap.python_backend.requests import ids_for_calls

# As many calls as the server's side of one instance works on: its thread-pool-size by default.
MOST_CALLS = 32

Result = TypeVar("Result")


def call_model(call: ModelCall) -> dict[str, Tensor]:
    """Call a model and return its outputs by name.

    Raises:
        ModelCallError: the model failed, is not ready, or is not there.
    """
    return _read(call, _request(call).exec())


async def call_model_async(call: ModelCall) -> dict[str, Tensor]:
    """Call a model as `call_model` does, beside other calls of the running loop.

    Not in decoupled models, for which the server does not support it.
    """
    return _read(call, await _request(call).async_exec())


class CallLoop:
    """An event loop for the calls of one model instance; each call in flight takes a thread."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(MOST_CALLS, thread_name_prefix="bls")
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(self._threads)

    def start(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Return a task that `finish` runs."""
        return self._loop.create_task(work)

    def finish(self, tasks: Sequence[asyncio.Task[Any]]) -> None:
        """Run all tasks to their end; a task keeps its result or error."""
        self._loop.run_until_complete(asyncio.wait(tasks))

    def close(self) -> None:
        """End the threads."""
        self._loop.close()
        self._threads.shutdown()


def _request(call: ModelCall) -> Any:
    origin = call.origin
    more: dict[str, Any] = {}
    if origin is not None:
        more.update(ids_for_calls(origin))
        more["timeout"] = origin.timeout()
        more["trace"] = origin.trace()
    if call.on_cpu:
        more["preferred_memory"] = pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_CPU, 0)
    return pb_utils.InferenceRequest(
        model_name=call.model,
        inputs=[_to_tensor(name, values) for name, values in call.inputs.items()],
        requested_output_names=list(call.outputs),
        **more,
    )


def _to_tensor(name: str, values: Any) -> Any:
    return values if isinstance(values, pb_utils.Tensor) else pb_utils.Tensor(name, values)


def _read(call: ModelCall, response: Any) -> dict[str, Tensor]:
    if response.has_error():
        error = response.error()
        text = error.message()
        raise ModelCallError(call.model, text, _code(text, error.code()))
    return {tensor.name(): tensor for tensor in response.output_tensors()}


def _code(text: str, code: Any) -> Any:
    """Return the called model's code, by its text where the server has replaced it by INTERNAL."""
    name = code_name_of_message(text)
    if code != pb_utils.TritonError.INTERNAL or name is None:
        return code
    return getattr(pb_utils.TritonError, name)
