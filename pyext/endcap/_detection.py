"""A single detection and a single class, the items of results."""

from __future__ import annotations

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
            row["classification"] = self.classification.to_dict()
        if self.track_id is not None:
            row["track_id"] = self.track_id
        return row

    def to_row(self) -> dict[str, Any]:
        """Return ROW_COLUMNS by name, and what some models give: angle, track, class."""
        values = (self.class_id, self.label, self.score, *self.box)
        row: dict[str, Any] = dict(zip(ROW_COLUMNS, values, strict=True))
        if self.angle is not None:
            row["angle"] = self.angle
        if self.track_id is not None:
            row["track_id"] = self.track_id
        if self.classification is not None:
            row |= {
                "classification_id": self.classification.class_id,
                "classification_label": self.classification.label,
                "classification_score": self.classification.score,
            }
        return row


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


def le90_boxes(
    boxes: npt.NDArray[np.float32], angles: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Return the same rotated boxes [..., 4] and angles [...] as of ``angle_range="le90"``."""
    quarter_turn = np.float32(np.pi / 2)
    rest = np.mod(angles, quarter_turn)
    exchanges = np.mod(angles, 2 * quarter_turn) >= quarter_turn
    # A negative angle next to a multiple of the quarter turn is rounded up to the next one.
    exchanges ^= rest >= quarter_turn
    rest[rest >= quarter_turn] = 0
    low, high = boxes[..., :2].astype(np.float64), boxes[..., 2:].astype(np.float64)
    half = (high - low) / 2
    half[exchanges] = half[exchanges][:, ::-1]
    turned = np.concatenate([(low + high) / 2 - half, (low + high) / 2 + half], -1)
    return np.where(exchanges[..., None], turned, boxes).astype(np.float32), rest
