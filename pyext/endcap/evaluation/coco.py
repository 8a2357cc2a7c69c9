"""COCO's detection measures by pycocotools, their differences, and the limits that a user set."""

from __future__ import annotations

import contextlib
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from endcap.evaluation import import_package
from endcap.evaluation.annotations import Dataset, Failure, Predictions, Row


@dataclass(frozen=True)
class ClassAccuracy:
    """Average precision of one category; None where it has no object."""

    category_id: int
    name: str
    objects: int  # without crowd regions
    ap50: float | None
    ap50_95: float | None


# Name of a measure in JSON -> name for people, and its place in pycocotools' statistics.
MEASURES = {
    "map50": ("mAP50", 1),
    "map75": ("mAP75", 2),
    "map50_95": ("mAP50-95", 0),
    "map_small": ("mAP50-95 small", 3),
    "map_medium": ("mAP50-95 medium", 4),
    "map_large": ("mAP50-95 large", 5),
    "recall": ("recall (AR 100)", 8),
}
_COMPARED = ("map50", "map50_95")


@dataclass(frozen=True)
class Accuracy:
    """Accuracy over all categories that have objects, and by category.

    Attributes:
        figures: By the names of MEASURES; None where no category has objects. map50 and map75 are
            at IoU 0.5 and 0.75, the others the mean of 0.5, 0.55 ... 0.95. small is below 32 x 32
            pixels, large above 96 x 96. recall: with 100 detections an image and category.
        classes: By category.
    """

    figures: dict[str, float | None]
    classes: tuple[ClassAccuracy, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the figures, and `classes`."""
        return {**self.figures, "classes": [asdict(each) for each in self.classes]}


def measure(dataset: Dataset, predictions: Predictions, category_ids: list[int]) -> Accuracy:
    """Measure predictions against the annotations, in the categories named."""
    category_ids = sorted(category_ids)  # as pycocotools orders them
    evaluated = _evaluate(dataset, predictions, category_ids)
    # By IoU (0.5, 0.55 ... 0.95), recall step, category, area (all first), and max detections.
    precision = evaluated.eval["precision"][:, :, :, 0, -1]
    objects = Counter(row["category_id"] for row in dataset.annotations if not row["iscrowd"])
    return Accuracy(
        {key: _mean(evaluated.stats[place]) for key, (_, place) in MEASURES.items()},
        tuple(
            ClassAccuracy(
                category_id,
                dataset.categories[category_id],
                objects[category_id],
                _mean(precision[0, :, position]),
                _mean(precision[:, :, position]),
            )
            for position, category_id in enumerate(category_ids)
        ),
    )


def _mean(values: Any) -> float | None:
    """Return the mean of the known values; -1 stands where a category has no object."""
    known = np.asarray(values)[np.asarray(values) > -1]
    return float(known.mean()) if known.size else None


def _evaluate(dataset: Dataset, predictions: Predictions, category_ids: list[int]) -> Any:
    coco = import_package("pycocotools.coco")
    cocoeval = import_package("pycocotools.cocoeval")
    found = [
        {**row, "area": row["bbox"][2] * row["bbox"][3], "iscrowd": 0} for row in predictions.rows
    ]
    with contextlib.redirect_stdout(io.StringIO()):  # it prints its progress
        evaluated = cocoeval.COCOeval(
            _index(coco, dataset, dataset.annotations), _index(coco, dataset, found), "bbox"
        )
        evaluated.params.imgIds = list(dataset.images)
        evaluated.params.catIds = category_ids
        evaluated.evaluate()
        evaluated.accumulate()
        evaluated.summarize()
    return evaluated


def _index(coco: Any, dataset: Dataset, rows: Sequence[Row]) -> Any:
    index = coco.COCO()
    index.dataset = {
        "images": [{"id": i} for i in dataset.images],
        "categories": [{"id": i, "name": name} for i, name in dataset.categories.items()],
        # Ids of our own: the matching takes an annotation whose id is 0 for unmatched.
        "annotations": [{**row, "id": number} for number, row in enumerate(rows, start=1)],
    }
    index.createIndex()
    return index


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The figures, failures and problems of an evaluation.

    Attributes:
        served: The server's accuracy; other: that of the reference or of a user's predictions, or
            None.
        compared_with: The file of the other.
        lowest_score: Of all served detections.
        problems: Limits that were broken and what could not be saved, as messages.
    """

    served: Accuracy
    other: Accuracy | None
    compared_with: str | None
    images: int
    detections: int
    lowest_score: float | None
    failures: tuple[Failure, ...]
    notes: tuple[str, ...]
    problems: tuple[str, ...]

    @property
    def objects(self) -> int:
        """How many objects the images have in the measured categories, without crowd regions."""
        return sum(each.objects for each in self.served.classes)

    @property
    def ok(self) -> bool:
        """Whether every image has a result and every limit is kept."""
        return not self.failures and not self.problems

    def to_json(self) -> dict[str, Any]:
        """Return the object that `endcap evaluate --json` prints."""
        return {
            **asdict(self),
            "objects": self.objects,
            "served": self.served.to_json(),
            "other": self.other.to_json() if self.other else None,
            "difference": differences(self.served, self.other) if self.other else None,
        }


def difference(served: float | None, other: float | None) -> float | None:
    """Return how much more the served model has; None where one has no value."""
    return None if served is None or other is None else served - other


def differences(served: Accuracy, other: Accuracy) -> dict[str, float | None]:
    """Return the difference of each measure."""
    return {key: difference(served.figures[key], other.figures[key]) for key in MEASURES}


def broken_limits(
    served: Accuracy,
    other: Accuracy | None,
    *,
    max_difference: float | None,
    min_map50: float | None,
) -> tuple[str, ...]:
    """Return a message for each limit that is not kept; None sets no limit.

    Args:
        served: The server's accuracy.
        other: That of the reference or of a user's predictions.
        max_difference: That mAP50 and mAP50-95 may differ by, in either direction.
        min_map50: That the served mAP50 must reach.
    """
    problems = []
    map50 = served.figures["map50"]
    if min_map50 is not None and (map50 is None or map50 < min_map50):
        problems.append(f"mAP50 is {_format(map50)}, below --min-map50 {min_map50:g}")
    if max_difference is None or other is None:
        return tuple(problems)
    for key in _COMPARED:
        ours, theirs = served.figures[key], other.figures[key]
        apart = difference(ours, theirs)
        if apart is not None and abs(apart) > max_difference:
            problems.append(
                f"{MEASURES[key][0]} is {_format(ours)} served and {_format(theirs)} otherwise, a "
                f"difference of {apart:+.6f}, beyond --max-difference {max_difference:g}"
            )
    return tuple(problems)


def _format(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.6f}"
