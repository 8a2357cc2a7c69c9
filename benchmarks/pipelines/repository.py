"""Model repository of one pipeline, with the sample detector or a network that costs nothing."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from benchmarks.pipelines.pipelines import Network, Pipeline
from benchmarks.preprocess import SIZE
from benchmarks.server.repository import OPENCV_MODELS, SHIPPED, write_models
from endcap import preprocess


def record_head(detector: Path, image: Path, network: Path) -> None:
    """Run the ONNX file `detector` on an image once, and write one that returns the same head."""
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


IMAGE = SHIPPED / "detect" / "samples" / "shapes_1920x1080.jpg"
_OWN_MODELS = Path(__file__).resolve().parent / "models"
_FILE = Path("1") / "model.onnx"
_DETECTORS = ("detector", "detector_python")


class ModelMissingError(Exception):
    """A pipeline asks for a model that no folder has; the message names it."""


def write_networks(folder: Path) -> dict[Network, Path]:
    """Make what the comparisons take for a detector: ONNX files with the same tensors."""
    folder.mkdir(parents=True, exist_ok=True)
    sample, recorded = folder / "sample.onnx", folder / "recorded.onnx"
    shutil.copyfile(SHIPPED / "detector" / _FILE, sample)
    record_head(sample, IMAGE, recorded)
    return {"sample detector": sample, "recorded head": recorded}


def write(folder: Path, pipeline: Pipeline, network: Path) -> None:
    """Replace `folder` by the models that a pipeline needs, its detectors running `network`.

    Raises ModelMissingError.
    """
    write_models(folder, [_source(name) for name in pipeline.models])
    for name in set(_DETECTORS).intersection(pipeline.models):
        shutil.copyfile(network, folder / name / _FILE)


def _source(name: str) -> Path:
    for parent in (SHIPPED, OPENCV_MODELS, _OWN_MODELS):
        if (parent / name / "config.pbtxt").exists():
            return parent / name
    raise ModelMissingError(f"there is no model {name} in {SHIPPED.name}")
