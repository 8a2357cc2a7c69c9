"""Calls of other models through the server (Triton's "business logic scripting").

What calls a model imports `triton_python_backend_utils`, which is the server's; `ModelCall` works
anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from endcap.python_backend.failures import ModelCallError, code_name_of_message
from endcap.python_backend.requests import ids_for_calls

# As many calls as the server's side of one instance works on: its thread-pool-size by default.
MAX_CALLS = 32


class Tensor(Protocol):
    """A tensor as the server's stub hands it over."""

    def as_numpy(self) -> npt.NDArray[Any]:
        """Return its memory as an array, without a copy; strings as objects."""
        ...


@dataclass(frozen=True, kw_only=True)
class ModelCall:
    """One request to another model.

    Args:
        model: its name; the newest version is called.
        inputs: by name. A tensor of the same name that the server gave goes on without a copy.
        outputs: the outputs wanted; all where none is named.
        origin: the request for whose sake this one is made: the inner request has its id,
            correlation id, timeout and trace, but no id that is not UTF-8. None where it is made
            for several.
        on_cpu: whether the outputs are needed in CPU memory; else they stay where the model has
            them.
    """

    model: str
    inputs: Mapping[str, Tensor | npt.NDArray[Any]]
    outputs: tuple[str, ...] = ()
    origin: Any = None
    on_cpu: bool = True


CallModel = Callable[[ModelCall], dict[str, Tensor]]


def call_model(call: ModelCall) -> dict[str, Tensor]:
    """Call a model from any thread, and return its outputs by name.

    Raises:
        ModelCallError: the model failed, is not ready, or is not there.
    """
    import triton_python_backend_utils as pb_utils

    more: dict[str, Any] = {}
    if call.origin is not None:
        more = {**ids_for_calls(call.origin), "timeout": call.origin.timeout()}
        more["trace"] = call.origin.trace()
    if call.on_cpu:
        more["preferred_memory"] = pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_CPU, 0)
    request = pb_utils.InferenceRequest(
        model_name=call.model,
        inputs=[
            pb_utils.Tensor(name, values) if isinstance(values, np.ndarray) else values
            for name, values in call.inputs.items()
        ],
        requested_output_names=list(call.outputs),
        **more,
    )
    response = request.exec()
    if response.has_error():
        error = response.error()
        text, code = error.message(), error.code()
        # The called model's own code is in its text where the server has replaced it by INTERNAL.
        name = code_name_of_message(text)
        if name is not None and code == pb_utils.TritonError.INTERNAL:
            code = getattr(pb_utils.TritonError, name)
        raise ModelCallError(call.model, text, code)
    return {tensor.name(): tensor for tensor in response.output_tensors()}
