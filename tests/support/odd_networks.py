"""The families' networks changed, so that endcap init has to see a difference or refuse them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx

from tests.support.family_networks import Network, Output, yolov8
from tests.support.onnx_heads import network


def transposed(network: Network) -> Network:
    """The same network with each of its outputs the other way round."""
    outputs = {
        name: replace(output, base=output.base.T, change=np.asarray(output.change).T)
        for name, output in network.outputs.items()
    }
    return replace(network, outputs=outputs)


def declared_for_one(network: Network) -> Network:
    """The same network, whose file says that its outputs are of one image whatever comes in."""
    outputs = {name: replace(each, declared=1) for name, each in network.outputs.items()}
    return replace(network, outputs=outputs)


def for_one(network: Network) -> Network:
    """The same network, whose file says that it takes any number of images, and it takes one."""
    outputs = {name: replace(each, for_one=True) for name, each in network.outputs.items()}
    return replace(network, outputs=outputs)


def tensorflow_detector() -> Network:
    """Outputs under the names, and of the types, that TensorFlow's detectors have."""
    zeros = np.linspace(0, 1, 80, dtype=np.float32)
    return Network(
        {
            "num_detections": Output(np.array([3.0], np.float32)),
            "detection_boxes": Output(zeros.reshape(20, 4)),
            "detection_scores": Output(zeros[:20]),
            "detection_classes": Output(np.ones(20, np.float32)),
        },
        layout="nhwc",
        dtype="uint8",
    )


def write_plugin(path: Path) -> Path:
    """A file that ends in TensorRT's EfficientNMS, which ONNX Runtime cannot run."""
    outputs = "int32[n,1] num_dets, float[n,20,4] det_boxes, float[n,20] det_scores"
    made = network(
        f"(float[n,3,64,64] images) => ({outputs}, int32[n,20] det_classes)",
        "mean = ReduceMean<axes=[1, 2, 3], keepdims=0>(images) moved = Add(boxes, mean)"
        "num_dets, det_boxes, det_scores, det_classes ="
        ' EfficientNMS_TRT<background_class=-1, box_coding=1, plugin_version="1",'
        " iou_threshold=0.7, max_output_boxes=20, score_activation=0, score_threshold=0.25>"
        "(moved, scores)",
        boxes=np.zeros((1, 84, 4), np.float32),
        scores=np.zeros((1, 84, 6), np.float32),
    )
    onnx.save(made, str(path))
    return path


def with_corners(network: Network) -> Network:
    """A yolov8 head whose boxes are x1, y1, x2, y2."""
    (output,) = network.outputs.values()
    base = output.base.copy()
    base[2:4] = base[:2] + base[2:4]
    return Network({"output0": replace(output, base=base)})


def undecoded(network: Network) -> Network:
    """A head [A, ...] with offsets within cells and logarithms of sizes."""
    (output,) = network.outputs.values()
    base = output.base.copy()
    base[:, :2] %= 1
    base[:, 2:4] = np.log(base[:, 2:4] / 16)
    return replace(network, outputs={"output0": replace(output, base=base)})


def named(network: Network, classes: int) -> Network:
    """The same network with names for so many classes in its metadata."""
    names = str([f"class {number}" for number in range(classes)])
    return replace(network, metadata={"names": names, "stride": "32"})


def write_mixing(path: Path) -> Path:
    """A head from which the mean of the batch is taken, as by a network in training mode."""
    model = onnx.load(str(yolov8().write(path)))
    for node in model.graph.node:
        if node.op_type == "ReduceMean":
            node.output[0] = "own_means"
    graph = model.graph
    position = next(i for i, node in enumerate(graph.node) if node.op_type == "MatMul")
    mixing = network(
        "(float[n,3] own_means) => (float[n,3] means)",
        "all_means = ReduceMean<axes=[0]>(own_means) off = Sub(own_means, all_means)"
        "means = Mul(off, many)",
        many=np.float32(1e4),
    ).graph
    graph.initializer.extend(mixing.initializer)
    for offset, node in enumerate(mixing.node):
        graph.node.insert(position + offset, node)
    onnx.save(model, str(path))
    return path


def write_open(path: Path) -> Path:
    """A yolov8 head whose last shape is computed, so that nobody knows it from the file."""
    model = onnx.load(str(yolov8().write(path)))
    graph = model.graph
    graph.output[0].type.tensor_type.shape.dim[1].dim_param = "rows"
    graph.output[0].type.tensor_type.shape.dim[2].dim_param = "anchors"
    graph.node[-1].output[0] = "before"
    end = network(
        "(float[n] images, float[n] before) => (float[n] output0)",
        "brightness = ReduceMean<keepdims=0>(images) zero = Mul(brightness, nothing)"
        "offset = Cast<to=7>(zero) shape = Add(known, offset) output0 = Reshape(before, shape)",
        nothing=np.float32(0),
        known=np.array([0, 7, 84]),
    ).graph
    graph.initializer.extend(end.initializer)
    graph.node.extend(end.node)
    onnx.save(model, str(path))
    return path
