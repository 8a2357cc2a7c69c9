"""Networks for tests: the head is a constant, whatever the image."""

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
) -> Path:
    """head [X, Y] becomes each output [1, X, Y]; the image's mean is added, times 0."""
    scale = numpy_helper.from_array(np.zeros((), helper.tensor_dtype_to_np_dtype(element)), "zero")
    constant = head[None].astype(helper.tensor_dtype_to_np_dtype(element))
    nodes = [
        helper.make_node("ReduceMean", ["images"], ["mean"], keepdims=0),
        helper.make_node("Mul", ["mean", "zero"], ["nothing"]),
    ]
    outputs = []
    for number in range(heads):
        nodes.append(helper.make_node("Add", ["head", "nothing"], [f"head{number}"]))
        shape = list(constant.shape)
        outputs.append(helper.make_tensor_value_info(f"head{number}", element, shape))
    graph = helper.make_graph(
        nodes,
        "constant",
        [helper.make_tensor_value_info("images", element, image or [1, 3, 64, 96])],
        outputs,
        [scale, numpy_helper.from_array(constant, "head")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, path)
    return path
