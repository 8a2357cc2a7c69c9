"""What a network's graph shows beside its outputs: how it normalises images by itself."""

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
    readers: dict[str, list[Any]] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    constants = _Constants(graph)
    mean: tuple[float, ...] | None = None
    for _ in range(_MOST_STEPS):
        nodes = [node for node in readers.get(tensor, ()) if node.op_type != "Shape"]
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
        tensor = self._tensors.get(name)
        if tensor is None or int(np.prod(tensor.dims)) != _CHANNELS or tensor.external_data:
            return None
        values: NDArray[Any] = self._numpy_helper.to_array(tensor).ravel()
        if values.dtype.kind != "f" or not np.isfinite(values).all() or not values.all():
            return None
        return tuple(round(float(value), 6) for value in values)
