"""Networks that normalise their images themselves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Step = tuple[Any, ...]  # an operator, its inputs, and its attributes where it has some
X = None  # the tensor that the step before gives, among the inputs


def graph(
    *steps: Step,
    dims: Sequence[int] = (1, 3, 8, 8),
    element: int = TensorProto.FLOAT,
    last: str = "Conv",
) -> Any:
    """A chain from x on: each step takes what the one before gives, and constants."""
    nodes, arrays, tensor = [], [], "x"
    for number, (kind, *inputs) in enumerate((*steps, (last,))):
        attributes = inputs.pop() if inputs and isinstance(inputs[-1], dict) else {}
        names = []
        for place, each in enumerate(inputs or [None]):
            if each is None:
                names.append(tensor)
            else:
                names.append(f"c{number}_{place}")
                array = each if isinstance(each, np.ndarray) else np.float32(each)
                arrays.append(numpy_helper.from_array(np.asarray(array), names[-1]))
        tensor = f"t{number}"
        nodes.append(helper.make_node(kind, names, [tensor], **attributes))
    image = helper.make_tensor_value_info("x", element, dims)
    return helper.make_graph(nodes, "g", [image], [], arrays)


def behind(path: Path, *steps: Step) -> Path:
    """Let the network in a file do these steps first."""
    model = onnx.load(str(path))
    image = model.graph.input[0].type.tensor_type
    front = graph(*steps, dims=[3] * 4, element=image.elem_type, last="Identity")
    name = model.graph.input[0].name
    names = {"x": name, front.node[-1].output[0]: "normalised"}
    for node in model.graph.node:
        node.input[:] = ["normalised" if each == name else each for each in node.input]
    for node in front.node:
        node.input[:] = [names.get(each, each) for each in node.input]
        node.output[:] = [names.get(each, each) for each in node.output]
    nodes = [*front.node, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(front.initializer)
    onnx.checker.check_model(model)
    onnx.save(model, str(path))
    return path
