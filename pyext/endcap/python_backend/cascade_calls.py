"""The three calls of a cascade, and what their answers must hold."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import numpy as np

from endcap.python_backend.crops import (
    BestClasses,
    Crops,
    joined,
    read_best_classes,
    sort_crops,
)
from endcap.python_backend.detection_rows import Detections, Regions, read_detections
from endcap.python_backend.model_calls import ModelCall, Tensor, answer_of, arrays

ENCODED = "encoded"

CallModel = Callable[[ModelCall], dict[str, Tensor]]
CallModelAsync = Callable[[ModelCall], Awaitable[dict[str, Tensor]]]


def detect_call(model: str, encoded: Tensor, outputs: Sequence[str], origin: Any) -> ModelCall:
    """Return the call that detects in all images of a request."""
    return ModelCall(model=model, inputs={ENCODED: encoded}, outputs=tuple(outputs), origin=origin)


def detections_of(call: ModelCall, answer: dict[str, Tensor]) -> Detections:
    """Return the rows of a detector's answer, or raise InvalidArgumentError naming the model."""
    with answer_of(call.model):
        return read_detections(arrays(answer))


def rois_call(regions: Regions, file: bytes, origin: Any) -> ModelCall:
    """Return the call that cuts regions out of one image file."""
    encoded = np.empty(1, np.object_)
    encoded[0] = file
    inputs = {ENCODED: encoded, "rois": np.ascontiguousarray(regions.boxes, np.float32)}
    outputs = ("images", "status")
    return ModelCall(model=regions.rois_model, inputs=inputs, outputs=outputs, origin=origin)


def crops_of(
    call: ModelCall, answer: dict[str, Tensor], regions: Regions, *, request: int = 0
) -> list[Crops]:
    """Return the crops by classifier, or raise InvalidArgumentError naming the model."""
    with answer_of(call.model):
        return sort_crops(regions, arrays(answer), request=request)


def classify_call(batch: list[Crops], origin: Any) -> ModelCall:
    """Return the call that classifies a batch, which is for one model.

    It asks for all outputs: not every classifier has `class_labels`.
    """
    return ModelCall(model=batch[0].classifier, inputs={"images": joined(batch)}, origin=origin)


def best_classes_of(
    call: ModelCall, answer: dict[str, Tensor], batch: list[Crops]
) -> list[tuple[Crops, BestClasses]]:
    """Return the parts of a batch with their classes, or raise as the others do."""
    with answer_of(call.model):
        best = read_best_classes(arrays(answer), sum(len(crops.rows) for crops in batch))
    ends = np.cumsum([len(crops.rows) for crops in batch])
    return [
        (crops, best.part(int(end) - len(crops.rows), int(end)))
        for crops, end in zip(batch, ends, strict=True)
    ]
