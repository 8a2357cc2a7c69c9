"""What became of one image, as a client sees it.

`status` is one of

- the labels of endcap.Status: "ok", "corrupt_image", "image_limit",
  "unsupported", "invalid_argument", "cuda", "out_of_memory", "internal";
- what only a client can meet: "unreadable" (the file cannot be read here), "unavailable" (the
  server is gone, or does not serve the model now), "timeout", "cancelled".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, TypedDict

from endcap.client.task import Task
from endcap.errors import Status

Box = tuple[float, float, float, float]
Point = tuple[float, float]
Keypoint = tuple[float, float, float]  # x, y, visibility


class Mask(TypedDict):
    """A mask as COCO's run lengths, which pycocotools and `endcap.masks.decode_rle` read."""

    size: list[int]  # height, width
    counts: str  # compressed


@dataclass(frozen=True)
class ClassScore:
    """One class of a classifier's answer, or the class that a cascade gives a detection."""

    class_id: int
    score: float
    label: str | None  # None where the class has no name

    def to_json(self) -> dict[str, Any]:
        """Returns the object that `endcap infer --json` prints."""
        return {"class_id": self.class_id, "label": self.label, "score": self.score}


@dataclass(frozen=True)
class Detection:
    """One object: box is x1, y1, x2, y2 in pixels of the source image, turned upright by EXIF.

    keypoints: of a pose, x, y in those pixels, and visibility as the network gives it.
    angle: of a rotated box, radians, clockwise to the eye. `box` is then the box before it is
        turned around its centre by this, and not clipped to the image.
    mask: COCO's object of size and counts; `size` is the image's where the model's
        `mask_resolution` is `source`.
    classification: of a cascade, what its second network says the object is.

    Each of the four is None where the model gives none.
    """

    box: Box
    score: float
    class_id: int
    label: str | None  # None where the class has no name
    index: int  # which anchor of the model's head it is
    keypoints: list[Keypoint] | None = None
    angle: float | None = None
    mask: Mask | None = None
    classification: ClassScore | None = None

    def corners(self) -> list[Point]:
        """Returns the four corners of the box, turned where it has an angle.

        They come in the order in which the box before it is turned has its top left, top right,
        bottom right and bottom left one.
        """
        x1, y1, x2, y2 = self.box
        if self.angle is None:
            return [(x1, y1), (x2, y1), (x2, y2), (x1, y2)]
        cosine, sine = math.cos(self.angle), math.sin(self.angle)
        x, y, across, down = (x1 + x2) / 2, (y1 + y2) / 2, (x2 - x1) / 2, (y2 - y1) / 2
        return [
            (x + a * cosine - d * sine, y + a * sine + d * cosine)
            for a, d in ((-across, -down), (across, -down), (across, down), (-across, down))
        ]

    def to_json(self) -> dict[str, Any]:
        """Returns the object that `endcap infer --json` prints."""
        row: dict[str, Any] = {
            "box": list(self.box),
            "score": self.score,
            "class_id": self.class_id,
            "label": self.label,
        }
        if self.keypoints is not None:
            row["keypoints"] = [list(point) for point in self.keypoints]
        if self.angle is not None:
            row["angle"] = self.angle
        if self.mask is not None:
            row["mask"] = self.mask
        if self.classification is not None:
            row["classification"] = self.classification.to_json()
        return row


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
