"""Single predictions: a detection, or a class with its score, as rows and objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

Box = tuple[float, float, float, float]
Point = tuple[float, float]
Keypoint = tuple[float, float, float]  # x, y, visibility

# The columns of a detection in a table, between the image's and those of only some models.
ROW_COLUMNS = ("class_id", "label", "score", "x1", "y1", "x2", "y2")


class Mask(TypedDict):
    """A mask in COCO's run-length encoding, for pycocotools and `endcap.masks.decode_rle`."""

    size: list[int]  # height, width
    counts: str  # compressed


@dataclass(frozen=True)
class ClassScore:
    """One class of a classified image, or the class that a cascade gives a detection."""

    class_id: int
    score: float
    label: str | None = None  # None where the class has no name

    def to_dict(self) -> dict[str, Any]:
        """Return the object that `endcap infer --json` prints."""
        return {"class_id": self.class_id, "label": self.label, "score": self.score}

    def to_row(self) -> dict[str, Any]:
        """Return ROW_COLUMNS by name; a class has no box."""
        return dict.fromkeys(ROW_COLUMNS) | self.to_dict()


@dataclass(frozen=True)
class ClassArea:
    """The pixels of one class of a segmented image.

    Attributes:
        class_id: The class's number.
        label: Its name; None where it has none.
        pixels: How many there are.
        fraction: Of all pixels of the map.
    """

    class_id: int
    label: str | None
    pixels: int
    fraction: float


@dataclass(frozen=True)
class Detection:
    """One object of an image.

    Attributes:
        box: x1, y1, x2, y2 in pixels of the source image.
        score: 0 to 1.
        class_id: the class's number.
        label: the class's name; None where it has none.
        index: the anchor of the model's head that the detection comes from.
        keypoints: of a pose, x and y in those pixels, and visibility as the network gives it; None
            where the model gives none, as the next three.
        angle: of a rotated box, radians, clockwise on the screen. `box` is then the box before it
            is rotated around its centre, not clipped to the image.
        mask: size and counts in COCO's format; `size` is the image's where the model's
            `mask_resolution` is `source`.
        classification: of a cascade, the class that its second network gives the object.
        track_id: of `endcap.Tracker`, from 1; None without a track.
    """

    box: Box
    score: float
    class_id: int
    label: str | None = None
    index: int = -1
    keypoints: list[Keypoint] | None = None
    angle: float | None = None
    mask: Mask | None = None
    classification: ClassScore | None = None
    track_id: int | None = None

    def __repr__(self) -> str:
        values = ", ".join(
            f"{each.name}={value!r}"
            for each in fields(self)
            if each.name != "mask" and (value := getattr(self, each.name)) is not None
        )
        height, width = (0, 0) if self.mask is None else self.mask["size"]
        mask = "" if self.mask is None else f", mask=<{height}x{width}>"
        return f"Detection({values}{mask})"

    def corners(self) -> list[Point]:
        """Return the four corners of the box, rotated where it has an angle.

        They are in the order top left, top right, bottom right, bottom left of the box before it is
        rotated.
        """
        if self.angle is None:
            x1, y1, x2, y2 = self.box
            return [(x1, y1), (x2, y1), (x2, y2), (x1, y2)]
        (corners,) = rotated_corners(np.array([self.box]), np.array([self.angle])).tolist()
        return [(x, y) for x, y in corners]

    def to_dict(self) -> dict[str, Any]:
        """Return the object that `endcap infer --json` prints."""
        row = {
            "box": list(self.box),
            "score": self.score,
            "class_id": self.class_id,
            "label": self.label,
        }
        of_some_models: dict[str, Any] = {
            "keypoints": self.keypoints and [list(point) for point in self.keypoints],
            "angle": self.angle,
            "mask": self.mask,
            "classification": self.classification and self.classification.to_dict(),
            "track_id": self.track_id,
        }
        return row | without_none(of_some_models)

    def to_row(self) -> dict[str, Any]:
        """Return ROW_COLUMNS by name, and what some models give: angle, track, class."""
        values = (self.class_id, self.label, self.score, *self.box)
        row: dict[str, Any] = dict(zip(ROW_COLUMNS, values, strict=True))
        row |= without_none({"angle": self.angle, "track_id": self.track_id})
        if self.classification is not None:
            row |= {
                "classification_id": self.classification.class_id,
                "classification_label": self.classification.label,
                "classification_score": self.classification.score,
            }
        return row


def without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the items whose value is not None."""
    return {name: value for name, value in values.items() if value is not None}


def class_name(class_id: int, label: str | None) -> str:
    """Return the name of a class, "class N" of one without a label."""
    return f"class {class_id}" if label is None else label


def rotated_corners(boxes: npt.NDArray[Any], angles: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the corners of boxes [N, 4] rotated around their centres, float64 [N, 4, 2]."""
    x1, y1, x2, y2 = boxes.astype(np.float64).T
    angles = angles.astype(np.float64)
    across = np.stack([np.cos(angles), np.sin(angles)], 1) * ((x2 - x1) / 2)[:, None]
    down = np.stack([-np.sin(angles), np.cos(angles)], 1) * ((y2 - y1) / 2)[:, None]
    centre = np.stack([x1 + x2, y1 + y2], 1) / 2
    corners = [-across - down, across - down, across + down, down - across]
    return np.stack([centre + corner for corner in corners], 1)
