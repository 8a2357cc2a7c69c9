"""Inputs and outputs of a model as config.pbtxt declares them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from endcap.repository.input_normalization import Normalization
from endcap.repository.validation.model import Model, enum_name
from endcap.triton.model_config import Block
from endcap.triton.tensor_spec import TensorSpec, free_dims

SIDES = ("input", "output")


@dataclass(frozen=True)
class Port:
    """One input or output, without the batch dimension where the model has one.

    Attributes:
        block: Where it is declared in config.pbtxt; None where the backend completes it.
        in_doubt: It has a finding of its own, so that nothing is concluded from it.
        determined_by: The parameters on which it depends, "" where none are known.
    """

    tensor: TensorSpec
    block: Block | None = None
    optional: bool = False
    in_doubt: bool = False
    determined_by: str = ""


@dataclass(frozen=True)
class Interface:
    """All inputs and outputs by name, None where unknown, and the largest batch.

    Attributes:
        max_batch_size: 0 where the model has no batch dimension, None where it is not known.
        contradictory: What is declared is not what the model's parameters determine.
        normalization: By which the model's network begins; None where there is none.
        models: The models that it calls, each after the parameter that names it.
    """

    inputs: Mapping[str, Port] | None
    outputs: Mapping[str, Port] | None
    max_batch_size: int | None
    contradictory: bool = False
    normalization: Normalization | None = None
    models: Sequence[tuple[str, str]] = ()


def declared_ports(model: Model, side: str) -> dict[str, Port]:
    """Return the inputs or outputs that config.pbtxt lists."""
    ports = {}
    for index, entry in enumerate(getattr(model.config, side)):
        block = model.lines.nth(side, index)
        optional = side == "input" and entry.optional
        spec = TensorSpec(entry.name, data_type_of(entry), free_dims(entry.dims))
        impossible = any(dim == 0 or dim < -1 for dim in entry.dims)
        ports[entry.name] = Port(spec, block, optional, in_doubt=impossible)
    return ports


def declared_interface(model: Model, *, in_doubt: bool = False) -> Interface:
    """Return the interface as config.pbtxt has it; a side that lists nothing is not known."""
    inputs, outputs = (
        {
            name: replace(port, in_doubt=in_doubt or port.in_doubt)
            for name, port in declared_ports(model, side).items()
        }
        for side in SIDES
    )
    return Interface(inputs or None, outputs or None, model.max_batch_size)


def data_type_of(entry: Any) -> str:
    """Return the type of a declared tensor without TYPE_, "" where none is given."""
    return "" if entry.data_type == 0 else enum_name(entry, "data_type").removeprefix("TYPE_")


def form(tensor: TensorSpec) -> str:
    """Return type and shape, such as `FP32 [3, 640, 640]`."""
    return str(tensor).removeprefix(f"{tensor.name} ")
