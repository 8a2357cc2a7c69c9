"""The metadata of a served model, checked before use: a server is not trusted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from endcap.client.calls import DATATYPES, TensorSpec
from endcap.client.errors import ClientError, RequestError
from endcap.errors import InvalidArgumentError
from endcap.results import INPUT, Task, task_of, why_no_task
from endcap.triton.labels import parse_labels


@dataclass(frozen=True)
class ModelMetadata:
    """The tensors of a model, by name."""

    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]


def read_metadata(model: str, document: Mapping[str, Any]) -> ModelMetadata:
    """Return the metadata of a model from Triton's, as JSON objects.

    Raises:
        RequestError: A name, data type or shape is impossible.
    """
    return ModelMetadata(
        _read_specs(model, document.get("inputs", [])),
        _read_specs(model, document.get("outputs", [])),
    )


def _read_specs(model: str, tensors: Iterable[Mapping[str, Any]]) -> dict[str, TensorSpec]:
    specs: dict[str, TensorSpec] = {}
    for tensor in tensors:
        name, datatype = str(tensor.get("name", "")), tensor.get("datatype", "")
        shape = tuple(tensor.get("shape", ()))
        if name in specs or datatype not in DATATYPES or any(side < -1 for side in shape):
            raise RequestError(
                "internal",
                f"the server declares a tensor {name!r} of model '{model}' of type {datatype!r} "
                f"and shape {list(shape)}, which is impossible",
            )
        specs[name] = TensorSpec(datatype, shape)
    return specs


def image_input(inputs: Mapping[str, TensorSpec]) -> str | None:
    """Return the name of the input that takes encoded images, None where a model has none.

    It is the only one, whatever its name: BYTES with one element for an image, or UINT8 with the
    bytes of one.
    """
    if len(inputs) != 1:
        return None
    ((name, spec),) = inputs.items()
    sides = spec.shape[1:] if len(spec.shape) > 1 else spec.shape
    fits = sides == (-1,) or (sides == (1,) and spec.datatype == "BYTES")
    return name if fits and spec.datatype in ("BYTES", "UINT8") else None


def why_no_images(metadata: ModelMetadata, *, decoupled: bool = False) -> str | None:
    """Return why a client cannot send images to a model; None where it can."""
    if image_input(metadata.inputs) is None:
        given = (
            f"{name} {spec.datatype} [{','.join(map(str, spec.shape))}]"
            for name, spec in metadata.inputs.items()
        )
        return f"its inputs are {', '.join(given)}, and one of encoded images is expected"
    if task_of(metadata.outputs, decoupled=decoupled) is None:
        return why_no_task(metadata.outputs)
    return None


@dataclass(frozen=True)
class ServedModel:
    """A model that takes images and returns detections, classes or tensors.

    Attributes:
        input: That of encoded images.
        outputs: By name.
        batch_limit: The most images in a request.
        decoupled: Whether it may send several responses to a request, or none.
        labels_text, upright: Of its configuration's parameters `labels` and `exif`; boxes are of
            the image as stored where the latter is `ignore`.
        input_name: The name of `input`.
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
    input_name: str = INPUT
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
