"""Fills in what a config.pbtxt leaves out of a model's tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Triton's type, and the dims of one item.
Tensors = Mapping[str, tuple[str, list[int]]]


def complete_config(config: Any, inputs: Tensors, outputs: Tensors) -> Any:
    """Return the server's ModelConfig with all tensors of a side that declares none.

    Tensors that are declared keep their dims and get the type where they have none; those that are
    not in the tables are left alone.

    Raises:
        ValueError: a declared tensor has another type.
    """
    declared = config.as_dict()
    for side, tensors, add in (
        ("input", inputs, config.add_input),
        ("output", outputs, config.add_output),
    ):
        given = {tensor["name"]: tensor for tensor in declared[side]}
        for name, (data_type, dims) in tensors.items():
            if name in given or not given:
                dims = given.get(name, {}).get("dims") or dims
                add({"name": name, "data_type": data_type, "dims": dims})
    return config


ENCODED_INPUT: Tensors = {"encoded": ("TYPE_STRING", [1])}
# The number of rows is the inner model's matter.
DETECTION_OUTPUTS: Tensors = {
    "num_detections": ("TYPE_INT32", [1]),
    "detection_boxes": ("TYPE_FP32", [-1, 4]),
    "detection_scores": ("TYPE_FP32", [-1]),
    "detection_classes": ("TYPE_INT32", [-1]),
    "detection_indices": ("TYPE_INT32", [-1]),
    "status": ("TYPE_INT32", [1]),
}
CASCADE_OUTPUTS: Tensors = {
    **DETECTION_OUTPUTS,
    "class_ids": ("TYPE_INT32", [-1]),
    "class_scores": ("TYPE_FP32", [-1]),
    "class_labels": ("TYPE_STRING", [-1]),
}
# Of one detection.
STREAM_OUTPUTS: Tensors = {
    name: (data_type, [1, *dims[1:]])
    for name, (data_type, dims) in CASCADE_OUTPUTS.items()
    if name not in ("num_detections", "status")
}
