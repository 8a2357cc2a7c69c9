"""Classifiers: outputs with one number for each class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from endcap.repository.head_evidence import Head, Hints
from endcap.repository.network_tensors import NetworkOutput
from endcap.repository.onnx_file import OnnxFile
from endcap.repository.options import Decision

# Operators that leave numbers what they are.
_REARRANGING = {"Identity", "Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose"}


def propose_classifier(
    network: OnnxFile, outputs: tuple[NetworkOutput, ...], hints: Hints
) -> Iterator[Head]:
    """Yield `classification` for each output that has one number for each class.

    A row of numbers may as well be an embedding of the image: it is sure only where the user or
    the metadata give the number of classes or say that it is a classifier, or a softmax is over it.
    """
    classifies = hints.wanted == "classification" or hints.metadata.task == "classify"
    fitting = [each for each in outputs if _is_row(each) and not _are_of_boxes(each, outputs)]
    for output in fitting:
        classes = output.dims[0]
        reason = f"{output.name} {list(output.dims)}: a number for each class"
        operator = _last_operator(network.model.graph, output.name)
        is_sure = hints.num_classes == classes or (
            (classifies or operator == "Softmax")
            and hints.num_classes is None
            and len(fitting) == 1
        )
        if not is_sure:
            reason += ", or a description of the image"
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
    """Return whether there is a box for each number."""
    return any(each.shape == (*output.shape, 4) for each in outputs)


def _is_row(output: NetworkOutput) -> bool:
    classes, *ones = output.dims or (0,)
    return classes > 1 and all(one == 1 for one in ones) and output.is_float


def _activation(operator: str, output: NetworkOutput) -> Decision | None:
    """Return what the numbers still need; None where neither graph nor trial run shows it."""
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
    producers = {name: node for node in graph.node for name in node.output}
    while (node := producers.get(tensor)) is not None:
        if node.op_type not in _REARRANGING:
            return str(node.op_type)
        tensor = node.input[0]
    return "its input"
