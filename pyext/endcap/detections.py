"""What comes out at the end."""

from __future__ import annotations

import importlib
import operator
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from endcap._arrays import empty
from endcap.errors import InvalidArgumentError, UnsupportedError
from endcap.masks import decode_rle

# What the tensors of a postprocess step are called here.
FIELDS = {
    "num_detections": "num_detections",
    "detection_boxes": "boxes",
    "detection_scores": "scores",
    "detection_classes": "class_ids",
    "detection_indices": "indices",
    "detection_keypoints": "keypoints",
    "detection_angles": "angles",
    "detection_masks": "packed_masks",
    "mask_size": "mask_size",
    "class_scores": "scores",
    "class_ids": "class_ids",
    "class_probabilities": "probabilities",
    "status": "status",
}


@dataclass(frozen=True)
class ImageDetections:
    """The detections of one image, N rows, best score first.

    Attributes:
        boxes: float32 [N, 4], x1, y1, x2, y2 in pixels of the source image.
        scores: float32 [N].
        class_ids: int32 [N].
        indices: int32 [N], the anchor that each box came from.
        status: ``endcap.Status`` of the image.
        keypoints: float32 [N, P, 3] of ``yolov8_pose``: x, y in pixels of the source image, and
            visibility; else None.
        angles: float32 [N] of ``yolov8_obb``, radians, clockwise to the eye; else None. Then
            ``boxes`` are the boxes before they are turned around their centres by these, and not
            clipped to the image.
        rle: N masks of ``yolov8_seg``, each COCO's compressed run lengths; else None.
        mask_size: height and width of the masks; None without masks.
        packed_masks: the same masks as bits, uint8 [N, height, ceil(width / 8)], where these were
            asked for; else None.
        has_source_masks: whether these are pixels of the source image.
    """

    boxes: npt.NDArray[np.float32]
    scores: npt.NDArray[np.float32]
    class_ids: npt.NDArray[np.int32]
    indices: npt.NDArray[np.int32]
    status: int = 0
    keypoints: npt.NDArray[np.float32] | None = None
    angles: npt.NDArray[np.float32] | None = None
    rle: list[bytes] | None = None
    mask_size: tuple[int, int] | None = None
    has_source_masks: bool = True
    packed_masks: npt.NDArray[np.uint8] | None = None

    def __len__(self) -> int:
        return len(self.scores)

    def rotated_corners(self) -> npt.NDArray[np.float32]:
        """Return the corners of the boxes of ``yolov8_obb``, float32 [N, 4, 2].

        They are x and y in pixels of the source image, in the order in which the upright box has
        top left, top right, bottom right, bottom left; without angles they are those.
        """
        x1, y1, x2, y2 = self.boxes.astype(np.float64).T
        angles = np.zeros(len(self)) if self.angles is None else self.angles.astype(np.float64)
        across = np.stack([np.cos(angles), np.sin(angles)], 1) * ((x2 - x1) / 2)[:, None]
        down = np.stack([-np.sin(angles), np.cos(angles)], 1) * ((y2 - y1) / 2)[:, None]
        centre = np.stack([x1 + x2, y1 + y2], 1) / 2
        corners = [-across - down, across - down, across + down, down - across]
        turned: npt.NDArray[np.float64] = np.stack([centre + corner for corner in corners], 1)
        return turned.astype(np.float32)

    def masks(self) -> npt.NDArray[np.bool_]:
        """Return the masks of ``yolov8_seg`` pixel by pixel, bool [N, height, width].

        Raises:
            InvalidArgumentError: the head has no masks, or ``enqueue`` made none.
            OutOfMemoryError: there is no room for them; ``endcap.masks.decode_rle`` gives one.
        """
        if self.mask_size is None:
            raise InvalidArgumentError("these detections have no masks: their head gives none")
        if self.rle is None and self.packed_masks is None:
            raise InvalidArgumentError(
                "enqueue made no masks: Postprocessor(packed_masks=True) has them as bits, and a "
                "call waits for run lengths"
            )
        masks = empty((len(self), *self.mask_size), np.dtype(np.bool_))
        if self.packed_masks is not None:
            for mask, bits in zip(masks, self.packed_masks, strict=True):
                mask[:] = np.unpackbits(bits, axis=1, count=self.mask_size[1])
            return masks
        for mask, rle in zip(masks, self.rle or (), strict=True):
            mask[:] = decode_rle(rle, self.mask_size)
        return masks

    def to_supervision(self) -> Any:
        """Return a ``supervision.Detections``.

        Boxes of ``yolov8_obb`` become their upright bounds, and their corners [N, 4, 2] are in
        ``data["xyxyxyxy"]``, where supervision's oriented boxes are. Masks must be those of the
        source image (``mask_resolution="source"``).

        Raises:
            UnsupportedError: supervision is not installed.
            InvalidArgumentError: masks that are not of the source image.
        """
        boxes, data = self.boxes, {}
        if self.angles is not None:
            corners = self.rotated_corners()
            boxes = np.hstack([corners.min(1), corners.max(1)])
            data["xyxyxyxy"] = corners
        if self.mask_size is not None and not self.has_source_masks:
            raise InvalidArgumentError(
                'these masks are not of the source image: give mask_resolution="source"'
            )
        supervision = import_supervision()
        return supervision.Detections(
            xyxy=boxes,
            confidence=self.scores,
            class_id=self.class_ids.astype(np.int64),
            mask=None if self.mask_size is None else self.masks(),
            data=data,
        )


@dataclass(frozen=True)
class Detections:
    """The detections of a batch of B images; rows beyond num_detections are 0, their index -1.

    Attributes:
        num_detections: int32 [B].
        boxes: float32 [B, K, 4], x1, y1, x2, y2 in pixels of the source image.
        scores: float32 [B, K], best first.
        class_ids: int32 [B, K].
        indices: int32 [B, K], the anchor that each box came from.
        status: int32 [B].
        truncated: bool [B], whether max_candidates cut the candidates; None after
            ``Postprocessor.enqueue``, which does not wait to learn it.
        keypoints: float32 [B, K, P, 3] of ``yolov8_pose``; else None.
        angles: float32 [B, K] of ``yolov8_obb``, as in ``ImageDetections``; else None.
        rle: of ``yolov8_seg``, for each image its detections' masks as COCO's compressed run
            lengths; else None.
        mask_size: int32 [B, 2], height and width of each image's masks; None without masks.
        packed_masks: uint8 [B, K, height, ceil(width / 8)], a bit a pixel as ``numpy.unpackbits``
            reads them, where ``Postprocessor(packed_masks=True)`` asked for it; else None.
        has_source_masks: whether the masks are pixels of the source images.

    ``detections[i]`` gives image i with its real rows only; iterating gives every image.
    """

    num_detections: npt.NDArray[np.int32]
    boxes: npt.NDArray[np.float32]
    scores: npt.NDArray[np.float32]
    class_ids: npt.NDArray[np.int32]
    indices: npt.NDArray[np.int32]
    status: npt.NDArray[np.int32]
    truncated: npt.NDArray[np.bool_] | None
    keypoints: npt.NDArray[np.float32] | None = None
    angles: npt.NDArray[np.float32] | None = None
    rle: list[list[bytes]] | None = None
    mask_size: npt.NDArray[np.int32] | None = None
    packed_masks: npt.NDArray[np.uint8] | None = None
    has_source_masks: bool = True

    def __len__(self) -> int:
        return len(self.num_detections)

    def __getitem__(self, image: int) -> ImageDetections:
        image = operator.index(image)
        rows = int(self.num_detections[image])
        return ImageDetections(
            self.boxes[image, :rows],
            self.scores[image, :rows],
            self.class_ids[image, :rows],
            self.indices[image, :rows],
            int(self.status[image]),
            keypoints=None if self.keypoints is None else self.keypoints[image, :rows],
            angles=None if self.angles is None else self.angles[image, :rows],
            rle=None if self.rle is None else self.rle[image],
            mask_size=None if self.mask_size is None else _size(self.mask_size[image]),
            has_source_masks=self.has_source_masks,
            packed_masks=None if self.packed_masks is None else self.packed_masks[image, :rows],
        )

    def __iter__(self) -> Iterator[ImageDetections]:
        return (self[image] for image in range(len(self)))

    def to_supervision(self) -> Any:
        """Return the only image's ``supervision.Detections``.

        Raises:
            InvalidArgumentError: the batch holds other than one image; use detections[i].
            UnsupportedError: supervision is not installed.
        """
        if len(self) != 1:
            raise InvalidArgumentError(
                f"the batch holds {len(self)} images: use detections[i].to_supervision()"
            )
        return self[0].to_supervision()


_DEFAULTS = {
    field.name: field.default for field in fields(Detections) if field.default is not MISSING
}


def detections_of(values: dict[str, Any]) -> Detections:
    """Return Detections of all fields that have no default, and any others.

    The constructor of a frozen class sets one field after the other the long way, which is a tenth
    of the time that a usual head takes.
    """
    made = object.__new__(Detections)
    vars(made).update(_DEFAULTS)
    vars(made).update(values)
    return made


def import_supervision() -> ModuleType:
    """Return the package supervision. Raises UnsupportedError where it is not installed."""
    try:
        return importlib.import_module("supervision")
    except ImportError as error:
        raise UnsupportedError(
            "to_supervision() needs the package supervision: pip install supervision"
        ) from error


def _size(row: npt.NDArray[np.int32]) -> tuple[int, int]:
    height, width = row.tolist()
    return height, width


@dataclass(frozen=True)
class Classification:
    """The best classes of a batch of B images, best first.

    Attributes:
        scores: float32 [B, top_k].
        class_ids: int32 [B, top_k]; -1 where the image was bad and, with multi_label, in the rows
            beyond the classes over score_threshold, whose scores are 0.
        probabilities: float32 [B, num_classes], the scores of all classes in class order.
        status: int32 [B].
    """

    scores: npt.NDArray[np.float32]
    class_ids: npt.NDArray[np.int32]
    probabilities: npt.NDArray[np.float32]
    status: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.status)
