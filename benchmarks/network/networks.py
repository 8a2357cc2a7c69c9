"""Networks of three kinds with random weights, as ONNX files.

Their arithmetic is that of the families they are named after; their outputs mean nothing.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.paths import ROOT

IMAGE_SIZE = 224
OPSET = 17
DETECTOR = ROOT / "model_repository" / "detector" / "1" / "model.onnx"


def write_all(folder: Path) -> dict[str, Path]:
    """Write the networks; return the file of each, the sample detector's among them."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {"sample detector": DETECTOR}
    for name, build in (
        ("residual", _residual),
        ("depthwise", _depthwise),
        ("transformer", _transformer),
    ):
        files[name] = folder / f"{name}.onnx"
        onnx.save(build(), files[name])
    return files


class _Builder:
    """A network that grows by one operator at a time; methods return the name of an output."""

    def __init__(self) -> None:
        self._nodes: list[Any] = []
        self._weights: list[Any] = []
        self._random = np.random.default_rng(0)

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        output = f"t{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, list(inputs), [output], **attributes))
        return output

    def constant(self, values: Any) -> str:
        name = f"w{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def weights(self, *shape: int) -> str:
        scale = (2.0 / max(math.prod(shape[1:]), 1)) ** 0.5
        return self.constant(self._random.normal(0, scale, shape).astype(np.float32))

    def convolution(
        self, data: str, channels: tuple[int, int], size: int, *, stride: int = 1, groups: int = 1
    ) -> str:
        fan_in, fan_out = channels
        weights = self.weights(fan_out, fan_in // groups, size, size)
        return self.add(
            "Conv",
            data,
            weights,
            kernel_shape=[size, size],
            strides=[stride, stride],
            pads=[size // 2] * 4,
            group=groups,
        )

    def linear(self, data: str, fan_in: int, fan_out: int) -> str:
        product = self.add("MatMul", data, self.weights(fan_in, fan_out))
        return self.add("Add", product, self.constant(np.zeros(fan_out, np.float32)))

    def network(self, output: str, output_dims: list[Any]) -> Any:
        """Return the finished network, which renames `output`."""
        self._nodes.append(helper.make_node("Identity", [output], ["output"]))
        images: list[str | int | None] = ["batch", 3, IMAGE_SIZE, IMAGE_SIZE]
        graph = helper.make_graph(
            self._nodes,
            "network",
            [helper.make_tensor_value_info("images", TensorProto.FLOAT, images)],
            [helper.make_tensor_value_info("output", TensorProto.FLOAT, ["batch", *output_dims])],
            self._weights,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        model.ir_version = 8
        onnx.checker.check_model(model)
        return model


def _classify(build: _Builder, data: str, channels: int) -> Any:
    pooled = build.add("Flatten", build.add("GlobalAveragePool", data))
    return build.network(build.linear(pooled, channels, 1000), [1000])


def _residual() -> Any:
    """Make basic blocks of 3x3 convolutions, as in ResNet-18 (1.8 GFLOP multiplications)."""
    build = _Builder()
    data = build.add("Relu", build.convolution("images", (3, 64), 7, stride=2))
    data = build.add("MaxPool", data, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    channels = 64
    for width in (64, 64, 128, 128, 256, 256, 512, 512):
        stride = 1 if width == channels else 2
        inner = build.add("Relu", build.convolution(data, (channels, width), 3, stride=stride))
        inner = build.convolution(inner, (width, width), 3)
        if stride == 2:
            data = build.convolution(data, (channels, width), 1, stride=2)
        data, channels = build.add("Relu", build.add("Add", inner, data)), width
    return _classify(build, data, channels)


def _depthwise() -> Any:
    """Pairs of depthwise and 1x1 convolutions, as in MobileNet (0.57 GFLOP multiplications)."""
    build = _Builder()
    data = build.add("Relu", build.convolution("images", (3, 32), 3, stride=2))
    channels = 32
    strides = {128: 2, 256: 2, 512: 2, 1024: 2}
    for width in (64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024):
        stride = strides.pop(width, 1)
        shape = (channels, channels)
        data = build.convolution(data, shape, 3, stride=stride, groups=channels)
        data = build.add("Relu", data)
        data = build.add("Relu", build.convolution(data, (channels, width), 1))
        channels = width
    return _classify(build, data, channels)


def _transformer() -> Any:
    """Twelve blocks of attention over 196 patches, as in ViT-Tiny (1.1 GFLOP multiplications)."""
    build = _Builder()
    width, heads, tokens = 192, 3, (IMAGE_SIZE // 16) ** 2
    patches = build.add(
        "Conv", "images", build.weights(width, 3, 16, 16), kernel_shape=[16, 16], strides=[16, 16]
    )
    shape = build.constant(np.array([0, width, tokens], np.int64))
    data = build.add("Transpose", build.add("Reshape", patches, shape), perm=[0, 2, 1])
    for _ in range(12):
        data = build.add("Add", data, _attention(build, _normal(build, data, width), width, heads))
        inner = build.linear(_normal(build, data, width), width, 4 * width)
        gate = build.add("Erf", build.add("Mul", inner, build.constant(np.float32(0.5**0.5))))
        gate = build.add("Add", gate, build.constant(np.float32(1)))
        data = build.add("Add", data, build.linear(build.add("Mul", inner, gate), 4 * width, width))
    mean = build.add("ReduceMean", data, axes=[1], keepdims=0)
    return build.network(build.linear(mean, width, 1000), [1000])


def _normal(build: _Builder, data: str, width: int) -> str:
    ones, zeros = np.ones(width, np.float32), np.zeros(width, np.float32)
    return build.add("LayerNormalization", data, build.constant(ones), build.constant(zeros))


def _attention(build: _Builder, data: str, width: int, heads: int) -> str:
    split = build.constant(np.array([0, 0, heads, width // heads], np.int64))

    def project(order: list[int]) -> str:
        projected = build.add("Reshape", build.linear(data, width, width), split)
        return build.add("Transpose", projected, perm=order)

    queries, keys, values = project([0, 2, 1, 3]), project([0, 2, 3, 1]), project([0, 2, 1, 3])
    scale = build.constant(np.float32((width // heads) ** -0.5))
    scores = build.add("Mul", build.add("MatMul", queries, keys), scale)
    mixed = build.add("MatMul", build.add("Softmax", scores, axis=-1), values)
    merged = build.add("Transpose", mixed, perm=[0, 2, 1, 3])
    joined = build.add("Reshape", merged, build.constant(np.array([0, 0, width], np.int64)))
    return build.linear(joined, width, width)
