"""Result types: detections and classes of batches, of images, and single ones.

A `Detections` is a batch, an item of it an `ImageDetections`, and an item of that a `Detection`.
"""

from __future__ import annotations

import importlib
import operator
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from itertools import repeat
from types import ModuleType
from typing import Any, SupportsIndex, TypeAlias, TypedDict, TypeVar, overload

import numpy as np
import numpy.typing as npt

from endcap._arrays import empty
from endcap.cuda_array import CudaArray, on_host
from endcap.errors import InvalidArgumentError, UnsupportedError
from endcap.masks import decode_rle, encode_rle

# A NumPy array, or with device="cuda" a CudaArray.
Array: TypeAlias = Any

Box = tuple[float, float, float, float]
Point = tuple[float, float]
Keypoint = tuple[float, float, float]  # x, y, visibility

_Batch = TypeVar("_Batch", "Detections", "Classification")

# The columns of a detection in a table, between the image's and those of only some models.
ROW_COLUMNS = ("class_id", "label", "score", "x1", "y1", "x2", "y2")

# Fields of the results by the names of the postprocess step's output tensors.
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

    def to_json(self) -> dict[str, Any]:
        """Return `to_dict()`; deprecated."""
        warn_renamed("to_json()", "to_dict()")
        return self.to_dict()

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

    def corners(self) -> list[Point]:
        """Return the four corners of the box, rotated where it has an angle.

        They are in the order top left, top right, bottom right, bottom left of the box before it is
        rotated.
        """
        if self.angle is None:
            x1, y1, x2, y2 = self.box
            return [(x1, y1), (x2, y1), (x2, y2), (x1, y2)]
        (corners,) = _rotated_corners(np.array([self.box]), np.array([self.angle])).tolist()
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
        return row

    def to_json(self) -> dict[str, Any]:
        """Return `to_dict()`; deprecated."""
        warn_renamed("to_json()", "to_dict()")
        return self.to_dict()

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


@dataclass(frozen=True, eq=False, repr=False)
class ImageDetections(Sequence[Detection]):
    """The detections of one image, N rows, best score first.

    Its items are `Detection`. A slice, row numbers or N booleans as an index give an
    ImageDetections of these rows: ``detections[detections.scores > 0.5]``.

    Attributes:
        boxes: float32 [N, 4], x1, y1, x2, y2 in pixels of the source image.
        scores: float32 [N].
        class_ids: int32 [N].
        indices: int32 [N], the anchor that each box comes from.
        status: ``endcap.Status`` of the image.
        keypoints: float32 [N, P, 3] of ``yolov8_pose``: x, y in pixels of the source image, and
            visibility; else None.
        angles: float32 [N] of ``yolov8_obb``, radians, clockwise on the screen; else None. Then
            ``boxes`` are the boxes before they are rotated around their centres, not clipped to the
            image.
        rle: N masks of ``yolov8_seg`` in COCO's compressed run-length encoding; else None.
        mask_size: height and width of the masks; None without masks.
        packed_masks: the same masks as bits, uint8 [N, height, ceil(width / 8)], where these were
            requested; else None.
        has_source_masks: whether masks have the source image's pixels.
        labels: N names of classes, each None where the class has none; None without labels.
        classifications: of a cascade, N classes by its second network, None for a detection that
            was not classified; else None.
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
    labels: list[str | None] | None = None
    classifications: list[ClassScore | None] | None = None

    @classmethod
    def from_list(cls, detections: Iterable[Detection]) -> ImageDetections:
        """Return single detections as those of one image.

        Raises:
            InvalidArgumentError: some have keypoints, an angle or a mask, and others do not.
        """
        rows = list(detections)
        keypoints = _of_all_or_none([each.keypoints for each in rows], "keypoints")
        angles = _of_all_or_none([each.angle for each in rows], "an angle")
        masks: list[Mask] | None = _of_all_or_none([each.mask for each in rows], "a mask")
        classifications = [each.classification for each in rows]
        labels = [each.label for each in rows]
        return cls(
            boxes=np.array([each.box for each in rows], np.float32).reshape(-1, 4),
            scores=np.array([each.score for each in rows], np.float32),
            class_ids=np.array([each.class_id for each in rows], np.int32),
            indices=np.array([each.index for each in rows], np.int32),
            keypoints=None if keypoints is None else np.array(keypoints, np.float32),
            angles=None if angles is None else np.array(angles, np.float32),
            rle=None if masks is None else [mask["counts"].encode() for mask in masks],
            mask_size=None if masks is None else (masks[0]["size"][0], masks[0]["size"][1]),
            labels=labels if any(each is not None for each in labels) else None,
            classifications=(
                classifications if any(each is not None for each in classifications) else None
            ),
        )

    def __len__(self) -> int:
        return len(self.scores)

    def __iter__(self) -> Iterator[Detection]:
        keypoints = None if self.keypoints is None else self.keypoints.tolist()
        angles = None if self.angles is None else self.angles.tolist()
        for box, score, class_id, label, index, points, angle, mask, classification in zip(
            self.boxes.tolist(),
            self.scores.tolist(),
            self.class_ids.tolist(),
            self.labels or repeat(None),
            self.indices.tolist(),
            keypoints or repeat(None),
            angles or repeat(None),
            self._coco_masks() or repeat(None),
            self.classifications or repeat(None),
            strict=False,
        ):
            yield Detection(
                (box[0], box[1], box[2], box[3]),
                score,
                class_id,
                label,
                index,
                None if points is None else [(x, y, seen) for x, y, seen in points],
                angle,
                mask,
                classification,
            )

    @overload
    def __getitem__(self, rows: int | np.integer[Any]) -> Detection: ...
    @overload
    def __getitem__(self, rows: slice | npt.NDArray[Any] | list[int]) -> ImageDetections: ...
    def __getitem__(
        self, rows: int | np.integer[Any] | slice | npt.NDArray[Any] | list[int]
    ) -> Detection | ImageDetections:
        if isinstance(rows, (int, np.integer)):
            if not -len(self) <= rows < len(self):
                raise IndexError(f"detection {rows} of {len(self)}")
            (detection,) = self[[int(rows)]]
            return detection
        chosen = np.arange(len(self))[rows]
        values: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        for name, value in values.items():
            if isinstance(value, np.ndarray):
                values[name] = value[rows]
            elif isinstance(value, list):
                values[name] = [value[row] for row in chosen.tolist()]
        return ImageDetections(**values)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (ImageDetections, list)):
            return list(self) == list(other)
        return NotImplemented

    def __repr__(self) -> str:
        names = self.labels or repeat(None)
        counts = Counter(
            f"class {class_id}" if name is None else name
            for class_id, name in zip(self.class_ids.tolist(), names, strict=False)
        )
        contents = ", ".join(f"{count} {name}" for name, count in counts.most_common())
        extras = [
            name
            for name, value in (
                ("keypoints", self.keypoints),
                ("angles", self.angles),
                ("masks", self.mask_size),
            )
            if value is not None
        ]
        text = f"{len(self)} detections" + (f" ({contents})" if contents else "")
        return f"<ImageDetections: {text}{''.join(f', {name}' for name in extras)}>"

    @cached_property
    def masks(self) -> npt.NDArray[np.bool_] | None:
        """The masks pixel by pixel, bool [N, height, width]; None of a head without masks.

        Raises:
            InvalidArgumentError: ``enqueue`` made no masks.
            OutOfMemoryError: they do not fit into memory; ``endcap.masks.decode_rle`` gives one.
        """
        if self.mask_size is None:
            return None
        if self.rle is None and self.packed_masks is None:
            raise InvalidArgumentError(
                "enqueue made no masks: Postprocessor(packed_masks=True) has them as bits, and a "
                "call waits for their run-length encoding"
            )
        masks = empty((len(self), *self.mask_size), np.dtype(np.bool_))
        if self.packed_masks is not None:
            for mask, bits in zip(masks, self.packed_masks, strict=True):
                mask[:] = np.unpackbits(bits, axis=1, count=self.mask_size[1])
        else:
            for mask, rle in zip(masks, self.rle or (), strict=True):
                mask[:] = decode_rle(rle, self.mask_size)
        return masks.view(_Masks)

    def corners(self) -> npt.NDArray[np.float32]:
        """Return the corners of the boxes, rotated where there are angles, float32 [N, 4, 2].

        They are x and y in pixels of the source image, in the order top left, top right, bottom
        right, bottom left of the box before it is rotated.
        """
        angles = np.zeros(len(self)) if self.angles is None else self.angles
        return _rotated_corners(self.boxes, angles).astype(np.float32)

    def rotated_corners(self) -> npt.NDArray[np.float32]:
        """Return `corners()`; deprecated."""
        warn_renamed("rotated_corners()", "corners()")
        return self.corners()

    def to_dict(self) -> dict[str, Any]:
        """Return lists of numbers by the names of the attributes, for JSON.

        They are boxes, scores, class_ids and indices, and what else the head gives of labels,
        keypoints, angles, masks (in COCO's format) and classifications.
        """
        columns: dict[str, Any] = {
            name: getattr(self, name).tolist()
            for name in ("boxes", "scores", "class_ids", "indices")
        }
        if self.labels is not None:
            columns["labels"] = list(self.labels)
        if self.keypoints is not None:
            columns["keypoints"] = self.keypoints.tolist()
        if self.angles is not None:
            columns["angles"] = self.angles.tolist()
        if self.mask_size is not None:
            columns["masks"] = self._coco_masks()
        if self.classifications is not None:
            columns["classifications"] = [
                None if each is None else each.to_dict() for each in self.classifications
            ]
        return columns

    def to_supervision(self) -> Any:
        """Return a ``supervision.Detections``.

        Rotated boxes become their upright bounds, and their corners [N, 4, 2] are in
        ``data["xyxyxyxy"]``, where supervision's annotators look for them; names of classes are in
        ``data["class_name"]``, empty for a class without one. Masks must have the source image's
        pixels (``mask_resolution="source"``).

        Raises:
            UnsupportedError: supervision is not installed.
            InvalidArgumentError: masks that do not have the source image's pixels.
        """
        boxes, data = self.boxes, {}
        if self.angles is not None:
            corners = self.corners()
            boxes = np.hstack([corners.min(1), corners.max(1)])
            data["xyxyxyxy"] = corners
        if self.labels is not None:
            data["class_name"] = np.array([each or "" for each in self.labels])
        if self.mask_size is not None and not self.has_source_masks:
            raise InvalidArgumentError(
                'these masks do not have the source image\'s pixels: give mask_resolution="source"'
            )
        masks = self.masks
        return _import_supervision().Detections(
            xyxy=boxes,
            confidence=self.scores,
            class_id=self.class_ids.astype(np.int64),
            mask=None if masks is None else masks.view(np.ndarray),
            data=data,
        )

    def _coco_masks(self) -> list[Mask] | None:
        if self.mask_size is None or (self.rle is None and self.packed_masks is None):
            return None
        rle = self.rle
        if rle is None:
            masks = self.masks
            rle = [] if masks is None else [encode_rle(mask) for mask in masks]
        return [{"size": list(self.mask_size), "counts": each.decode()} for each in rle]


@dataclass(frozen=True, eq=False, repr=False)
class Detections(Sequence[ImageDetections]):
    """The detections of a batch of B images; rows beyond num_detections are 0, their index -1.

    ``detections[i]`` is image i with its real rows only. With ``device="cuda"`` arrays are
    CudaArray and stay on the GPU, but for ``truncated`` and ``rle``; then indexing, iterating and
    ``to_supervision`` copy all of them to the host each time: with many images call ``to_numpy``
    once.

    Attributes:
        num_detections: int32 [B].
        boxes: float32 [B, K, 4], x1, y1, x2, y2 in pixels of the source image.
        scores: float32 [B, K], best first.
        class_ids: int32 [B, K].
        indices: int32 [B, K], the anchor that each box comes from.
        status: int32 [B], ``endcap.Status`` of each image.
        truncated: bool [B], whether max_candidates cut the candidates; None after
            ``Postprocessor.enqueue``, which does not wait to learn it.
        keypoints: float32 [B, K, P, 3] of ``yolov8_pose``; else None.
        angles: float32 [B, K] of ``yolov8_obb``, as in ``ImageDetections``; else None.
        rle: of ``yolov8_seg``, for each image its detections' masks in COCO's compressed run-length
            encoding; else None, as after ``Postprocessor.enqueue``.
        mask_size: int32 [B, 2], height and width of each image's masks; None without masks.
        packed_masks: uint8 [B, K, height, ceil(width / 8)], a bit a pixel as ``numpy.unpackbits``
            reads them, where ``Postprocessor(packed_masks=True)`` requests it; else None.
        has_source_masks: whether the masks have the source images' pixels.
    """

    num_detections: Array
    boxes: Array
    scores: Array
    class_ids: Array
    indices: Array
    status: Array
    truncated: npt.NDArray[np.bool_] | None = None
    keypoints: Array | None = None
    angles: Array | None = None
    rle: list[list[bytes]] | None = None
    mask_size: Array | None = None
    packed_masks: Array | None = None
    has_source_masks: bool = True

    @property
    def device(self) -> str:
        """``cpu`` or ``cuda:N``."""
        return self.boxes.device if isinstance(self.boxes, CudaArray) else "cpu"

    def to_numpy(self) -> Detections:
        """Return the detections in host memory; from a GPU they are copied, and waited for.

        Raises:
            CudaError: the work, or earlier work on its stream, failed.
        """
        return _on_host(self)

    def __len__(self) -> int:
        return len(self.num_detections)

    @overload
    def __getitem__(self, image: SupportsIndex) -> ImageDetections: ...
    @overload
    def __getitem__(self, image: slice) -> list[ImageDetections]: ...
    def __getitem__(self, image: SupportsIndex | slice) -> ImageDetections | list[ImageDetections]:
        host = self.to_numpy()
        if isinstance(image, slice):
            return [host[each] for each in range(len(self))[image]]
        image = operator.index(image)
        rows = int(host.num_detections[image])
        size = None if host.mask_size is None else host.mask_size[image].tolist()
        return ImageDetections(
            host.boxes[image, :rows],
            host.scores[image, :rows],
            host.class_ids[image, :rows],
            host.indices[image, :rows],
            int(host.status[image]),
            keypoints=None if host.keypoints is None else host.keypoints[image, :rows],
            angles=None if host.angles is None else host.angles[image, :rows],
            rle=None if host.rle is None else host.rle[image],
            mask_size=None if size is None else (size[0], size[1]),
            has_source_masks=host.has_source_masks,
            packed_masks=None if host.packed_masks is None else host.packed_masks[image, :rows],
        )

    def __iter__(self) -> Iterator[ImageDetections]:
        host = self.to_numpy()
        return (host[image] for image in range(len(host)))

    def __repr__(self) -> str:
        images, rows = self.scores.shape
        if self.device != "cpu":
            return f"<Detections: {images} images, at most {rows} detections each, {self.device}>"
        counts = ", ".join(map(str, self.num_detections.tolist()))
        return f"<Detections: {images} images of {counts} detections>"

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


@dataclass(frozen=True, eq=False, repr=False)
class Classification:
    """The best classes of a batch of B images, best first; its items are lists of `ClassScore`.

    With ``device="cuda"`` arrays are CudaArray and stay on the GPU, as those of ``Detections``.

    Attributes:
        scores: float32 [B, top_k].
        class_ids: int32 [B, top_k]; -1 where the image was bad and, with multi_label, in the rows
            beyond the classes over score_threshold, whose scores are 0.
        probabilities: float32 [B, num_classes], the scores of all classes in class order.
        status: int32 [B].
    """

    scores: Array
    class_ids: Array
    probabilities: Array
    status: Array

    @property
    def device(self) -> str:
        """``cpu`` or ``cuda:N``."""
        return self.scores.device if isinstance(self.scores, CudaArray) else "cpu"

    def to_numpy(self) -> Classification:
        """Return the classes in host memory; from a GPU they are copied, and waited for.

        Raises:
            CudaError: the work, or earlier work on its stream, failed.
        """
        return _on_host(self)

    def __len__(self) -> int:
        return len(self.status)

    def __getitem__(self, image: SupportsIndex) -> list[ClassScore]:
        host, row = self.to_numpy(), operator.index(image)
        return [
            ClassScore(class_id, score)
            for class_id, score in zip(
                host.class_ids[row].tolist(), host.scores[row].tolist(), strict=True
            )
            if class_id >= 0
        ]

    def __iter__(self) -> Iterator[list[ClassScore]]:
        host = self.to_numpy()
        return (host[image] for image in range(len(host)))

    def __repr__(self) -> str:
        if self.device != "cpu":
            return f"<Classification: {len(self)} images, {self.device}>"
        best = ", ".join(
            f"{image[0].class_id} ({image[0].score:.2f})" if image else "none" for image in self
        )
        return f"<Classification: {len(self)} images, best class {best}>"


def classes_to_supervision(classes: Sequence[ClassScore]) -> Any:
    """Return a ``supervision.Classifications``. Raises UnsupportedError without supervision."""
    return _import_supervision().Classifications(
        class_id=np.array([each.class_id for each in classes], np.int64),
        confidence=np.array([each.score for each in classes], np.float32),
    )


def warn_renamed(old: str, new: str) -> None:
    """Warn that the caller of the caller uses an old name of an attribute or a method."""
    warnings.warn(f"{old} is now {new}", DeprecationWarning, stacklevel=3)


_DEFAULTS = {
    field.name: field.default for field in fields(Detections) if field.default is not MISSING
}


def make_detections(values: dict[str, Any]) -> Detections:
    """Return Detections of these fields.

    The constructor of a frozen class sets one field after the other the long way, which is a tenth
    of the time that a usual head takes.
    """
    detections = object.__new__(Detections)
    vars(detections).update(_DEFAULTS)
    vars(detections).update(values)
    return detections


class _Masks(np.ndarray[Any, np.dtype[np.bool_]]):
    """Masks that may still be called, as when `masks` was a method."""

    def __call__(self) -> npt.NDArray[np.bool_]:
        warn_renamed("masks()", "the attribute masks")
        return self.view(np.ndarray)


def _on_host(result: _Batch) -> _Batch:
    if result.device == "cpu":
        return result
    values: dict[str, Any] = {
        name: on_host(value) if isinstance(value, CudaArray) else value
        for name, value in vars(result).items()
    }
    return type(result)(**values)


def _rotated_corners(boxes: npt.NDArray[Any], angles: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    x1, y1, x2, y2 = boxes.astype(np.float64).T
    angles = angles.astype(np.float64)
    across = np.stack([np.cos(angles), np.sin(angles)], 1) * ((x2 - x1) / 2)[:, None]
    down = np.stack([-np.sin(angles), np.cos(angles)], 1) * ((y2 - y1) / 2)[:, None]
    centre = np.stack([x1 + x2, y1 + y2], 1) / 2
    corners = [-across - down, across - down, across + down, down - across]
    return np.stack([centre + corner for corner in corners], 1)


def _of_all_or_none(values: list[Any], name: str) -> list[Any] | None:
    missing = sum(value is None for value in values)
    if missing == len(values):
        return None
    if missing:
        raise InvalidArgumentError(
            f"{missing} of {len(values)} detections of one image do not have {name}: give it for "
            "all of them or for none"
        )
    return values


def _import_supervision() -> ModuleType:
    try:
        return importlib.import_module("supervision")
    except ImportError as error:
        raise UnsupportedError(
            "to_supervision() needs the package supervision: pip install supervision"
        ) from error
