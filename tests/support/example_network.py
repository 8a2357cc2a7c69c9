"""The network that the examples of the documentation run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def write_network(path: Path) -> None:
    """A network whose head is `head` of yolov8's shape for every image: one box, class 2."""
    head = np.zeros((1, 84, 8400), np.float32)
    head[0, :4, 7] = 200, 300, 200, 200  # cx, cy, width, height
    head[0, 4 + 2, 7] = 0.875
    images = helper.make_tensor_value_info("images", TensorProto.FLOAT, ["N", 3, 640, 640])
    output = helper.make_tensor_value_info("output0", TensorProto.FLOAT, ["N", 84, 8400])
    constants = {
        "head": head,
        "zero": np.zeros((1, 1, 1), np.float32),
        "all": np.array([1, 2, 3]),
        "row": np.array([-1, 1, 1]),
    }
    nodes = [
        helper.make_node("ReduceMean", ["images", "all"], ["mean"], keepdims=0),
        helper.make_node("Reshape", ["mean", "row"], ["means"]),
        helper.make_node("Mul", ["means", "zero"], ["nothing"]),
        helper.make_node("Add", ["nothing", "head"], ["output0"]),
    ]
    initializers = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "one_box", [images], [output], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, path)
