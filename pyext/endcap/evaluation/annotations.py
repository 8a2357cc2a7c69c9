"""Annotations and predictions: COCO's JSON files, read, checked and written."""

from __future__ import annotations

import json
import math
import os
import reprlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from endcap.errors import InvalidArgumentError

Row = Mapping[str, Any]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def read_json(path: Path, source: str) -> Any:
    """Return what a file of JSON holds, in UTF-8 or UTF-16 with or without a byte order mark.

    Args:
        path: The file.
        source: Its name in messages, in the plural.

    Raises:
        InvalidArgumentError: It cannot be read, or is not JSON.
    """
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise InvalidArgumentError(f"{source} cannot be read: {error.strerror}") from error
    except ValueError as error:  # wrong bytes, no JSON, a number of thousands of digits
        raise InvalidArgumentError(f"{source} are not JSON: {error}") from error
    except RecursionError as error:
        raise InvalidArgumentError(f"{source} are nested too deep to be COCO's format") from error


def rows_of(rows: list[Any], name: str) -> Iterable[tuple[str, Row]]:
    """Yield where each row stands, for messages, and the row; InvalidArgumentError for others."""
    for position, row in enumerate(rows):
        where = f"{name}[{position}]"
        if not isinstance(row, dict):
            raise InvalidArgumentError(f"{where} is no object in braces")
        yield where, row


def read_integer(row: Row, key: str, where: str) -> int:
    """Return a whole number of 64 bits, which may be written as 1.0; InvalidArgumentError."""
    value = row.get(key)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
        raise InvalidArgumentError(
            f"{where} has {key} {reprlib.repr(value)}; a whole number of at most 64 bits is "
            "expected"
        )
    return value


def read_text(row: Row, key: str, where: str) -> str:
    """Return a text that is not empty; InvalidArgumentError."""
    value = row.get(key)
    if not isinstance(value, str) or not value:
        raise InvalidArgumentError(f"{where} has {key} {reprlib.repr(value)}; a text is expected")
    return value


def read_number(row: Row, key: str, where: str) -> float:
    """Return a finite number; InvalidArgumentError."""
    number = _finite(row.get(key))
    if number is None:
        raise InvalidArgumentError(
            f"{where} has {key} {reprlib.repr(row.get(key))}; a finite number is expected"
        )
    return number


def read_bbox(row: Row, where: str) -> tuple[float, float, float, float]:
    """Return x, y, width, height of an annotation or a result; InvalidArgumentError."""
    box = row.get("bbox")
    sides = [_finite(side) for side in box] if isinstance(box, list) else []
    match sides:
        case [float(x), float(y), float(width), float(height)] if width >= 0 and height >= 0:
            return x, y, width, height
    raise InvalidArgumentError(
        f"{where} has bbox {reprlib.repr(box)}; x, y, width, height are expected, with no negative "
        "side"
    )


def _finite(value: Any) -> float | None:
    """Return a number as float; None for other values, and those too large for one."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


_PARTS = ("images", "annotations", "categories")


@dataclass(frozen=True)
class AnnotatedImage:
    """One image: its id in the annotations, and its file."""

    id: int
    path: Path


@dataclass(frozen=True)
class Annotation:
    """One object: x, y, width, height in pixels; a crowd region counts neither way."""

    image_id: int
    category_id: int
    bbox: tuple[float, float, float, float]
    area: float
    crowd: bool


@dataclass(frozen=True)
class Dataset:
    """Images in the order of the file, and what is on them.

    Attributes:
        other_image_ids: Images of the file that `limit` left out.
    """

    images: tuple[AnnotatedImage, ...]
    categories: Mapping[int, str]  # id -> name, by id
    annotations: tuple[Annotation, ...]
    other_image_ids: frozenset[int] = frozenset()


def load_dataset(folder: Path, annotations: Path, *, limit: int | None = None) -> Dataset:
    """Read the annotations of images that lie in `folder` under their `file_name`.

    Args:
        folder: The images.
        annotations: COCO's JSON file. An annotation without `area` gets its box's.
        limit: Takes the first so many images.

    Raises:
        InvalidArgumentError: The file is not COCO's format, names images that are not in `folder`,
            or has no object on the images taken.
    """
    source = f"annotations {annotations}"
    content = read_json(annotations, source)
    if not isinstance(content, dict) or not all(isinstance(content.get(p), list) for p in _PARTS):
        raise InvalidArgumentError(
            f"{source} are not in COCO's format: an object with the lists {', '.join(_PARTS)} is "
            "expected"
        )
    images = tuple(
        _image(row, where, folder) for where, row in rows_of(content["images"], f"{source}: images")
    )
    categories = [
        (read_integer(row, "id", where), read_text(row, "name", where))
        for where, row in rows_of(content["categories"], f"{source}: categories")
    ]
    _check_unique((image.id for image in images), f"{source}: images")
    _check_unique((category_id for category_id, _ in categories), f"{source}: categories")
    image_ids, category_ids = {image.id for image in images}, {each for each, _ in categories}
    objects = [
        _annotation(row, where, image_ids, category_ids)
        for where, row in rows_of(content["annotations"], f"{source}: annotations")
    ]
    taken = images[:limit]
    taken_ids = {image.id for image in taken}
    kept = tuple(each for each in objects if each.image_id in taken_ids)
    if not any(not each.crowd for each in kept):
        some = f"the first {len(taken)}" if len(taken) < len(images) else f"all {len(taken)}"
        raise InvalidArgumentError(f"{source} have no object on {some} images: nothing to measure")
    _check_files(taken, folder)
    return Dataset(taken, dict(sorted(categories)), kept, frozenset(image_ids - taken_ids))


def _image(row: Row, where: str, folder: Path) -> AnnotatedImage:
    name = read_text(row, "file_name", where)
    if os.path.isabs(name) or Path(os.path.normpath(name)).parts[:1] in ((), (os.pardir,)):
        raise InvalidArgumentError(
            f"{where} has file_name {name!r}, which is no file in folder {folder}; write every "
            "file_name from that folder on"
        )
    return AnnotatedImage(read_integer(row, "id", where), folder / name)


def _annotation(row: Row, where: str, image_ids: set[int], category_ids: set[int]) -> Annotation:
    image_id = read_integer(row, "image_id", where)
    category_id = read_integer(row, "category_id", where)
    if image_id not in image_ids:
        raise InvalidArgumentError(f"{where} has image_id {image_id}, and no image has that id")
    if category_id not in category_ids:
        raise InvalidArgumentError(
            f"{where} has category_id {category_id}, and no category has that id"
        )
    box = read_bbox(row, where)
    area = read_number({"area": box[2] * box[3], **row}, "area", where)
    if area < 0:
        raise InvalidArgumentError(f"{where} has area {area:g}; a number from 0 is expected")
    return Annotation(image_id, category_id, box, area, bool(row.get("iscrowd", 0)))


def _check_unique(ids: Iterable[int], name: str) -> None:
    seen: set[int] = set()
    for each in ids:
        if each in seen:
            raise InvalidArgumentError(f"{name} has the id {each} twice")
        seen.add(each)


def _check_files(images: tuple[AnnotatedImage, ...], folder: Path) -> None:
    absent = [image.path for image in images if not image.path.exists()]
    if absent:
        raise InvalidArgumentError(
            f"{len(absent)} of {len(images)} annotated images are not in folder {folder}, first "
            f"{absent[0]}; give the folder that every file_name starts from"
        )


@dataclass(frozen=True)
class ImagePredictions:
    """Detections of one image, in pixels of the picture after EXIF orientation."""

    boxes_xywh: Floats  # [N, 4]
    scores: Floats  # [N]
    category_ids: Integers  # [N]


@dataclass(frozen=True)
class Failure:
    """An image for which `by` ("server" or "reference") has no result."""

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

    Images of the annotations that a limit left out are skipped. Raises InvalidArgumentError
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
