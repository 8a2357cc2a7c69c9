"""What a model answers about an image: detections, classes, and their parts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypedDict

# The columns of a detection in a table, between the image's and those of only some models.
ROW_COLUMNS = ("class_id", "label", "score", "x1", "y1", "x2", "y2")

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
        """Return the object that `endcap infer --json` prints."""
        return {"class_id": self.class_id, "label": self.label, "score": self.score}

    def to_row(self) -> dict[str, Any]:
        """Return ROW_COLUMNS by name; a class has no box."""
        return dict.fromkeys(ROW_COLUMNS) | self.to_json()


@dataclass(frozen=True)
class Detection:
    """One object: box is x1, y1, x2, y2 in pixels of the source image (see `ImageResult.upright`).

    Each of the four is None where the model gives none.

    Attributes:
        keypoints: Of a pose, x, y in those pixels, and visibility as the network gives it.
        angle: Of a rotated box, radians, clockwise to the eye. `box` is then the box before it is
            turned around its centre by this, and not clipped to the image.
        mask: COCO's object of size and counts; `size` is the image's where the model's
            `mask_resolution` is `source`.
        classification: Of a cascade, what its second network says the object is.
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
        """Return the four corners of the box, turned where it has an angle.

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
        """Return the object that `endcap infer --json` prints."""
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

    def to_row(self) -> dict[str, Any]:
        """Return ROW_COLUMNS by name, and more where the model gives an angle or a class."""
        values = (self.class_id, self.label, self.score, *self.box)
        row: dict[str, Any] = dict(zip(ROW_COLUMNS, values, strict=True))
        if self.angle is not None:
            row["angle"] = self.angle
        if self.classification is not None:
            row |= {
                "classification_id": self.classification.class_id,
                "classification_label": self.classification.label,
                "classification_score": self.classification.score,
            }
        return row
