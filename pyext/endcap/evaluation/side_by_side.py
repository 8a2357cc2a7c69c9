"""Comparison of the server's results for single images with those of the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from endcap.client import ClassScore, Detection, ImageResult, Task
from endcap.errors import EndcapError, InvalidArgumentError
from endcap.evaluation.numpy_heads import box_iou
from endcap.evaluation.reference import Reference

MATCHING_IOU = 0.5
_NO_INDEX = -1

Predicted = Sequence[Detection | ClassScore]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Matched results of the server and the reference for one image.

    A pair that matches is of one class and, of detections, has an IoU greater than MATCHING_IOU.
    only_served, only_reference: results without a partner. The differences are the largest of all
    pairs: of an edge of the boxes, in pixels of the source image, and of the scores; None where no
    pair, or no box, is. `error` says why the reference has none when `status` is not "ok".
    """

    served: int
    reference: int = 0
    matched: int = 0
    only_served: Predicted = ()
    only_reference: Predicted = ()
    box_difference_pixels: float | None = None
    score_difference: float | None = None
    status: str = "ok"
    error: str | None = None

    @property
    def ok(self) -> bool:
        """Whether the reference has a result; it may be another one."""
        return self.status == "ok"

    def to_json(self) -> dict[str, Any]:
        """Return the object `comparison` that `endcap infer --compare --json` prints."""
        if not self.ok:
            return {"status": self.status, "error": self.error}
        return {
            "status": self.status,
            "served": self.served,
            "reference": self.reference,
            "matched": self.matched,
            "only_served": [each.to_dict() for each in self.only_served],
            "only_reference": [each.to_dict() for each in self.only_reference],
            "largest_box_difference_pixels": self.box_difference_pixels,
            "largest_score_difference": self.score_difference,
        }


def check_task(reference: Reference, task: Task) -> None:
    """Raise InvalidArgumentError when the server's model does another task than the reference."""
    if reference.is_classifier != (task is Task.classification):
        raise InvalidArgumentError(
            f"the server's model does {task.value} and the repository's does not; give --compare "
            "the repository that is served"
        )


def compare(reference: Reference, result: ImageResult, labels: Sequence[str] | None) -> Comparison:
    """Run the reference on the file of a result that is ok, and match the two.

    Args:
        reference: The reference.
        result: The server's result for the file.
        labels: Class names by id, for results that only the reference has.
    """
    names = dict(enumerate(labels or ()))
    try:
        encoded = Path(result.image).read_bytes()
        if result.task is Task.classification:
            scores, class_ids = reference.classify(encoded)
            classes = zip(class_ids.tolist(), scores.tolist(), strict=True)
            return match_classes(
                result.classes, [ClassScore(i, score, names.get(i)) for i, score in classes]
            )
        found = zip(*(each.tolist() for each in reference.detect(encoded)), strict=True)
        return match_detections(
            result.detections,
            [Detection(tuple(box), score, i, names.get(i), _NO_INDEX) for box, score, i in found],
        )
    except OSError as error:
        status, reason = "unreadable", f"cannot be read: {error.strerror}"
    except EndcapError as error:
        status, reason = error.status.label, str(error)
    return Comparison(served=len(result.predictions), status=status, error=reason)


def match_detections(served: Sequence[Detection], other: Sequence[Detection]) -> Comparison:
    """Give each served detection, best first, the free partner of the highest IoU."""
    boxes = np.array([each.box for each in other], np.float64).reshape(-1, 4)
    class_ids = np.array([each.class_id for each in other], np.int64)
    free = np.ones(len(other), bool)
    pairs: list[tuple[Detection, Detection]] = []
    unmatched: list[Detection] = []
    for each in sorted(served, key=lambda detection: -detection.score):
        ious = box_iou(np.array(each.box, np.float64), boxes)
        ious[~free | (class_ids != each.class_id)] = 0.0
        best = int(ious.argmax()) if len(ious) else 0
        if len(ious) and ious[best] > MATCHING_IOU:
            free[best] = False
            pairs.append((each, other[best]))
        else:
            unmatched.append(each)
    edges = [
        abs(a - b) for ours, theirs in pairs for a, b in zip(ours.box, theirs.box, strict=True)
    ]
    return Comparison(
        served=len(served),
        reference=len(other),
        matched=len(pairs),
        only_served=unmatched,
        only_reference=[each for each, is_free in zip(other, free, strict=True) if is_free],
        box_difference_pixels=max(edges, default=None),
        score_difference=_largest_score(pairs),
    )


def match_classes(served: Sequence[ClassScore], other: Sequence[ClassScore]) -> Comparison:
    """Pair the results of the same class."""
    by_id = {each.class_id: each for each in other}
    pairs = [(each, by_id[each.class_id]) for each in served if each.class_id in by_id]
    matched = {each.class_id for each, _ in pairs}
    return Comparison(
        served=len(served),
        reference=len(other),
        matched=len(pairs),
        only_served=[each for each in served if each.class_id not in matched],
        only_reference=[each for each in other if each.class_id not in matched],
        score_difference=_largest_score(pairs),
    )


def _largest_score(
    pairs: Sequence[tuple[Detection | ClassScore, Detection | ClassScore]],
) -> float | None:
    return max((abs(ours.score - theirs.score) for ours, theirs in pairs), default=None)
