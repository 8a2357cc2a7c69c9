"""Detections of a whole data set, and COCO's file of results that holds them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from endcap.errors import InvalidArgumentError
from endcap.evaluation.arrays import Floats, Integers
from endcap.evaluation.dataset import Dataset
from endcap.evaluation.json_fields import (
    read_bbox,
    read_integer,
    read_json,
    read_number,
    rows_of,
)


@dataclass(frozen=True)
class ImagePredictions:
    """Detections of one image, in pixels of the upright picture."""

    boxes_xywh: Floats  # [N, 4]
    scores: Floats  # [N]
    category_ids: Integers  # [N]


@dataclass(frozen=True)
class Failure:
    """An image that `by` ("server" or "reference") could not answer."""

    image: str
    by: str
    status: str
    error: str

    def to_json(self) -> dict[str, str]:
        """Return the object that `--json` prints."""
        return {"image": self.image, "by": self.by, "status": self.status, "error": self.error}


@dataclass(frozen=True)
class Predictions:
    """Detections by image id; an image that failed, or is not named, has none."""

    by_image: Mapping[int, ImagePredictions]
    failures: tuple[Failure, ...] = ()

    def __len__(self) -> int:
        return sum(len(each.scores) for each in self.by_image.values())

    @property
    def lowest_score(self) -> float | None:
        """The lowest score of all detections, None without any."""
        lows = [float(each.scores.min()) for each in self.by_image.values() if len(each.scores)]
        return min(lows, default=None)

    def to_coco(self) -> list[dict[str, Any]]:
        """Return the rows of COCO's results: image_id, category_id, bbox x y w h, score."""
        return [
            {"image_id": image_id, "category_id": category_id, "bbox": box, "score": score}
            for image_id, each in self.by_image.items()
            for category_id, box, score in zip(
                each.category_ids.tolist(),
                each.boxes_xywh.tolist(),
                each.scores.tolist(),
                strict=True,
            )
        ]

    def write(self, stream: TextIO) -> None:
        """Write COCO's file of results."""
        stream.write(json.dumps(self.to_coco(), allow_nan=False))


def load_predictions(path: Path, dataset: Dataset) -> Predictions:
    """Read COCO's file of results: a list of image_id, category_id, bbox x y w h, score.

    Images of the annotations that a limit left out are passed over. Raises InvalidArgumentError
    when the file is something else, or names an image or a category that the annotations lack.
    """
    source = f"predictions {path}"
    rows = read_json(path, source)
    if not isinstance(rows, list):
        raise InvalidArgumentError(
            f"{source} are not COCO's results: a list of objects with image_id, category_id, bbox "
            "and score is expected"
        )
    image_ids = {image.id for image in dataset.images}
    grouped: dict[int, list[tuple[tuple[float, ...], float, int]]] = defaultdict(list)
    for where, row in rows_of(rows, source):
        image_id = read_integer(row, "image_id", where)
        category_id = read_integer(row, "category_id", where)
        if image_id not in image_ids and image_id not in dataset.other_image_ids:
            raise InvalidArgumentError(f"{where} has image_id {image_id}; no image has that id")
        if category_id not in dataset.categories:
            raise InvalidArgumentError(
                f"{where} has category_id {category_id}; no category has that id"
            )
        found = read_bbox(row, where), read_number(row, "score", where), category_id
        if image_id in image_ids:
            grouped[image_id].append(found)
    return Predictions({image_id: _as_arrays(each) for image_id, each in grouped.items()})


def _as_arrays(rows: list[tuple[tuple[float, ...], float, int]]) -> ImagePredictions:
    boxes, scores, category_ids = zip(*rows, strict=True)
    return ImagePredictions(
        np.array(boxes, np.float64), np.array(scores, np.float64), np.array(category_ids, np.int64)
    )
