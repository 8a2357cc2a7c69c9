"""Networks for tests, in ONNX's text format: heads that are constants, and sums of pixels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

Shape = Sequence[Any]  # a text stands for a free dimension


def network(signature: str, nodes: str, **constants: npt.ArrayLike) -> onnx.ModelProto:
    """A network of opset 17: `(INPUTS) => (OUTPUTS)`, nodes such as `y = Add(x, one)`, constants.

    Every ONNX Runtime that the backend takes knows this opset.
    """
    header = '<ir_version: 8, opset_import: ["" : 17]> network'
    made = onnx.parser.parse_model(f"{header} {signature} {{ {nodes} }}")
    for name, value in constants.items():
        made.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    return made


def declare(name: str, shape: Shape, element: int = TensorProto.FLOAT) -> str:
    """An input or output in a signature."""
    dims = f"[{','.join(map(str, shape))}]" if shape else ""
    return f"{TensorProto.DataType.Name(element).lower()}{dims} {name}"


def write_network(
    path: Path,
    head: npt.NDArray[np.float32],
    *,
    image: Shape = (1, 3, 64, 96),
    element: int = TensorProto.FLOAT,
    factor: float = 0.0,
    channels: int = 1,
) -> Path:
    """head [X, Y] is the output head0 [1, X, Y]; the image's mean is added, times `factor`.

    channels: that an image must have; any number will do where it is 1.
    """
    dtype = helper.tensor_dtype_to_np_dtype(element)
    output = declare("head0", (1, *head.shape), element)
    made = network(
        f"({declare('images', image, element)}) => ({output})",
        "same = Add(images, black) mean = ReduceMean<keepdims=0>(same) added = Mul(mean, factor)"
        "head0 = Add(head, added)",
        factor=np.array(factor, dtype),
        black=np.zeros((1, channels, 1, 1), dtype),
        head=head[None].astype(dtype),
    )
    onnx.save(made, path)
    return path


def write_heads(
    path: Path, heads: Mapping[str, npt.NDArray[np.generic]], *, image: Shape = (3, 64, 96)
) -> Path:
    """Each array, of one image, becomes an output of its name, for any number of images."""
    nodes = "mean = ReduceMean<axes=[1, 2, 3], keepdims=0>(images) zero = Mul(mean, none)"
    constants: dict[str, npt.ArrayLike] = {"none": np.float32(0)}
    outputs = []
    for name, head in heads.items():
        element = helper.np_dtype_to_tensor_dtype(head.dtype)
        outputs.append(declare(name, ("N", *head.shape), element))
        constants[f"{name}_head"] = head[None].astype(np.float32)
        constants[f"{name}_rank"] = np.array([-1, *[1] * head.ndim])
        nodes += f" {name}_zero = Reshape(zero, {name}_rank)"
        nodes += f" {name}_sum = Add({name}_head, {name}_zero)"
        nodes += f" {name} = Cast<to={element}>({name}_sum)"
    signature = f"({declare('images', ('N', *image))}) => ({', '.join(outputs)})"
    onnx.save(network(signature, nodes, **constants), path)
    return path


def write_one_box(path: Path) -> None:
    """The network that the documentation's examples run: a yolov8 head of one box, class 2."""
    head = np.zeros((84, 8400), np.float32)
    head[:4, 7] = 200, 300, 200, 200  # cx, cy, width, height
    head[4 + 2, 7] = 0.875
    write_heads(path, {"output0": head}, image=(3, 640, 640))


def write_classifier(path: Path) -> Path:
    """The logits [N, 3] are the means of the image's channels."""
    nodes = "logits = ReduceMean<axes=[2, 3], keepdims=0>(images)"
    onnx.save(network("(float[N,3,64,96] images) => (float[N,3] logits)", nodes), path)
    return path


def write_echo(path: Path, *, image: Shape, element: int) -> Path:
    """The logits [1, H * W * C] are the numbers of the image, in their order."""
    count = int(np.prod(image))
    signature = f"({declare('images', (1, *image), element)}) => (float[1,{count}] logits)"
    nodes = "single = Cast<to=1>(images) logits = Reshape(single, row)"
    onnx.save(network(signature, nodes, row=np.array([1, count])), path)
    return path
