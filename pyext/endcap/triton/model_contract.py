"""Tensors that the parameters of endcap's backends determine, as csrc/contract has them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import endcap._core as _core
from endcap.errors import InvalidArgumentError
from endcap.triton.ensemble import POSTPROCESS_BACKEND, PREPROCESS_BACKEND
from endcap.triton.tensor_spec import TensorSpec, free_dims

_QUEUE_COST = "max_queue_cost"
SEMANTIC_IN_PYTHON = (
    "a Python model cannot run head semantic, whose outputs vary in size: use the backend "
    "endcap_postprocess, or endcap.Postprocessor in your own code"
)


@dataclass(frozen=True)
class TensorContract:
    """The forms that a tensor may have.

    Attributes:
        forms: One item's tensor; the first form is the default.
        optional: An input that a request may omit.
        determined_by: The parameters on which the form depends; "" where it is always the same.
    """

    forms: tuple[TensorSpec, ...]
    optional: bool = False
    determined_by: str = ""


@dataclass(frozen=True)
class ModelContract:
    """Parameters of a model and what they determine.

    Attributes:
        parameters: The value of each of the stage's parameters, as text.
        meanings: The meaning of each.
        tensors: The contracts of `input` and of `output`, by the tensors' names.
        models: Names of the models that a cascade calls, each after its parameter.
    """

    parameters: Mapping[str, str]
    meanings: Mapping[str, str]
    tensors: Mapping[str, Mapping[str, TensorContract]]
    models: Sequence[tuple[str, str]]

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The inputs that each request has, in their default form."""
        of_side = self.tensors["input"].values()
        return tuple(each.forms[0] for each in of_side if not each.optional)

    @property
    def optional_inputs(self) -> tuple[TensorSpec, ...]:
        """The other inputs."""
        of_side = self.tensors["input"].values()
        return tuple(each.forms[0] for each in of_side if each.optional)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The outputs, in their default form."""
        return tuple(each.forms[0] for each in self.tensors["output"].values())


def model_contract(
    backend: str, parameters: Mapping[str, str], *, with_rois: bool = False, in_python: bool = False
) -> ModelContract:
    """Return the contract of a model.

    Args:
        backend: endcap_preprocess, endcap_postprocess, endcap_track or endcap_bls.
        parameters: As config.pbtxt has them.
        with_rois: Whether a preprocess model has the input `rois`.
        in_python: Whether the stage runs in a Python model.

    Raises:
        InvalidArgumentError: A parameter is unknown or impossible; the message names it.
    """
    for name in (_QUEUE_COST, "tile", "merge") if in_python else ():
        if name in parameters:
            raise InvalidArgumentError(
                f"{name} is a parameter of the compiled backends alone: leave it out"
            )
    if in_python and parameters.get("head") == "semantic":
        raise InvalidArgumentError(SEMANTIC_IN_PYTHON)
    *sides, rows, models = _core.model_contract(backend, [*parameters.items()], with_rois)
    return ModelContract(
        {name: value for name, _, _, value in rows},
        {name: meaning for name, meaning, _, _ in rows},
        {
            name: _contracts(of_side)
            for name, of_side in zip(("input", "output"), sides, strict=True)
        },
        models,
    )


def preprocess_contract(parameters: Mapping[str, str]) -> ModelContract:
    """Return the contract of a preprocess model, as `model_contract`."""
    return model_contract(PREPROCESS_BACKEND, parameters)


def postprocess_contract(parameters: Mapping[str, str]) -> ModelContract:
    """Return the contract of a postprocess model, as `model_contract`."""
    return model_contract(POSTPROCESS_BACKEND, parameters)


def _contracts(rows: Sequence[_core.ContractTensor]) -> dict[str, TensorContract]:
    return {
        name: TensorContract(
            tuple(TensorSpec(name, kind.removeprefix("TYPE_"), free_dims(d)) for kind, d in forms),
            optional,
            determined_by,
        )
        for name, forms, optional, determined_by in rows
    }


@dataclass(frozen=True)
class ConfigProblem:
    """A part of a config.pbtxt that contradicts the model's contract.

    Attributes:
        list: "input", "output" or "parameters"; "" where it is a field of the model.
        index: Of the tensor in its list; -1 for one that is missing.
        field: Such as "dims", or the name of the parameter.
    """

    list: str
    index: int
    field: str
    message: str


def complete_config(
    backend: str, parameters: Mapping[str, str], config: Mapping[str, Any], *, complete: bool
) -> tuple[dict[str, Any], list[ConfigProblem]]:
    """Return a config, in JSON's terms, with its tensors completed, and what contradicts them.

    Args:
        backend: As of `model_contract`.
        parameters: The same.
        config: With `name`, `max_batch_size`, `input` and `output`.
        complete: Whether to fill in what is left out: whole lists, types, dims that are -1.

    Raises:
        InvalidArgumentError: As `model_contract`.
    """
    given = [*parameters.items()]
    text, problems = _core.complete_config(backend, given, json.dumps(config), complete)
    return json.loads(text), [ConfigProblem(*problem) for problem in problems]
