"""What became of one image, as a client sees it.

`status` is one of

- the labels of endcap.Status: "ok", "corrupt_image", "image_limit",
  "unsupported", "invalid_argument", "cuda", "out_of_memory", "internal";
- what only a client can meet: "unreadable" (the file cannot be read here), "unavailable" (the
  server is gone, or does not serve the model now), "timeout", "cancelled".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from endcap.client.task import Task
from endcap.errors import Status

Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Detection:
    """One object: box is x1, y1, x2, y2 in pixels of the source image, turned upright by EXIF."""

    box: Box
    score: float
    class_id: int
    label: str | None  # None where the class has no name
    index: int  # which anchor of the model's head it is

    def to_json(self) -> dict[str, Any]:
        """Returns the object that `endcap infer --json` prints."""
        return {
            "box": list(self.box),
            "score": self.score,
            "class_id": self.class_id,
            "label": self.label,
        }


@dataclass(frozen=True)
class ClassScore:
    """One class of a classifier's answer."""

    class_id: int
    score: float
    label: str | None  # None where the class has no name

    def to_json(self) -> dict[str, Any]:
        """Returns the object that `endcap infer --json` prints."""
        return {"class_id": self.class_id, "label": self.label, "score": self.score}


@dataclass(frozen=True)
class ImageResult:
    """What became of one image, best score first; `error` says why when `status` is not "ok".

    A model of the task detection fills `detections`, one of the task classification `classes`.
    """

    image: str
    status: str
    detections: list[Detection] = field(default_factory=list)
    error: str | None = None
    latency_ms: float | None = None  # from sending the request to its answer; None if not sent
    classes: list[ClassScore] = field(default_factory=list)
    task: Task = Task.detection

    @property
    def ok(self) -> bool:
        """Whether the image was processed; it may still have no detections."""
        return self.status == "ok"

    @property
    def found(self) -> list[Detection] | list[ClassScore]:
        """What the model of either task answered."""
        return self.classes if self.task is Task.classification else self.detections

    def to_json(self) -> dict[str, Any]:
        """Returns the object that `endcap infer --json` prints for this image."""
        key = "classes" if self.task is Task.classification else "detections"
        row: dict[str, Any] = {
            "image": self.image,
            "status": self.status,
            key: [each.to_json() for each in self.found],
        }
        if self.error is not None:
            row["error"] = self.error
        return row


def status_name(code: int) -> str:
    """Returns the name of a `status` tensor's value, "internal" for one that does not exist."""
    try:
        return Status(code).label
    except ValueError:
        return Status.INTERNAL.label
