"""Detections of several images as a detector answers them, and the rows of them to classify."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from endcap.errors import InvalidArgumentError
from endcap.triton.cascade_settings import CascadeSettings

# What is read of a detector's answer, whatever else it has.
READ_OUTPUTS = ("num_detections", "detection_boxes", "detection_scores", "detection_classes")


@dataclass(frozen=True)
class Detections:
    """Rows of N images, K each; the first `counts` of them count.

    Args:
        shape: of scores and the like as the detector gave it, [N, K], or [K] of a model without
            batches.
        counts: int64 [N], 0 to K.
        boxes: float32 [N, K, 4], x1, y1, x2, y2 in pixels of the upright image.
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
    """What one model is to cut out of one image.

    Args:
        rois_model: the model that does it.
        image: the image's index in its request.
        rows: int64 [R], the rows of the detections, ascending.
        boxes: float32 [R, 4], x1, y1, x2, y2 in pixels of the upright image.
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
    """Return what is to be cut out: rows that count, have a route, and a score over the threshold.

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
