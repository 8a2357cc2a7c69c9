"""The metadata of a served model, checked before use: a server is not trusted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from endcap.client.calls import DATATYPES, TensorSpec
from endcap.client.errors import ClientError, RequestError
from endcap.errors import InvalidArgumentError
from endcap.results import Task
from endcap.triton.labels import parse_labels


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
    """Return the metadata of a model whose tensors are given as name, datatype, shape.

    Raises:
        RequestError: A name, data type or shape is impossible.
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
                f"the server declares a tensor {name!r} of model '{model}' of type {datatype!r} "
                f"and shape {list(shape)}, which is impossible",
            )
        specs[name] = TensorSpec(datatype, shape)
    return specs


@dataclass(frozen=True)
class ServedModel:
    """A model that takes images and returns detections, classes or tensors.

    Attributes:
        input: Its `encoded`.
        outputs: By name.
        batch_limit: The most images in a request.
        decoupled: Whether it may send several responses to a request, or none.
        labels_text, upright: Of its configuration's parameters `labels` and `exif`; boxes are of
            the image as stored where the latter is `ignore`.
        reads_videos: Whether it takes videos, and returns the detections of each frame.
    """

    name: str
    task: Task
    input: TensorSpec
    outputs: Mapping[str, TensorSpec]
    batch_limit: int = 1
    decoupled: bool = False
    labels_text: str = ""
    upright: bool = True
    reads_videos: bool = False

    @property
    def batched(self) -> bool:
        """Whether its tensors begin with a batch dimension."""
        return len(self.input.shape) == 2

    def labels(self) -> list[str] | None:
        """Return class names by id, None where there are none; ClientError for invalid ones."""
        try:
            return parse_labels(self.labels_text) or None
        except InvalidArgumentError as error:
            raise ClientError(f"in the parameter labels of model '{self.name}', {error}") from error
