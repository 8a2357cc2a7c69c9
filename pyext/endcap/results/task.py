"""What a served model answers with: detections or classes."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

INPUT = "encoded"
# The output that Triton's classification extension finds the best elements of.
PROBABILITIES = "class_probabilities"
_OF_A_WHOLE_ANSWER = {"num_detections", "status"}


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


def task_of(
    inputs: Collection[str],
    outputs: Collection[str],
    *,
    decoupled: bool = False,
    best_classes: bool = False,
) -> Task | None:
    """Return what a model with these tensors does, None for one that cannot be asked.

    A model that answers boxes is no classifier, whatever else it answers. A decoupled one may
    answer with a response for each detection: it needs no number of them and no status.
    best_classes: whether Triton's classification extension is asked for; it needs one output.
    """
    if set(inputs) != {INPUT}:
        return None
    names = set(outputs)
    if "detection_boxes" in names:
        required = set(Task.detection.required) - (_OF_A_WHOLE_ANSWER if decoupled else set())
        return Task.detection if names >= required else None
    if best_classes and PROBABILITIES in names:
        return Task.classification
    return next((task for task in Task if names >= set(task.required)), None)
