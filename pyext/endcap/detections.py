"""Detections and classes of batches and images; single ones are in `endcap.predictions`.

A `Detections` is a batch, an item of it an `ImageDetections`, and an item of that a `Detection`.
What a server returns for an image is in `endcap.client.results`.
"""

from __future__ import annotations

import importlib
import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias, TypeVar, overload

import numpy as np
import numpy.typing as npt

from endcap._arrays import empty
from endcap.cuda_array import CudaArray, on_host
from endcap.errors import InvalidArgumentError, UnsupportedError
from endcap.masks import decode_rle, encode_rle
from endcap.predictions import (
    ClassScore,
    Detection,
    Mask,
    class_name,
    rotated_corners,
    without_none,
)

if TYPE_CHECKING:
    import PIL.Image
    from typing_extensions import Self

# A NumPy array, or with device="cuda" a CudaArray.
Array: TypeAlias = Any

T = TypeVar("T")


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
        keypoints: float32 [N, P, 3], x, y in pixels of the source image, and visibility; None
            where the head has none.
        angles: float32 [N] of heads with angles, radians from the x axis to the side that the
            width measures, clockwise on the screen, in the range of the postprocessing's
            ``angle_range``; else None. Then ``boxes`` are the boxes before they are rotated around
            their centres, not clipped to the image.
        rle: N masks of heads that have them, in COCO's compressed run-length encoding; else None.
        mask_size: height and width of the masks; None without masks.
        packed_masks: the same masks as bits, uint8 [N, height, ceil(width / 8)], where these were
            requested; else None.
        has_source_masks: whether masks have the source image's pixels.
        labels: N names of classes, each None where the class has none; None without labels.
        classifications: of a cascade, N classes by its second network, None for a detection that
            was not classified; else None.
        track_ids: int64 [N], of ``endcap.Tracker``: from 1, -1 for a detection without a track;
            else None.
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
    track_ids: npt.NDArray[np.int64] | None = None

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
        has_tracks = any(each.track_id is not None for each in rows)
        return cls(
            boxes=np.array([each.box for each in rows], np.float32).reshape(-1, 4),
            scores=np.array([each.score for each in rows], np.float32),
            class_ids=np.array([each.class_id for each in rows], np.int32),
            indices=np.array([each.index for each in rows], np.int32),
            keypoints=None if keypoints is None else np.array(keypoints, np.float32),
            angles=None if angles is None else np.array(angles, np.float32),
            rle=None if masks is None else [mask["counts"].encode() for mask in masks],
            mask_size=None if masks is None else (masks[0]["size"][0], masks[0]["size"][1]),
            labels=_of_any([each.label for each in rows]),
            classifications=_of_any([each.classification for each in rows]),
            track_ids=np.array([each.track_id or -1 for each in rows], np.int64)
            if has_tracks
            else None,
        )

    def __len__(self) -> int:
        return len(self.scores)

    def __iter__(self) -> Iterator[Detection]:
        points = None if self.keypoints is None else self.keypoints.tolist()
        tracks = None if self.track_ids is None else self.track_ids.tolist()
        columns: list[Any] = [
            map(tuple, self.boxes.tolist()),
            self.scores.tolist(),
            self.class_ids.tolist(),
            self.labels,
            self.indices.tolist(),
            points and [list(map(tuple, each)) for each in points],
            None if self.angles is None else self.angles.tolist(),
            self._coco_masks(),
            self.classifications,
            tracks and [None if track < 0 else track for track in tracks],
        ]
        for row in zip(*(repeat(None) if each is None else each for each in columns), strict=False):
            yield Detection(*row)

    @overload
    def __getitem__(self, rows: int | np.integer[Any]) -> Detection: ...
    @overload
    def __getitem__(self, rows: slice | npt.NDArray[Any] | list[int]) -> ImageDetections: ...
    def __getitem__(
        self, rows: int | np.integer[Any] | slice | npt.NDArray[Any] | list[int]
    ) -> Detection | ImageDetections:
        if isinstance(rows, (int, np.integer)):
            if not -len(self) <= rows < len(self):
                raise IndexError(f"detection {rows} is out of range: there are {len(self)}")
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
        counts = Counter(map(class_name, self.class_ids.tolist(), self.labels or repeat(None)))
        contents = ", ".join(f"{count} {name}" for name, count in counts.most_common())
        return f"<ImageDetections: {len(self)} detections{contents and f' ({contents})'}>"

    def draw(
        self,
        image: Any,
        *,
        labels: Sequence[str] | None = None,
        upright: bool = True,
        within: tuple[int, int] | None = None,
    ) -> PIL.Image.Image:
        """Return a new picture with boxes and labels, a Pillow image, which notebooks show.

        Masks, keypoints and rotated boxes are drawn, too; see ``endcap.drawing.draw_detections``.

        Args:
            image: the source image: the path or the bytes of a file, a Pillow image, or pixels in
                RGB, uint8 [H,W,3] or [H,W].
            labels: names of classes by id, for detections that carry none.
            upright: whether boxes are in pixels after the EXIF orientation, as they are unless the
                preprocessing ignores it; the orientation is applied to the picture then.
            within: width and height in pixels that the picture is scaled to fit.

        Raises:
            CorruptImageError: a file that Pillow cannot read.
            InvalidArgumentError: not an image.
            OSError: a file that cannot be opened.
        """
        from endcap.drawing.draw import draw_detections
        from endcap.drawing.pictures import open_for_drawing

        with open_for_drawing(image) as picture:
            return draw_detections(picture, self, labels, upright=upright, within=within)

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
        return masks

    def corners(self) -> npt.NDArray[np.float32]:
        """Return the corners of the boxes, rotated where there are angles, float32 [N, 4, 2].

        They are x and y in pixels of the source image, in the order top left, top right, bottom
        right, bottom left of the box before it is rotated.
        """
        angles = np.zeros(len(self)) if self.angles is None else self.angles
        return rotated_corners(self.boxes, angles).astype(np.float32)

    def to_dict(self) -> dict[str, Any]:
        """Return lists of numbers by the names of the attributes, for JSON.

        They are boxes, scores, class_ids and indices, and what else the head gives of labels,
        keypoints, angles, masks (in COCO's format), classifications, and track_ids.
        """
        values: dict[str, Any] = {
            "boxes": self.boxes,
            "scores": self.scores,
            "class_ids": self.class_ids,
            "indices": self.indices,
            "labels": self.labels,
            "keypoints": self.keypoints,
            "angles": self.angles,
            "masks": self._coco_masks(),
            "classifications": self.classifications
            and [each and each.to_dict() for each in self.classifications],
            "track_ids": self.track_ids,
        }
        return {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in without_none(values).items()
        }

    def to_supervision(self) -> Any:
        """Return a ``supervision.Detections``.

        Rotated boxes become their axis-aligned bounds, and their corners [N, 4, 2] are in
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
        try:
            supervision = importlib.import_module("supervision")
        except ImportError as error:
            raise UnsupportedError(
                "to_supervision() needs the package supervision: pip install supervision"
            ) from error
        masks = self.masks
        return supervision.Detections(
            xyxy=boxes,
            confidence=self.scores,
            class_id=self.class_ids.astype(np.int64),
            mask=None if masks is None else masks.view(np.ndarray),
            tracker_id=self.track_ids,
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


class _Batch:
    """Results of a batch, in host memory or on a GPU."""

    scores: Array

    @property
    def device(self) -> str:
        """``cpu`` or ``cuda:N``."""
        return self.scores.device if isinstance(self.scores, CudaArray) else "cpu"

    def to_numpy(self) -> Self:
        """Return the results in host memory; from a GPU they are copied, and waited for.

        Raises:
            CudaError: the work, or earlier work on its stream, failed.
        """
        if self.device == "cpu":
            return self
        values: dict[str, Any] = {name: on_host(value) for name, value in vars(self).items()}
        return type(self)(**values)


@dataclass(frozen=True, eq=False, repr=False)
class Detections(_Batch, Sequence[ImageDetections]):
    """The detections of a batch of B images; rows beyond num_detections are 0, their index -1.

    ``detections[i]`` is image i with its real rows only. With ``device="cuda"`` arrays are
    CudaArray and stay on the GPU, but for ``truncated``, ``dropped`` and ``rle``; then indexing,
    iterating and ``to_supervision`` copy all of them to the host each time: with many images call
    ``to_numpy`` once.

    Attributes:
        num_detections: int32 [B].
        boxes: float32 [B, K, 4], x1, y1, x2, y2 in pixels of the source image.
        scores: float32 [B, K], best first.
        class_ids: int32 [B, K].
        indices: int32 [B, K], the anchor that each box comes from.
        status: int32 [B], ``endcap.Status`` of each image.
        truncated: bool [B], whether max_candidates cut the candidates; None after
            ``Postprocessor.enqueue``, which does not wait to learn it.
        dropped: int32 [B], how many anchors, queries or rows ``on_nan="drop"`` left out; None as
            ``truncated``.
        keypoints: float32 [B, K, P, 3] of heads with keypoints; else None.
        angles: float32 [B, K] of heads with angles, as in ``ImageDetections``; else None.
        rle: for each image its detections' masks in COCO's compressed run-length encoding; None
            where the head has none, and after ``Postprocessor.enqueue``.
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
    dropped: npt.NDArray[np.int32] | None = None

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
        return f"<Detections: {images} images, at most {rows} detections each, {self.device}>"


@dataclass(frozen=True, eq=False, repr=False)
class Classification(_Batch):
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
        return f"<Classification: {len(self)} images, {self.device}>"


def _of_any(values: list[T | None]) -> list[T | None] | None:
    """Return the values, None where none is given."""
    return None if all(each is None for each in values) else values


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
