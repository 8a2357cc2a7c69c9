"""Steps of an ensemble that detects, as calls, and the tensors of models that make such calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from endcap.python_backend.model_calls import ENCODED, CallModelAsync, ModelCall, Tensor
from endcap.triton.parameters import read_parameters


@dataclass(frozen=True, kw_only=True)
class DetectSettings:
    """The models of the steps, by their parameters."""

    preprocess_model: str = "preprocess"
    detector_model: str = "detector"
    postprocess_model: str = "postprocess"


def read_detect_settings(model_config: Mapping[str, Any]) -> DetectSettings:
    """Read the parameters of a config.pbtxt; `labels` among them is for clients.

    Raises:
        InvalidArgumentError: a parameter that is not known.
    """
    names = [field.name for field in fields(DetectSettings)]
    given = read_parameters(model_config, [*names, "labels"])
    return DetectSettings(**{name: given[name] for name in names if name in given})


async def detect(
    call: CallModelAsync,
    settings: DetectSettings,
    *,
    encoded: Tensor,
    wanted: Sequence[str],
    request: Any,
) -> dict[str, Tensor]:
    """Return the outputs `wanted` of one request.

    Every tensor goes to the next step as it is and where it is. The network's outputs are
    postprocess' inputs, whatever their names.

    Raises:
        ModelCallError: a step failed.
    """
    prepared = await call(
        ModelCall(
            model=settings.preprocess_model,
            inputs={ENCODED: encoded},
            outputs=("images", "geometry", "status"),
            origin=request,
            on_cpu=False,
        )
    )
    images = {"images": prepared.pop("images")}
    network = settings.detector_model
    heads = await call(ModelCall(model=network, inputs=images, origin=request, on_cpu=False))
    return await call(
        ModelCall(
            model=settings.postprocess_model,
            inputs={**heads, **prepared},
            outputs=tuple(wanted),
            origin=request,
            on_cpu=False,
        )
    )


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
# The number of rows is determined by the called model.
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
