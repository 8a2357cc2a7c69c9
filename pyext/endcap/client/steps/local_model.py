"""Whether a step's model is one of endcap's, and what its parameters make of it here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from endcap.client.errors import RequestError
from endcap.client.steps.model_config import ModelConfig, TensorConfig
from endcap.client.steps.served_steps import Step
from endcap.errors import InvalidArgumentError, Status, UnsupportedError
from endcap.triton.parameters import OPTIONAL
from endcap.triton.stage_settings import StageSettings, postprocess_settings, preprocess_settings
from endcap.triton.tensor_completion import complete_tensors

_PYTHON = "python"
_PREPROCESSED = {"images", "geometry", "status"}


def is_preprocess(step: Step) -> bool:
    """Whether it is endcap's backend, or a Python model with the tensors of `preprocess_python`."""
    model = step.model
    if model.backend != _PYTHON:
        return model.backend == "endcap_preprocess"
    return (
        set(model.inputs) <= {"encoded", "rois"}
        and {"images", "status"} <= set(model.outputs) <= _PREPROCESSED
    )


def is_postprocess(step: Step) -> bool:
    """Whether it is endcap's backend, or a Python model with a parameter for the head's family."""
    if step.model.backend != _PYTHON:
        return step.model.backend == "endcap_postprocess"
    return "head" in step.model.parameters


def read_preprocess(step: Step) -> StageSettings:
    """Returns what a preprocess step does.

    Raises UnsupportedError where it cannot be done here, or works on regions.
    """
    if "rois" in step.model.inputs:
        raise UnsupportedError(
            f"model '{step.model.name}' takes regions of an image (rois), which another step finds "
            "in the server; let the server do it: preprocess='server'"
        )
    return _read(step, "preprocess")


def read_postprocess(step: Step) -> StageSettings:
    """Returns what a postprocess step does, without the labels, whose file is the server's.

    Raises UnsupportedError where it cannot be done here.
    """
    return _read(step, "postprocess")


def first_failure(items: Sequence[tuple[Any, ...]]) -> RequestError | None:
    """Returns the first failure among the core's items, each of status, message and more."""
    for index, (code, message, *_) in enumerate(items):
        if code != 0:
            place = f"image index {index} of {len(items)}: " if len(items) > 1 else ""
            return RequestError(Status(code).label, place + message)
    return None


def _read(step: Step, stage: str) -> StageSettings:
    model = step.model
    config = _as_json(model)
    try:
        settings = (
            preprocess_settings(config)
            if stage == "preprocess"
            else postprocess_settings(config, None)
        )
        complete_tensors(config, settings.contracts, complete=False)
    except (InvalidArgumentError, UnsupportedError) as error:
        raise UnsupportedError(
            f"what model '{model.name}' does cannot be done in this client ({error}); install the "
            f"server's version of endcap here, or let the server do it: {stage}='server'"
        ) from error
    return settings


def _as_json(model: ModelConfig) -> dict[str, Any]:
    return {
        "max_batch_size": model.max_batch_size,
        "parameters": {
            name: {"string_value": text}
            for name, text in model.parameters.items()
            if name != OPTIONAL  # a word to `endcap serve`
        },
        "input": [_tensor(tensor) for tensor in model.inputs.values()],
        "output": [_tensor(tensor) for tensor in model.outputs.values()],
    }


def _tensor(tensor: TensorConfig) -> dict[str, Any]:
    kind = "STRING" if tensor.datatype == "BYTES" else tensor.datatype
    return {"name": tensor.name, "data_type": f"TYPE_{kind}", "dims": list(tensor.dims)}
