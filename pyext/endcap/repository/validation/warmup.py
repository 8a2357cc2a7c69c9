"""Warm-up requests: whether the model would take them."""

from __future__ import annotations

from collections.abc import Iterator

from endcap.repository.validation.finding import Finding
from endcap.repository.validation.model import Model
from endcap.repository.validation.tensors import Interface, data_type_of


def check_warmup(model: Model, interface: Interface) -> Iterator[Finding]:
    """Names and types of the inputs that model_warmup sends."""
    inputs = interface.inputs
    if inputs is None or model.is_ensemble:
        return
    for index, sample in enumerate(model.config.model_warmup):
        block = model.lines.nth("model_warmup", index)
        for name, tensor in sample.inputs.items():
            entry = block.entry("inputs", name)
            if name not in inputs:
                yield model.error(
                    entry.line_of("key"),
                    f"the warm-up {sample.name} sends {name}, and the model's inputs are "
                    + ", ".join(inputs),
                    "send these",
                )
            elif (
                not inputs[name].in_doubt and data_type_of(tensor) != inputs[name].tensor.data_type
            ):
                yield model.error(
                    entry.nth("value", 0).line_of("data_type"),
                    f"the warm-up {sample.name} sends {name} as {data_type_of(tensor)}, and the "
                    f"model takes {inputs[name].tensor}",
                    "send it as the model takes it",
                )
        misnamed = sample.inputs.keys() - inputs.keys()
        required = [name for name, port in inputs.items() if not port.optional]
        for name in [name for name in required if name not in sample.inputs][len(misnamed) :]:
            yield model.error(
                block.line,
                f"the warm-up {sample.name} does not send the input {name}",
                "add it",
            )
