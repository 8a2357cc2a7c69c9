"""Detections of a whole data set, and COCO's file of results that holds them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.errors import InvalidArgumentError
from endcap.evaluation.dataset import Dataset, read_bbox

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


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
        """Returns the object that `--json` prints."""
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
        """Returns the rows of COCO's results: image_id, category_id, bbox x y w h, score."""
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

    def save(self, path: Path) -> None:
        """Writes COCO's file of results; OSError where that cannot be."""
        path.write_text(json.dumps(self.to_coco()), encoding="utf-8")


def load_predictions(path: Path, dataset: Dataset) -> Predictions:
    """Reads COCO's file of results: a list of image_id, category_id, bbox x y w h, score.

    Images of the annotations that a limit left out are passed over. Raises InvalidArgumentError
    when the file is something else, or names an image or a category that the annotations lack.
    """
    source = f"predictions {path}"
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidArgumentError(f"{source} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InvalidArgumentError(f"{source} are not JSON: {error}") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InvalidArgumentError(
            f"{source} are not COCO's results: a list of objects with image_id, category_id, bbox "
            "and score is expected"
        )
    image_ids = {image.id for image in dataset.images}
    grouped: dict[int, list[tuple[tuple[float, ...], float, int]]] = defaultdict(list)
    for position, row in enumerate(rows):
        where = f"{source}[{position}]"
        image_id, category_id, score = (row.get(k) for k in ("image_id", "category_id", "score"))
        if image_id not in image_ids and image_id not in dataset.other_image_ids:
            raise InvalidArgumentError(f"{where} has image_id {image_id!r}; no image has that id")
        if category_id not in dataset.categories:
            raise InvalidArgumentError(
                f"{where} has category_id {category_id!r}; no category has that id"
            )
        if not isinstance(score, (int, float)) or not np.isfinite(score):
            raise InvalidArgumentError(f"{where} has score {score!r}; a number is expected")
        if image_id in image_ids:
            grouped[image_id].append((read_bbox(row, where), float(score), category_id))
    return Predictions({image_id: _as_arrays(each) for image_id, each in grouped.items()})


def _as_arrays(rows: list[tuple[tuple[float, ...], float, int]]) -> ImagePredictions:
    boxes, scores, category_ids = zip(*rows, strict=True)
    return ImagePredictions(
        np.array(boxes, np.float64), np.array(scores, np.float64), np.array(category_ids, np.int64)
    )
