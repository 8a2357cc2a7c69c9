"""Evidence in a network's graph: its normalisation of images, and its score threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.repository.errors import import_onnx

# What may stand between the input and the normalisation, and changes no number.
_REARRANGING = {
    "Cast",
    "Gather",
    "Identity",
    "Reshape",
    "SequenceAt",
    "Slice",
    "Split",
    "SplitToSequence",
    "Squeeze",
    "Transpose",
    "Unsqueeze",
}
_MOST_STEPS = 12
_CHANNELS = 3


@dataclass(frozen=True)
class Normalization:
    """What a network does to each channel first: (x - mean) / std, and by which operators."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


def find_normalization(graph: Any, tensor: str) -> Normalization | None:
    """Return the normalisation by which a graph begins; None where it begins otherwise."""
    consumers: dict[str, list[Any]] = {}
    for node in graph.node:
        for name in node.input:
            consumers.setdefault(name, []).append(node)
    constants = _Constants(graph)
    mean: tuple[float, ...] | None = None
    for _ in range(_MOST_STEPS):
        nodes = [node for node in consumers.get(tensor, ()) if node.op_type != "Shape"]
        if not nodes:
            return None
        node = nodes[0]
        if node.op_type in ("Sub", "Div", "Mul") and len(node.input) == 2:
            if node.input[0] != tensor:
                return None
            values = constants.channels(node.input[1])
            if values is None or (mean is None) != (node.op_type == "Sub"):
                return None
            if mean is not None:
                inverse = node.op_type == "Mul"
                return Normalization(mean, tuple(1 / x for x in values) if inverse else values)
            mean = values
        elif node.op_type not in _REARRANGING:
            return None
        tensor = node.output[0]
    return None


def find_score_threshold(graph: Any) -> float | None:
    """Return the scalar by which a graph selects rows; None where there is none, or several.

    Exports with suppression inside compare scores with it, and gather what is greater.
    """
    producers = {name: node for node in graph.node for name in node.output}
    constants = _Constants(graph)
    found = set()
    for node in graph.node:
        if node.op_type != "NonZero":
            continue
        producer = producers.get(node.input[0])
        while producer is not None and producer.op_type in ("Cast", "Identity"):
            producer = producers.get(producer.input[0])
        if producer is not None and producer.op_type == "Greater":
            value = constants.scalar(producer.input[1])
            if value is not None and 0 < value < 1:
                found.add(value)
    return found.pop() if len(found) == 1 else None


class _Constants:
    """Values of a graph that are no tensors of images."""

    def __init__(self, graph: Any) -> None:
        self._numpy_helper: Any = import_onnx("onnx.numpy_helper")
        self._tensors = {each.name: each for each in graph.initializer}
        for node in graph.node:
            if node.op_type == "Constant" and node.attribute and node.attribute[0].HasField("t"):
                self._tensors[node.output[0]] = node.attribute[0].t

    def channels(self, name: str) -> tuple[float, ...] | None:
        """Return a constant of one number, not 0, for each of three channels."""
        values = self._values(name, _CHANNELS)
        if values is None or not np.isfinite(values).all() or not values.all():
            return None
        return tuple(round(float(value), 6) for value in values)

    def scalar(self, name: str) -> float | None:
        """Return a constant of one number, rounded to 4 digits, which float16 has."""
        values = self._values(name, 1)
        return None if values is None else round(float(values[0]), 4)

    def _values(self, name: str, count: int) -> NDArray[Any] | None:
        tensor = self._tensors.get(name)
        if tensor is None or int(np.prod(tensor.dims)) != count or tensor.external_data:
            return None
        values: NDArray[Any] = self._numpy_helper.to_array(tensor).ravel()
        return values if values.dtype.kind == "f" else None
