"""COCO's detection measures, by pycocotools."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.evaluation.dataset import Dataset
from endcap.evaluation.errors import import_package
from endcap.evaluation.predictions import Predictions

_MAX_DETECTIONS = (1, 10, 100)  # per image and category
_ALL_AREAS = "all"


@dataclass(frozen=True)
class ClassAccuracy:
    """Average precision of one category; None where it has no object."""

    category_id: int
    name: str
    objects: int  # without crowd regions
    ap50: float | None
    ap50_95: float | None


@dataclass(frozen=True)
class Accuracy:
    """Means over the categories that have objects; None where none has.

    map50 and map75 are at IoU 0.5 and 0.75, the others the mean of 0.5, 0.55 ... 0.95. small is
    below 32 x 32 pixels, large above 96 x 96. recall: with 100 detections an image and category.
    """

    map50: float | None
    map75: float | None
    map50_95: float | None
    map_small: float | None
    map_medium: float | None
    map_large: float | None
    recall: float | None
    classes: tuple[ClassAccuracy, ...]


def measure(dataset: Dataset, predictions: Predictions, category_ids: list[int]) -> Accuracy:
    """Measure predictions against the annotations, in the categories named."""
    category_ids = sorted(category_ids)  # as pycocotools orders them
    evaluated = _evaluate(dataset, predictions, category_ids)
    precision, recall = evaluated.eval["precision"], evaluated.eval["recall"]
    thresholds = np.array(evaluated.params.iouThrs)
    areas: list[str] = evaluated.params.areaRngLbl

    # precision is [IoU, recall step, category, area, max detections], recall without the second.
    def average(
        iou: float | None = None, category: int | None = None, area: str = _ALL_AREAS
    ) -> float | None:
        rows = slice(None) if iou is None else np.flatnonzero(np.isclose(thresholds, iou))
        columns = slice(None) if category is None else slice(category, category + 1)
        return _mean(precision[rows][:, :, columns, areas.index(area), -1])

    objects = dict.fromkeys(category_ids, 0)
    for each in dataset.annotations:
        if not each.crowd and each.category_id in objects:
            objects[each.category_id] += 1
    return Accuracy(
        map50=average(0.5),
        map75=average(0.75),
        map50_95=average(),
        map_small=average(area="small"),
        map_medium=average(area="medium"),
        map_large=average(area="large"),
        recall=_mean(recall[:, :, areas.index(_ALL_AREAS), -1]),
        classes=tuple(
            ClassAccuracy(
                category_id,
                dataset.categories[category_id],
                objects[category_id],
                average(0.5, position),
                average(None, position),
            )
            for position, category_id in enumerate(category_ids)
        ),
    )


def _mean(values: NDArray[np.float64]) -> float | None:
    known = values[values > -1]  # -1 stands where a category has no object
    return float(known.mean()) if known.size else None


def _evaluate(dataset: Dataset, predictions: Predictions, category_ids: list[int]) -> Any:
    coco = import_package("pycocotools.coco")
    cocoeval = import_package("pycocotools.cocoeval")
    truth = [
        {
            "image_id": each.image_id,
            "category_id": each.category_id,
            "bbox": list(each.bbox),
            "area": each.area,
            "iscrowd": int(each.crowd),
        }
        for each in dataset.annotations
    ]
    found = [
        {**row, "area": row["bbox"][2] * row["bbox"][3], "iscrowd": 0}
        for row in predictions.to_coco()
    ]
    with contextlib.redirect_stdout(io.StringIO()):  # it prints its progress
        evaluated = cocoeval.COCOeval(
            _index(coco, dataset, truth), _index(coco, dataset, found), "bbox"
        )
        evaluated.params.imgIds = [image.id for image in dataset.images]
        evaluated.params.catIds = category_ids
        evaluated.params.maxDets = list(_MAX_DETECTIONS)
        evaluated.evaluate()
        evaluated.accumulate()
    return evaluated


def _index(coco: Any, dataset: Dataset, rows: list[dict[str, Any]]) -> Any:
    index = coco.COCO()
    index.dataset = {
        "images": [{"id": image.id} for image in dataset.images],
        "categories": [{"id": i, "name": name} for i, name in dataset.categories.items()],
        # Ids of our own: the matching takes an annotation whose id is 0 for unmatched.
        "annotations": [{**row, "id": number} for number, row in enumerate(rows, start=1)],
    }
    index.createIndex()
    return index
