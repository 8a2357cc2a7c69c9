"""Networks for tests: heads that are constants, and the sum of a tensor's numbers."""

from __future__ import annotations

from collections.abc import Mapping
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


def write_heads(
    path: Path, heads: Mapping[str, npt.NDArray[np.generic]], *, image: Shape | None = None
) -> Path:
    """Each array, of one image, becomes an output of its name, for any number of images."""
    weights = {"none": np.zeros((), np.float32)}
    nodes = [
        helper.make_node("ReduceMean", ["images"], ["mean"], axes=[1, 2, 3], keepdims=0),
        helper.make_node("Mul", ["mean", "none"], ["zero"]),
    ]
    outputs = []
    for name, head in heads.items():
        weights[f"{name}_constant"] = head[None].astype(np.float32)
        weights[f"{name}_shape"] = np.array([-1, *[1] * head.ndim])
        element = helper.np_dtype_to_tensor_dtype(head.dtype)
        nodes += [
            helper.make_node("Reshape", ["zero", f"{name}_shape"], [f"{name}_zero"]),
            helper.make_node("Add", [f"{name}_constant", f"{name}_zero"], [f"{name}_sum"]),
            helper.make_node("Cast", [f"{name}_sum"], [name], to=element),
        ]
        outputs.append(helper.make_tensor_value_info(name, element, ["N", *head.shape]))
    return _save(path, nodes, ["N", *(image or [3, 64, 96])], outputs, weights)


def write_classifier(
    path: Path, *, image: Shape | None = None, factor: float = 1.0, nhwc: bool = False
) -> Path:
    """The logits [N, C] are the means of the image's C channels, times `factor`."""
    shape = ["N", *(image or [3, 64, 96])]
    channels = shape[-1] if nhwc else shape[1]
    axes = [1, 2] if nhwc else [2, 3]
    nodes = [
        helper.make_node("ReduceMean", ["images"], ["means"], axes=axes, keepdims=0),
        helper.make_node("Mul", ["means", "factor"], ["logits"]),
    ]
    output = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", channels])
    return _save(path, nodes, shape, [output], {"factor": np.array(factor, np.float32)})


def write_echo(path: Path, *, image: Shape, element: int) -> Path:
    """The logits [1, H * W * C] are the numbers of the image, in their order."""
    count = int(np.prod(image))
    nodes = [
        helper.make_node("Cast", ["images"], ["single"], to=TensorProto.FLOAT),
        helper.make_node("Reshape", ["single", "row"], ["logits"]),
    ]
    output = helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, count])
    weights = {"row": np.array([1, count])}
    return _save(path, nodes, [1, *image], [output], weights, element=element)


def _save(
    path: Path,
    nodes: list[Any],
    image: Shape,
    outputs: list[Any],
    weights: Mapping[str, npt.NDArray[Any]],
    *,
    element: int = TensorProto.FLOAT,
) -> Path:
    graph = helper.make_graph(
        nodes,
        path.stem,
        [helper.make_tensor_value_info("images", element, image)],
        outputs,
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, path)
    return path
