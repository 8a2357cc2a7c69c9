"""Networks for tests: the head is a constant, and as much of the image's mean as is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

Shape = list[Any]  # a text stands for a free dimension


def write_network(
    path: Path,
    head: npt.NDArray[np.float32],
    *,
    image: Shape | None = None,
    element: int = TensorProto.FLOAT,
    heads: int = 1,
    factor: float = 0.0,
    channels: int = 1,
) -> Path:
    """head [X, Y] becomes each output [1, X, Y]; the image's mean is added, times `factor`.

    channels: that an image must have; any number will do where it is 1.
    """
    number = np.array(factor, helper.tensor_dtype_to_np_dtype(element))
    scale = numpy_helper.from_array(number, "factor")
    black = numpy_helper.from_array(np.zeros((1, channels, 1, 1), number.dtype), "black")
    constant = head[None].astype(helper.tensor_dtype_to_np_dtype(element))
    nodes = [
        helper.make_node("Add", ["images", "black"], ["same"]),
        helper.make_node("ReduceMean", ["same"], ["mean"], keepdims=0),
        helper.make_node("Mul", ["mean", "factor"], ["added"]),
    ]
    outputs = []
    for number in range(heads):
        nodes.append(helper.make_node("Add", ["head", "added"], [f"head{number}"]))
        shape = list(constant.shape)
        outputs.append(helper.make_tensor_value_info(f"head{number}", element, shape))
    graph = helper.make_graph(
        nodes,
        "constant",
        [helper.make_tensor_value_info("images", element, image or [1, 3, 64, 96])],
        outputs,
        [scale, black, numpy_helper.from_array(constant, "head")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, path)
    return path
