"""Evidence in a network's graph: its constants, and its score threshold."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.repository.errors import import_onnx


def find_score_threshold(graph: Any) -> float | None:
    """Return the scalar by which a graph selects rows; None where there is none, or several.

    Exports with suppression inside compare scores with it, and gather what is greater.
    """
    producers = {name: node for node in graph.node for name in node.output}
    constants = Constants(graph)
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


class Constants:
    """Values of a graph that are no tensors of images."""

    def __init__(self, graph: Any) -> None:
        self._numpy_helper: Any = import_onnx("onnx.numpy_helper")
        self._helper: Any = import_onnx("onnx.helper")
        self._tensors = {each.name: each for each in graph.initializer}
        self._nodes = {node.output[0]: node for node in graph.node if node.op_type == "Constant"}

    def array(self, name: str) -> NDArray[Any] | None:
        """Return a constant; None where there is none, or its values lie in another file."""
        tensor = self._tensors.get(name)
        if name in self._nodes and self._nodes[name].attribute:
            value = self._helper.get_attribute_value(self._nodes[name].attribute[0])
            if isinstance(value, (float, int, list)):
                return np.asarray(value)
            tensor = value if hasattr(value, "external_data") else None
        if tensor is None or tensor.external_data:
            return None
        array: NDArray[Any] = self._numpy_helper.to_array(tensor)
        return array

    def scalar(self, name: str) -> float | None:
        """Return a constant of one number, rounded to 4 digits, which float16 has."""
        array = self.array(name)
        if array is None or array.size != 1 or array.dtype.kind != "f":
            return None
        return round(float(array.ravel()[0]), 4)
