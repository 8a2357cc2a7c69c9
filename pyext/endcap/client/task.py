"""What a served model answers with: detections or classes."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

INPUT = "encoded"


class Task(str, Enum):
    """The kind of a model's answers."""

    detection = "detection"
    classification = "classification"

    @property
    def required(self) -> tuple[str, ...]:
        """The outputs that a model of this kind must have."""
        return _REQUIRED[self]

    @property
    def outputs(self) -> tuple[str, ...]:
        """The outputs that are read where the model has them."""
        return self.required + _OPTIONAL[self]


_REQUIRED = {
    Task.detection: (
        "num_detections",
        "detection_boxes",
        "detection_scores",
        "detection_classes",
        "detection_indices",
        "status",
    ),
    Task.classification: ("class_scores", "class_ids"),
}
_OPTIONAL: dict[Task, tuple[str, ...]] = {
    Task.detection: (
        "detection_keypoints",
        "detection_angles",
        "detection_rle",
        "mask_size",
        "class_scores",
        "class_ids",
        "class_labels",
    ),
    Task.classification: ("class_labels", "status"),
}


def task_of(inputs: Collection[str], outputs: Collection[str]) -> Task | None:
    """Returns what a model with these tensors does, None for one that cannot be asked.

    A model that answers boxes is no classifier, whatever else it answers.
    """
    if set(inputs) != {INPUT}:
        return None
    possible = (Task.detection,) if "detection_boxes" in outputs else tuple(Task)
    return next((task for task in possible if set(outputs) >= set(task.required)), None)
