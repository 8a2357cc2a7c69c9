"""Detections to classify: rows of a detector, their crops in batches, and their classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from endcap.errors import InvalidArgumentError
from endcap.triton.cascade_settings import CascadeSettings

NOT_CLASSIFIED = -1
# Outputs of a detector that are read; it may have others.
READ_OUTPUTS = ("num_detections", "detection_boxes", "detection_scores", "detection_classes")


@dataclass(frozen=True)
class Detections:
    """Rows of N images, K each; the first `counts` of them count.

    Args:
        shape: of scores and the like as the detector gave it, [N, K], or [K] of a model without
            batches.
        counts: int64 [N], 0 to K.
        boxes: float32 [N, K, 4], x1, y1, x2, y2 in pixels of the oriented image.
        scores: float32 [N, K], best first.
        class_ids: int32 [N, K].
    """

    shape: tuple[int, ...]
    counts: npt.NDArray[np.int64]
    boxes: npt.NDArray[np.float32]
    scores: npt.NDArray[np.float32]
    class_ids: npt.NDArray[np.int32]


@dataclass(frozen=True)
class Regions:
    """Regions of one image that one model cuts out.

    Args:
        rois_model: the model that does it.
        image: the image's index in its request.
        rows: int64 [R], the rows of the detections, ascending.
        boxes: float32 [R, 4], x1, y1, x2, y2 in pixels of the oriented image.
        classifiers: the model that each region is for.
    """

    rois_model: str
    image: int
    rows: npt.NDArray[np.int64]
    boxes: npt.NDArray[np.float32]
    classifiers: tuple[str, ...]


def read_detections(outputs: Mapping[str, npt.NDArray[Any]]) -> Detections:
    """Return a detector's outputs as rows of images.

    Args:
        outputs: `READ_OUTPUTS` by name, with or without a batch dimension in front.

    Raises:
        InvalidArgumentError: one is missing, or has not the shape of the others.
    """
    missing = [name for name in READ_OUTPUTS if name not in outputs]
    if missing:
        raise InvalidArgumentError(f"it gave no {' and no '.join(missing)}")
    counts, boxes, scores, class_ids = (outputs[name] for name in READ_OUTPUTS)
    rows = scores.shape
    if not (
        len(rows) in (1, 2)
        and class_ids.shape == rows
        and boxes.shape == (*rows, 4)
        and counts.shape == (*rows[:-1], 1)
    ):
        shapes = ", ".join(f"{name} {list(outputs[name].shape)}" for name in READ_OUTPUTS)
        raise InvalidArgumentError(f"its outputs do not belong together: {shapes}")
    images, most = counts.size, rows[-1]
    return Detections(
        shape=rows,
        counts=np.clip(counts.reshape(images).astype(np.int64), 0, most),
        boxes=boxes.reshape(images, most, 4),
        scores=scores.reshape(images, most),
        class_ids=class_ids.reshape(images, most),
    )


def choose_regions(detections: Detections, settings: CascadeSettings) -> list[Regions]:
    """Return the regions to cut out: rows with a route and a score over the threshold.

    Returns:
        One item for each image and each model that cuts regions out of it; none for an image
        without such a row.
    """
    chosen = []
    for image, count in enumerate(detections.counts):
        by_model: dict[str, tuple[list[int], list[str]]] = {}
        # The core compares in double precision as well.
        scores = detections.scores[image, :count].astype(np.float64)
        for row in np.flatnonzero(scores > settings.classify_threshold):
            route = settings.classifiers.of(int(detections.class_ids[image, row]))
            if route is not None:
                rows, classifiers = by_model.setdefault(route.rois_model, ([], []))
                rows.append(int(row))
                classifiers.append(route.classifier)
        for model, (rows, classifiers) in by_model.items():
            boxes = detections.boxes[image, rows]
            chosen.append(Regions(model, image, np.array(rows), boxes, tuple(classifiers)))
    return chosen


@dataclass(frozen=True)
class Crops:
    """Tensors of one image for one classifier, and the detections that they show.

    Args:
        classifier: the model that they are for.
        request: index of the request that they belong to.
        image: the image's index in its request.
        rows: int64 [R], rows of the detections, ascending.
        images: [R, ...], as the rois model gave them.
    """

    classifier: str
    request: int
    image: int
    rows: npt.NDArray[np.int64]
    images: npt.NDArray[Any]

    def part(self, start: int, stop: int) -> Crops:
        """Return some of them, without a copy."""
        kept = slice(start, stop)
        return Crops(self.classifier, self.request, self.image, self.rows[kept], self.images[kept])


class BestClassRows:
    """Best class of each detection of a request, filled in as responses come.

    Args:
        shape: of the detections' rows, [N, K] or [K].
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._ids = np.full(shape, NOT_CLASSIFIED, np.int32)
        self._scores = np.zeros(shape, np.float32)
        self._labels = np.full(shape, b"", np.object_)

    def put(self, image: int, rows: npt.NDArray[np.int64], best: BestClasses) -> None:
        """Write the classes of some rows of an image."""
        for all_rows, values in (
            (self._ids, best.ids),
            (self._scores, best.scores),
            (self._labels, best.labels),
        ):
            all_rows.reshape(-1, all_rows.shape[-1])[image, rows] = values

    def outputs(self) -> dict[str, npt.NDArray[Any]]:
        """Return the output tensors by name."""
        return {
            "class_ids": self._ids,
            "class_scores": self._scores,
            "class_labels": self._labels,
        }


@dataclass(frozen=True)
class BestClasses:
    """Of B crops: ids int32 [B], scores float32 [B], labels bytes [B]."""

    ids: npt.NDArray[np.int32]
    scores: npt.NDArray[np.float32]
    labels: npt.NDArray[np.object_]

    def part(self, start: int, stop: int) -> BestClasses:
        """Return some of them."""
        kept = slice(start, stop)
        return BestClasses(self.ids[kept], self.scores[kept], self.labels[kept])


# NumPy's letters for what each may be; strings come as objects.
_KINDS = {
    "class_ids": ("iu", "integers"),
    "class_scores": ("f", "floating-point numbers"),
    "class_labels": ("O", "strings"),
}
CLASS_OUTPUTS = tuple(_KINDS)


def sort_crops(
    regions: Regions, outputs: Mapping[str, npt.NDArray[Any]], *, request: int
) -> list[Crops]:
    """Return the crops of one image by classifier, without those that could not be cut out.

    Args:
        regions: those that were requested.
        outputs: ``images`` [R, ...] and ``status`` int32 [R] of the rois model.
        request: index of the request that the image belongs to.

    Raises:
        InvalidArgumentError: an output is missing, or has not a row for each region.
    """
    count = len(regions.rows)
    for name in ("images", "status"):
        if name not in outputs:
            raise InvalidArgumentError(f"it gave no {name}")
        if outputs[name].shape[:1] != (count,):
            shape = list(outputs[name].shape)
            raise InvalidArgumentError(f"it gave {name} {shape} for {count} regions")
    cut_out = outputs["status"].reshape(count, -1)[:, 0] == 0
    names = np.array(regions.classifiers)
    sorted_crops = []
    for name in dict.fromkeys(regions.classifiers):
        wanted = cut_out & (names == name)
        if wanted.any():
            images = outputs["images"] if wanted.all() else outputs["images"][wanted]
            rows = regions.rows[wanted]
            sorted_crops.append(Crops(name, request, regions.image, rows, images))
    return sorted_crops


def in_batches(crops: Iterable[Crops], size: int) -> list[list[Crops]]:
    """Put crops into batches of at most `size` tensors.

    A batch is for one classifier, and its tensors are of one shape; crops keep their order.
    """
    open_batches: dict[tuple[Any, ...], list[Crops]] = {}
    batches: list[list[Crops]] = []
    for each in crops:
        key = (each.classifier, each.images.shape[1:], each.images.dtype)
        start = 0
        while start < len(each.rows):
            batch = open_batches.get(key)
            room = 0 if batch is None else size - sum(len(part.rows) for part in batch)
            if batch is None or room == 0:
                batch, room = [], size
                open_batches[key] = batch
                batches.append(batch)
            batch.append(each.part(start, start + room))
            start += room
    return batches


def joined(batch: list[Crops]) -> npt.NDArray[Any]:
    """Return the tensors of a batch as one [B, ...]; without a copy where they are one already."""
    if len(batch) == 1:
        return batch[0].images
    return np.concatenate([crops.images for crops in batch])


def read_best_classes(outputs: Mapping[str, npt.NDArray[Any]], count: int) -> BestClasses:
    """Return the best class of each of `count` crops from a classifier's outputs, best first each.

    Raises:
        InvalidArgumentError: ``class_ids`` or ``class_scores`` is missing; or one has not a row for
            each crop, or is of another kind: integers, floating-point numbers, and strings for
            ``class_labels``.
    """
    columns: dict[str, npt.NDArray[Any]] = {}
    for name in CLASS_OUTPUTS:
        if name in outputs:
            shape = outputs[name].shape
            if shape[:1] != (count,) or outputs[name].size < count:
                raise InvalidArgumentError(f"it gave {name} {list(shape)} for {count} crops")
            kinds, kind = _KINDS[name]
            if outputs[name].dtype.kind not in kinds:
                raise InvalidArgumentError(f"it gave {name} of {outputs[name].dtype}, not {kind}")
            columns[name] = outputs[name].reshape(count, -1)[:, 0]
        elif name != "class_labels":
            raise InvalidArgumentError(f"it gave no {name}")
    labels = columns.get("class_labels", np.full(count, b"", np.object_))
    return BestClasses(columns["class_ids"], columns["class_scores"], labels)
