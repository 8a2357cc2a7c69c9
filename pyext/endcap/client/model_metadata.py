"""What a server says of a model's tensors. It is data of somebody else: looked at before use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from endcap.client.calls import DATATYPES, TensorSpec
from endcap.client.errors import RequestError


@dataclass(frozen=True)
class ModelMetadata:
    """The tensors of a model, by name."""

    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]


def read_metadata(
    model: str,
    inputs: Iterable[tuple[Any, Any, Iterable[Any]]],
    outputs: Iterable[tuple[Any, Any, Iterable[Any]]],
) -> ModelMetadata:
    """Returns the metadata of a model whose tensors are given as name, datatype, shape.

    Raises RequestError when the server says something that no tensor can have.
    """
    return ModelMetadata(_read_specs(model, inputs), _read_specs(model, outputs))


def _read_specs(
    model: str, tensors: Iterable[tuple[Any, Any, Iterable[Any]]]
) -> dict[str, TensorSpec]:
    specs: dict[str, TensorSpec] = {}
    for name, datatype, sides in tensors:
        shape = tuple(sides)
        plausible = (
            isinstance(name, str)
            and name not in specs
            and datatype in DATATYPES
            and all(type(side) is int and side >= -1 for side in shape)
        )
        if not plausible:
            raise RequestError(
                "internal",
                f"the server says that model '{model}' has a tensor {name!r} of type {datatype!r} "
                f"and shape {list(shape)}, which cannot be",
            )
        specs[name] = TensorSpec(datatype, shape)
    return specs
