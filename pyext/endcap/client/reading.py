"""From the tensors of an image's answer to what a client gives back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from endcap.client.best_classes import read_best_classes
from endcap.client.errors import RequestError
from endcap.client.extras import Tensors
from endcap.client.rows import read_classes, read_rows
from endcap.client.served_model import ServedModel
from endcap.errors import InvalidArgumentError
from endcap.results.detection import ClassScore, Detection
from endcap.results.task import PROBABILITIES, Task


@dataclass(frozen=True)
class Found:
    """What an answer says of one image. upright: see ImageResult."""

    detections: list[Detection] = field(default_factory=list)
    classes: list[ClassScore] = field(default_factory=list)
    upright: bool = True


@dataclass(frozen=True)
class ResponseReader:
    """Reads the answers of a model.

    best_classes: how many classes Triton's classification extension is asked for, None for the
    model's own. labels: class names by id.
    """

    model: ServedModel
    labels: Sequence[str] | None = None
    best_classes: int | None = None

    def __post_init__(self) -> None:
        if self.best_classes is None:
            return
        if self.best_classes < 1:
            raise InvalidArgumentError(f"classify {self.best_classes} is below 1")
        if self.model.task is not Task.classification or PROBABILITIES not in self.model.outputs:
            raise InvalidArgumentError(
                f"model '{self.model.name}' has no output {PROBABILITIES} to find the best "
                "classes of; leave classify out, or ask a classifier that has it"
            )

    def wanted(self, *, extras: bool) -> list[str]:
        """Returns the outputs to ask for; extras: keypoints, angles and masks, too."""
        task = self.model.task
        if self.best_classes is not None:
            asked: tuple[str, ...] = (PROBABILITIES, "status")
        else:
            asked = task.outputs if extras or task is Task.classification else task.required
        return [name for name in asked if name in self.model.outputs]

    @property
    def class_counts(self) -> dict[str, int]:
        """How many best elements to ask for, by output."""
        return {} if self.best_classes is None else {PROBABILITIES: self.best_classes}

    def read(self, tensors: Tensors) -> Found:
        """Returns what a whole answer, a batch of one, says.

        Raises RequestError when the image's status is not 0, or the tensors do not fit together.
        """
        if self.best_classes is not None:
            return Found(classes=read_best_classes(tensors, self.labels))
        if self.model.task is Task.classification:
            return Found(classes=read_classes(tensors, self.labels))
        return Found(detections=read_rows(tensors, self.labels), upright=self.model.upright)

    def read_part(self, tensors: Tensors) -> Found:
        """Returns what one of several responses says; one without tensors says nothing.

        All rows of a response count where the model does not number them.
        """
        if all(tensor is None for tensor in tensors.values()):
            return Found()
        boxes = tensors.get("detection_boxes")
        if self.model.task is Task.detection and "num_detections" not in self.model.outputs:
            rows = 0 if boxes is None or boxes.ndim != 3 else boxes.shape[1]
            tensors = {**tensors, "num_detections": np.full((1, 1), rows, np.int32)}
        return self.read(tensors)

    def try_read(self, tensors: Tensors) -> Found | RequestError:
        """Returns what `read` returns or raises, which keeps no tensor alive."""
        try:
            return self.read(tensors)
        except RequestError as error:
            return error.with_traceback(None)
