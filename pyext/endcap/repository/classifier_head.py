"""Classifiers: outputs with one number for each class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from endcap.repository.graph_edit import edited_output
from endcap.repository.head_evidence import Head, Hints
from endcap.repository.network_tensors import NetworkOutput, OutputEdit
from endcap.repository.onnx_file import OnnxFile
from endcap.repository.options import Decision

# Operators that leave numbers what they are.
_REARRANGING = {"Identity", "Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose"}
_LINEAR = {"Gemm", "MatMul", "Add", "Conv"}  # operators of a last layer without an activation


def propose_classifier(
    network: OnnxFile, outputs: tuple[NetworkOutput, ...], hints: Hints
) -> Iterator[Head]:
    """Yield `classification` for each output that has one number for each class.

    A row of numbers may as well be an embedding of the image: it is sure only where the user or
    the metadata give the number of classes or say that it is a classifier, or a softmax is over it.
    A single number is looked at where it is the only output, or the user says what it is.
    """
    classifies = hints.wanted == "classification" or hints.metadata.task == "classify"
    fitting = [each for each in outputs if _is_row(each) and not _are_of_boxes(each, outputs)]
    rows = [each for each in fitting if each.dims and each.dims[0] > 1]
    if rows or not (classifies or len(outputs) == 1):
        fitting = rows
    for each in fitting:
        output = each if each.dims else edited_output(each, OutputEdit(shape=(1,)))
        classes = output.dims[0]
        meaning = "the score of one class" if classes == 1 else "a number for each class"
        reason = f"{output.name} {list(output.dims)}: {meaning}"
        operator = _last_operator(network.model.graph, output.name)
        is_sure = hints.num_classes == classes or (
            (classifies or operator == "Softmax")
            and hints.num_classes is None
            and len(fitting) == 1
        )
        if not is_sure:
            reason += f", or {'an estimate' if classes == 1 else 'a description of the image'}"
        activation = _activation(operator, output)
        yield Head(
            "classification",
            {"logits": output},
            classes,
            reason,
            is_sure,
            {} if activation is None else {"activation": activation},
        )


def _are_of_boxes(output: NetworkOutput, outputs: tuple[NetworkOutput, ...]) -> bool:
    """Return whether there is a box for each number, or a box and a score."""
    return any(each.shape in ((*output.shape, 4), (*output.shape, 5)) for each in outputs)


def _is_row(output: NetworkOutput) -> bool:
    return output.is_float and output.dims[:1] != (0,) and all(one == 1 for one in output.dims[1:])


def _activation(operator: str, output: NetworkOutput) -> Decision | None:
    """Return what the numbers still need; None where neither graph nor trial run shows it."""
    if operator in ("Softmax", "Sigmoid"):
        return Decision("none", f"the network ends in {operator}")
    values, is_one = output.values, output.dims[0] == 1
    if is_one and operator in _LINEAR:
        return Decision("sigmoid", f"one number for one class, and the network ends in {operator}")
    if values is None:
        return None
    low, high = float(values.min()), float(values.max())
    if low < 0 or high > 1:
        needed = "sigmoid" if is_one else "softmax"
        return Decision(
            needed, f"the network ends in {operator}; a trial run gave {low:.2f} to {high:.2f}"
        )
    if abs(float(values.sum()) - 1) < 1e-3 and not is_one:
        return Decision("none", "a trial run's scores are not negative and add up to 1")
    return None


def _last_operator(graph: Any, tensor: str) -> str:
    """Return the last operator that changes numbers on the way to an output."""
    producers = {name: node for node in graph.node for name in node.output}
    while (node := producers.get(tensor)) is not None:
        if node.op_type not in _REARRANGING:
            return str(node.op_type)
        tensor = node.input[0]
    return "its input"
