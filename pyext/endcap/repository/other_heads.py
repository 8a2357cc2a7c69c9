"""Recognises classifiers, and networks with suppression inside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from endcap.repository.boxes_and_scores import box_unit
from endcap.repository.decision import Decision
from endcap.repository.head import Head
from endcap.repository.network_output import NetworkOutput
from endcap.repository.onnx_file import OnnxFile

# Names of the outputs of TensorRT's EfficientNMS and BatchedNMS plugins, and of exports like them.
_SUPPRESSED = {
    "num_detections": ("num_dets", "num_detections", "num_det", "det_nums"),
    "boxes": ("det_boxes", "detection_boxes", "nmsed_boxes", "boxes"),
    "scores": ("det_scores", "detection_scores", "nmsed_scores", "scores"),
    "classes": ("det_classes", "detection_classes", "nmsed_classes", "classes", "det_labels"),
}
# Operators that leave numbers what they are.
_REARRANGING = {"Identity", "Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose"}


def propose_suppressed(outputs: tuple[NetworkOutput, ...]) -> Iterator[Head]:
    """Yield `efficient_nms` where four outputs have the names and the shapes of the plugin's.

    TensorFlow's detectors use the same names; they count in floats, and put y before x.
    """
    by_name = {output.name.lower(): output for output in outputs}
    inputs: dict[str, NetworkOutput] = {}
    for part, names in _SUPPRESSED.items():
        found = next((by_name[name] for name in names if name in by_name), None)
        if found is None:
            return
        inputs[part] = found
    listed = ", ".join(output.name for output in inputs.values())
    if inputs["num_detections"].is_float:
        reason = f"{listed}: a count of type {inputs['num_detections'].data_type}, y before x"
        yield Head("tensorflow_detection", {}, None, reason, is_sure=True)
        return
    rows = inputs["boxes"].dims[:1]
    shapes = {
        "boxes": [(*rows, 4)],
        "scores": [rows],
        "classes": [rows],
        "num_detections": [(), (1,)],
    }
    if not rows or any(inputs[part].dims not in shapes[part] for part in shapes):
        return
    parameters = {"box_unit": box_unit(inputs["boxes"].values)}
    yield Head("efficient_nms", inputs, None, f"{listed}: suppressed inside", True, parameters)


def propose_classifier(
    network: OnnxFile, outputs: tuple[NetworkOutput, ...], told: int | None, *, is_told: bool
) -> Iterator[Head]:
    """Yield `classification` for each output that has one number for each class.

    Args:
        told: How many classes there are, where the user or the metadata says.
        is_told: Whether the user says that it is a classifier. Without either, a row of numbers may
            as well describe the image.
    """
    fitting = [each for each in outputs if _is_row(each)]
    for output in fitting:
        classes = output.dims[0]
        reason = f"{output.name} {list(output.dims)}: a number for each class"
        is_sure = told == classes or (is_told and told is None and len(fitting) == 1)
        if not is_sure:
            reason += ", or a description of the image"
        activation = _activation(network, output)
        yield Head(
            "classification",
            {"logits": output},
            classes,
            reason,
            is_sure,
            {} if activation is None else {"activation": activation},
        )


def _is_row(output: NetworkOutput) -> bool:
    classes, *ones = output.dims or (0,)
    return classes > 1 and all(one == 1 for one in ones) and output.is_float


def _activation(network: OnnxFile, output: NetworkOutput) -> Decision | None:
    """What the numbers still need; None where neither the graph nor a trial run tells."""
    operator = _last_operator(network.model.graph, output.name)
    if operator in ("Softmax", "Sigmoid"):
        return Decision("none", f"the network ends in {operator}")
    values = output.values
    if values is None:
        return None
    low, high = float(values.min()), float(values.max())
    if low < 0 or high > 1:
        return Decision(
            "softmax", f"the network ends in {operator}; a trial run gave {low:.2f} to {high:.2f}"
        )
    if abs(float(values.sum()) - 1) < 1e-3:
        return Decision("none", "a trial run's scores are not negative and add up to 1")
    return None


def _last_operator(graph: Any, tensor: str) -> str:
    """Return the last operator that changes numbers on the way to an output."""
    makers = {name: node for node in graph.node for name in node.output}
    while (node := makers.get(tensor)) is not None:
        if node.op_type not in _REARRANGING:
            return str(node.op_type)
        tensor = node.input[0]
    return "its input"
