"""A network that costs nothing: it answers the head that the sample detector gave for one image.

It takes the tensor and gives the head in the detector's place and under its names, so that every
pipeline runs as it is, and what is left of its time is the pipeline's own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from benchmarks.preprocess import SIZE
from endcap import preprocess


def write(detector: Path, image: Path, network: Path) -> None:
    """Run the ONNX file `detector` on an image once, and write one that answers the same."""
    tensor = preprocess(image.read_bytes(), preset="ultralytics", size=SIZE).images
    session = onnxruntime.InferenceSession(detector, providers=["CPUExecutionProvider"])
    (head,) = session.run(None, {"images": tensor})
    onnx.save(model(np.asarray(head)), network)


def model(head: NDArray[np.float32]) -> Any:
    """ONNX: `images` [N, 3, SIZE, SIZE] to `head` [N, ...], the one given, whatever the images are.

    Args:
        head: Float32 [1, rows, anchors]. One pixel of each image times zero gives it the batch's
            size.
    """
    constants: dict[str, NDArray[Any]] = {
        "recorded": head,
        "first": np.zeros(3, np.int64),
        "end": np.ones(3, np.int64),
        "axes": np.array([1, 2, 3], np.int64),
        "last_axis": np.array([3], np.int64),
        "nothing": np.zeros((), np.float32),
    }
    nodes = [
        helper.make_node("Slice", ["images", "first", "end", "axes"], ["pixel"]),
        helper.make_node("Squeeze", ["pixel", "last_axis"], ["column"]),
        helper.make_node("Mul", ["column", "nothing"], ["zero"]),
        helper.make_node("Add", ["recorded", "zero"], ["head"]),
    ]
    images = _tensor("images", 3, SIZE, SIZE)
    heads = _tensor("head", *head.shape[1:])
    initializers = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "recorded_head", [images], [heads], initializers)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(made)
    return made


def _tensor(name: str, *shape: int) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", *shape])
