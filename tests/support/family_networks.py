"""ONNX files of every head family, whose outputs are known: a table and a little of the image.

Each output is `base + change * f`, where f is a sum of the image's channel means with a weight for
each channel: enough to see that an image came in whole, in its place, in the right order of
channels and layout, and so little that the table's order stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

Floats = npt.NDArray[np.float32]

WEIGHTS = np.array([0.08, -0.05, 0.03], np.float32)
STRIDES = (8, 16, 32)
_ELEMENTS = {
    "float32": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "uint8": TensorProto.UINT8,
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
}


@dataclass(frozen=True)
class Output:
    """One output of one image: base + change * f, then softmax over the last axis where asked.

    batch: whether it has a batch dimension. declared: what the file says of that, else the truth.
    """

    base: Floats
    change: Floats | float = 0.0
    dtype: str = "float32"
    softmax: bool = False
    batch: bool = True
    declared: int | None = None

    def evaluate(self, feature: float) -> Floats:
        """What comes out for an image of that feature, in float32."""
        values = self.base + np.float32(feature) * np.asarray(self.change, np.float32)
        if self.softmax:
            powers = np.exp(values - values.max())
            values = powers / powers.sum()
        return np.asarray(values, np.float32)


@dataclass(frozen=True)
class Network:
    """size: height and width. batch: a number, or a text for any."""

    outputs: Mapping[str, Output]
    size: tuple[Any, Any] = (64, 64)
    batch: int | str = "batch"
    dtype: str = "float32"
    layout: str = "nchw"
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def input_shape(self) -> list[Any]:
        if self.layout == "nchw":
            return [self.batch, 3, *self.size]
        return [self.batch, *self.size, 3]

    def feature(self, tensor: npt.NDArray[Any]) -> float:
        """f of one image as the network gets it."""
        axes = (1, 2) if self.layout == "nchw" else (0, 1)
        return float(tensor.astype(np.float32).mean(axis=axes) @ self.weights)

    @property
    def weights(self) -> Floats:
        """A network that takes bytes normalises by itself."""
        return WEIGHTS / np.float32(255) if self.dtype == "uint8" else WEIGHTS

    def expected_outputs(self, tensor: npt.NDArray[Any]) -> dict[str, Floats]:
        """All outputs for one image."""
        feature = self.feature(tensor)
        return {name: output.evaluate(feature) for name, output in self.outputs.items()}

    def write(self, path: Path) -> Path:
        """Write the ONNX file."""
        axes = [2, 3] if self.layout == "nchw" else [1, 2]
        nodes = [
            helper.make_node("Cast", ["images"], ["numbers"], to=TensorProto.FLOAT),
            helper.make_node("ReduceMean", ["numbers"], ["means"], axes=axes, keepdims=0),
            helper.make_node("MatMul", ["means", "weights"], ["feature"]),
        ]
        constants = [
            numpy_helper.from_array(self.weights[:, None], "weights"),
            numpy_helper.from_array(np.array([0]), "first"),
        ]
        values = []
        for name, output in self.outputs.items():
            nodes += _nodes(name, output)
            base = np.asarray(output.base, np.float32)
            change = np.broadcast_to(np.asarray(output.change, np.float32), base.shape)
            constants += [
                numpy_helper.from_array(base[None], f"{name}_base"),
                numpy_helper.from_array(np.ascontiguousarray(change[None]), f"{name}_change"),
                numpy_helper.from_array(np.array([-1, *[1] * base.ndim]), f"{name}_rank"),
            ]
            element = _ELEMENTS[output.dtype]
            first = self.batch if output.declared is None else output.declared
            shape = [first, *base.shape] if output.batch else [*base.shape]
            values.append(helper.make_tensor_value_info(name, element, shape))
        image = helper.make_tensor_value_info("images", _ELEMENTS[self.dtype], self.input_shape)
        graph = helper.make_graph(nodes, "network", [image], values, constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        helper.set_model_props(model, dict(self.metadata))
        onnx.checker.check_model(model)
        onnx.save(model, str(path))
        return path


def _nodes(name: str, output: Output) -> list[Any]:
    nodes = [
        helper.make_node("Reshape", ["feature", f"{name}_rank"], [f"{name}_feature"]),
        helper.make_node("Mul", [f"{name}_feature", f"{name}_change"], [f"{name}_moved"]),
        helper.make_node("Add", [f"{name}_moved", f"{name}_base"], [f"{name}_sum"]),
    ]
    last = f"{name}_sum"
    if output.softmax:
        nodes.append(helper.make_node("Softmax", [last], [f"{name}_softmax"], axis=-1))
        last = f"{name}_softmax"
    if not output.batch:
        nodes.append(helper.make_node("Squeeze", [last, "first"], [f"{name}_one"]))
        last = f"{name}_one"
    nodes.append(helper.make_node("Cast", [last], [name], to=_ELEMENTS[output.dtype]))
    return nodes


def grid_rows(
    seed: int, *, classes: int, size: tuple[int, int] = (64, 64), anchors: int = 1
) -> tuple[Floats, Floats]:
    """Boxes cxcywh [A, 4] around the cells of all grids, and scores [A, classes], few of them high.

    Scores are a multiple of 1/500 and unlike each other among the high ones, so that f moves all of
    them alike and changes no order.
    """
    random = np.random.default_rng(seed)
    centers = [
        ((x + 0.5) * stride, (y + 0.5) * stride)
        for stride in STRIDES
        for y in range(-(-size[0] // stride))
        for x in range(-(-size[1] // stride))
        for _ in range(anchors)
    ]
    boxes = np.hstack([np.array(centers), random.uniform(6, 30, (len(centers), 2))])
    scores = random.integers(0, 40, (len(centers), classes)) / 500
    high = random.choice(len(centers), 24, replace=False)
    scores[high, random.integers(0, classes, 24)] = (200 + random.permutation(250)[:24]) / 500
    return boxes.astype(np.float32), scores.astype(np.float32)


def yolov8(seed: int = 0, *, classes: int = 3, **options: Any) -> Network:
    boxes, scores = grid_rows(seed, classes=classes)
    base = np.ascontiguousarray(np.hstack([boxes, scores]).T)
    change = np.zeros_like(base)
    change[4:] = 1
    return Network({"output0": Output(base, change)}, **options)


def yolov5(seed: int = 1, *, classes: int = 4, **options: Any) -> Network:
    boxes, scores = grid_rows(seed, classes=classes, anchors=3)
    objectness = np.full((len(boxes), 1), 0.9, np.float32)
    base = np.hstack([boxes, objectness, scores])
    change = np.zeros_like(base)
    change[:, 5:] = 1
    return Network({"output": Output(base, change)}, **options)


def yolox(seed: int = 8, *, classes: int = 4, **options: Any) -> Network:
    """YOLOX as its exporter writes it: boxes relative to the cells, scores from 0 to 1."""
    boxes, scores = grid_rows(seed, classes=classes)
    cells = np.array([stride for stride in STRIDES for _ in range((64 // stride) ** 2)])[:, None]
    centres = boxes[:, :2] / cells
    relative = np.hstack([centres - np.floor(centres), np.log(boxes[:, 2:] / cells)])
    base = np.hstack([relative, np.full((len(boxes), 1), 0.9), scores]).astype(np.float32)
    change = np.zeros_like(base)
    change[:, 5:] = 1
    return Network({"output": Output(base, change)}, **options)


def end2end(seed: int = 2, *, rows: int = 30, classes: int = 5, **options: Any) -> Network:
    random = np.random.default_rng(seed)
    corners = random.uniform(0, 40, (rows, 2))
    boxes = np.hstack([corners, corners + random.uniform(4, 24, (rows, 2))])
    scores = np.linspace(0.9, 0.05, rows)[:, None]
    class_ids = random.integers(0, classes, (rows, 1))
    base = np.hstack([boxes, scores, class_ids]).astype(np.float32)
    change = np.zeros_like(base)
    change[:, 4] = 1
    return Network({"output0": Output(base, change)}, **options)


def efficient_nms(seed: int = 3, *, kept: int = 7, ids: str = "int32", **options: Any) -> Network:
    random = np.random.default_rng(seed)
    corners = random.uniform(0, 40, (20, 2))
    boxes = np.hstack([corners, corners + random.uniform(4, 24, (20, 2))]).astype(np.float32)
    scores = np.linspace(0.95, 0.3, 20).astype(np.float32)
    class_ids = random.integers(0, 6, 20).astype(np.float32)
    outputs = {
        "num_dets": Output(np.array([kept], np.float32), dtype=ids),
        "det_boxes": Output(boxes),
        "det_scores": Output(scores, 1.0),
        "det_classes": Output(class_ids, dtype=ids),
    }
    return Network(outputs, **options)


def classifier(
    seed: int = 4, *, classes: int = 7, softmax: bool = False, **options: Any
) -> Network:
    random = np.random.default_rng(seed)
    base = (random.permutation(classes) / 2).astype(np.float32)
    change = random.uniform(-1, 1, classes).astype(np.float32)
    return Network({"logits": Output(base, change, softmax=softmax)}, **options)
