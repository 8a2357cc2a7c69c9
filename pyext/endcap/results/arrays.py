"""Detections and classes as arrays, and in the form of the package supervision."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from endcap.detections import ImageDetections, import_supervision
from endcap.results.detection import ClassScore, Detection


def as_image_detections(detections: Sequence[Detection]) -> ImageDetections:
    """Return what `Postprocessor` would give for one image: float32 and int32 arrays of N rows."""
    first = detections[0] if detections else None
    keypoints = [each.keypoints for each in detections]
    masks = [each.mask for each in detections if each.mask is not None]
    return ImageDetections(
        boxes=np.array([each.box for each in detections], np.float32).reshape(-1, 4),
        scores=np.array([each.score for each in detections], np.float32),
        class_ids=np.array([each.class_id for each in detections], np.int32),
        indices=np.array([each.index for each in detections], np.int32),
        keypoints=np.array(keypoints, np.float32) if first and first.keypoints else None,
        angles=(
            np.array([each.angle for each in detections], np.float32)
            if first and first.angle is not None
            else None
        ),
        rle=[mask["counts"].encode() for mask in masks] if masks else None,
        mask_size=(masks[0]["size"][0], masks[0]["size"][1]) if masks else None,
    )


def with_labels(detections: Any, found: Sequence[Detection]) -> Any:
    """Add class names to a `supervision.Detections`, an empty one where a class has none."""
    if any(each.label for each in found):
        detections.data["class_name"] = np.array([each.label or "" for each in found])
    return detections


def as_classifications(classes: Sequence[ClassScore]) -> Any:
    """Return a `supervision.Classifications`. Raises UnsupportedError without supervision."""
    supervision: ModuleType = import_supervision()
    return supervision.Classifications(
        class_id=np.array([each.class_id for each in classes], np.int64),
        confidence=np.array([each.score for each in classes], np.float32),
    )
