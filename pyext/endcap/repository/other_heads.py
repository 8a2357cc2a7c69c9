"""Recognises classifiers, networks with suppression inside, and heads of several tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from endcap.repository.head import Finding, Head
from endcap.repository.network_output import NetworkOutput
from endcap.repository.onnx_file import OnnxFile

# Names of the outputs of TensorRT's EfficientNMS and BatchedNMS plugins, and of exports like them.
_SUPPRESSED = {
    "num_detections": ("num_dets", "num_detections", "num_det", "det_nums"),
    "boxes": ("det_boxes", "detection_boxes", "nmsed_boxes", "boxes"),
    "scores": ("det_scores", "detection_scores", "nmsed_scores", "scores"),
    "classes": ("det_classes", "detection_classes", "nmsed_classes", "classes", "det_labels"),
}
_FEWEST_ANCHORS = 100
# Operators that leave numbers what they are.
_REARRANGING = {"Identity", "Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose"}


def propose_suppressed(outputs: tuple[NetworkOutput, ...]) -> Iterator[Head]:
    """Yields `efficient_nms` where four outputs have the names and the shapes of the plugin's."""
    by_name = {output.name.lower(): output for output in outputs}
    inputs: dict[str, NetworkOutput] = {}
    for part, names in _SUPPRESSED.items():
        found = next((by_name[name] for name in names if name in by_name), None)
        if found is None:
            return
        inputs[part] = found
    rows = inputs["boxes"].dims[:1]
    shapes = {
        "boxes": [(*rows, 4)],
        "scores": [rows],
        "classes": [rows],
        "num_detections": [(), (1,)],
    }
    if not rows or any(inputs[part].dims not in shapes[part] for part in shapes):
        return
    reason = f"{', '.join(output.name for output in inputs.values())}: suppressed inside"
    unit = Finding("pixel", "assumed, as the plugin's outputs do not tell")
    yield Head("efficient_nms", inputs, None, reason, is_sure=True, parameters={"box_unit": unit})


def propose_pair(outputs: tuple[NetworkOutput, ...]) -> Iterator[Head]:
    """Yields `rtdetr` or `ssd` where one output has boxes and another scores of as many rows."""
    boxes = [output for output in outputs if len(output.dims) == 2 and output.dims[1] == 4]
    if len(boxes) != 1:
        return
    (box,) = boxes
    for scores in outputs:
        if scores is box or len(scores.dims) != 2 or scores.dims[0] != box.dims[0]:
            continue
        is_detr = "pred_boxes" in box.name or box.dims[0] <= 1000
        family = "rtdetr" if is_detr else "ssd"
        reason = f"{scores.name} {list(scores.dims)} with {box.name} {list(box.dims)}"
        yield Head(family, {"logits": scores, "boxes": box}, scores.dims[1], reason, is_sure=True)


def propose_classifier(network: OnnxFile, outputs: tuple[NetworkOutput, ...]) -> Iterator[Head]:
    """Yields `classification` for each output that has one number for each class."""
    for output in outputs:
        classes, *ones = output.dims or (0,)
        if classes < 2 or any(one != 1 for one in ones):
            continue
        activation = _activation(network, output)
        reason = f"{output.name} {list(output.dims)}: a number for each class"
        yield Head(
            "classification",
            {"logits": output},
            classes,
            reason,
            is_sure=len(outputs) == 1,
            parameters={"activation": activation},
        )


def _activation(network: OnnxFile, output: NetworkOutput) -> Finding:
    operator = _last_operator(network.model.graph, output.name)
    if operator in ("Softmax", "Sigmoid"):
        return Finding("none", f"the network ends in {operator}")
    values = output.values
    if values is not None and values.min() >= 0 and abs(float(values.sum()) - 1) < 1e-3:
        return Finding("none", "a trial run's scores are not negative and add up to 1")
    if values is not None and np.isfinite(values).all():
        low, high = float(values.min()), float(values.max())
        return Finding(
            "softmax", f"the network ends in {operator}; a trial run gave {low:.2f} to {high:.2f}"
        )
    return Finding("softmax", f"the network ends in {operator}")


def _last_operator(graph: Any, tensor: str) -> str:
    """Returns the last operator that changes numbers on the way to an output."""
    makers = {name: node for node in graph.node for name in node.output}
    while (node := makers.get(tensor)) is not None:
        if node.op_type not in _REARRANGING:
            return str(node.op_type)
        tensor = node.input[0]
    return "its input"
