"""Candidates -> the rows of the detection outputs of one image."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tests.reference.boxes import batched_nms
from tests.reference.heads import Candidate

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Rows:
    """K rows; from num_detections on they are 0 and their index is -1."""

    num_detections: int
    boxes: Floats
    scores: Floats
    class_ids: npt.NDArray[np.int32]
    indices: npt.NDArray[np.int32]


def to_source(box: Floats, geometry: Floats | None) -> Floats:
    """x_source = (x - pad_x) / scale_x, clipped to the picture; y likewise; all in float32."""
    if geometry is None:
        return box
    scale_x, scale_y, pad_x, pad_y, image_w, image_h = geometry[:6]
    x = np.clip((box[[0, 2]] - pad_x) / scale_x, np.float32(0), image_w)
    y = np.clip((box[[1, 3]] - pad_y) / scale_y, np.float32(0), image_h)
    return np.array([x[0], y[0], x[1], y[1]], np.float32)


def has_area(box: Floats) -> bool:
    return bool(box[0] < box[2] and box[1] < box[3])


def pack(
    ranked: list[Candidate],
    *,
    max_detections: int,
    geometry: Floats | None = None,
    iou_threshold: float | None = None,
    class_agnostic: bool = False,
) -> Rows:
    """Suppresses (unless iou_threshold is None), maps back and fills the rows.

    Boxes that have no area when they are mapped back are left out before.
    """
    if geometry is not None:
        ranked = [c for c in ranked if has_area(to_source(c.box, geometry))]
    kept = ranked
    if iou_threshold is not None and ranked:
        boxes = np.stack([c.box for c in ranked])
        scores = np.array([c.score for c in ranked], np.float32)
        class_ids = np.array([0 if class_agnostic else c.class_id for c in ranked])
        kept = [ranked[i] for i in batched_nms(boxes, scores, class_ids, iou_threshold)]
    kept = kept[:max_detections]
    rows = Rows(
        len(kept),
        np.zeros((max_detections, 4), np.float32),
        np.zeros(max_detections, np.float32),
        np.zeros(max_detections, np.int32),
        np.full(max_detections, -1, np.int32),
    )
    for i, candidate in enumerate(kept):
        rows.boxes[i] = to_source(candidate.box, geometry)
        rows.scores[i] = candidate.score
        rows.class_ids[i] = candidate.class_id
        rows.indices[i] = candidate.index
    return rows
