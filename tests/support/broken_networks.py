"""Files that are no networks, or networks with something missing; what the refusals are made of."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.support import family_networks as families
from tests.support.init_runs import write_shapes

HEAD = {"output0": ["batch", 7, 84]}
Maker = Callable[[Path], Path]
# What makes the network, what is said to the command, and what its message holds.
Refusals = dict[str, tuple[Maker, list[object], list[str]]]

_OPSETS = [helper.make_opsetid("", 17)]


def text(content: bytes) -> Maker:
    def make(path: Path) -> Path:
        path.write_bytes(content)
        return path

    return make


def pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


def shapes(outputs: dict[str, list[Any]], **options: Any) -> Maker:
    return lambda path: write_shapes(path, outputs, **options)


def network(made: families.Network) -> Maker:
    return made.write


def without_external_file(path: Path) -> Path:
    model = onnx.load(str(families.yolov8().write(path)))
    onnx.save(
        model, str(path), save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    (path.parent / "weights.bin").unlink()
    return path


def with_weights_elsewhere(path: Path) -> Path:
    model = onnx.load(str(families.yolov8().write(path)))
    weights = model.graph.initializer[0]
    weights.ClearField("raw_data")
    weights.data_location = TensorProto.EXTERNAL
    weights.external_data.add(key="location", value="../weights.bin")
    path.write_bytes(model.SerializeToString())
    return path


def without_input(path: Path) -> Path:
    zeros = helper.make_tensor("zeros", TensorProto.FLOAT, [1, 7, 84], [0.0] * 588)
    node = helper.make_node("Constant", [], ["output0"], value=zeros)
    head = helper.make_tensor_value_info("output0", TensorProto.FLOAT, [1, 7, 84])
    onnx.save(helper.make_model(helper.make_graph([node], "n", [], [head])), str(path))
    return path


def with_varying_rows(path: Path) -> Path:
    """Give the places of the pixels over a half: NonZero's shape depends on the image."""
    image = helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, 8, 8])
    rows = helper.make_tensor_value_info("rows", TensorProto.FLOAT, [1, "rows", 4])
    half = onnx.numpy_helper.from_array(np.array(0.5, np.float32), "half")
    first = onnx.numpy_helper.from_array(np.array([0]), "first")
    nodes = [
        helper.make_node("Greater", ["images", "half"], ["bright"]),
        helper.make_node("NonZero", ["bright"], ["places"]),
        helper.make_node("Transpose", ["places"], ["transposed"], perm=[1, 0]),
        helper.make_node("Unsqueeze", ["transposed", "first"], ["batched"]),
        helper.make_node("Cast", ["batched"], ["rows"], to=TensorProto.FLOAT),
    ]
    graph = helper.make_graph(nodes, "network", [image], [rows], [half, first])
    onnx.save(helper.make_model(graph, opset_imports=_OPSETS, ir_version=8), str(path))
    return path


def with_a_stride(path: Path) -> Path:
    """Take any size, and enlarge what was halved: an odd side does not fit its own half."""
    image = helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, "h", "w"])
    head = helper.make_tensor_value_info("output0", TensorProto.FLOAT, [1, 3, "h", "w"])
    double = onnx.numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "double")
    nodes = [
        helper.make_node("MaxPool", ["images"], ["half"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Resize", ["half", "", "double"], ["whole"], mode="nearest"),
        helper.make_node("Add", ["images", "whole"], ["output0"]),
    ]
    graph = helper.make_graph(nodes, "network", [image], [head], [double])
    onnx.save(helper.make_model(graph, opset_imports=_OPSETS, ir_version=8), str(path))
    return path


def with_labels(lines: str) -> Maker:
    def make(path: Path) -> Path:
        (path.parent / "labels.txt").write_text(lines)
        return families.yolov8().write(path)

    return make
