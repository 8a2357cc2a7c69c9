"""Annotations and predictions: COCO's JSON files, read, checked and written."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import reprlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from endcap.errors import InvalidArgumentError

Row = Mapping[str, Any]


def _read_json(path: Path, source: str) -> Any:
    """Return the content of a JSON file; `source` is its name in messages, in the plural."""
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise InvalidArgumentError(f"{source} cannot be read: {error.strerror}") from error
    except ValueError as error:  # wrong bytes, wrong syntax, a number of thousands of digits
        raise InvalidArgumentError(f"{source} are not JSON: {error}") from error
    except RecursionError as error:
        raise InvalidArgumentError(f"{source} are nested too deep to be COCO's format") from error


@contextlib.contextmanager
def _reading(where: str) -> Iterator[None]:
    """Turn what a row lacks or has wrong into an InvalidArgumentError that says where it stands."""
    try:
        yield
    except KeyError as error:
        raise InvalidArgumentError(f"{where} lacks {error}") from error
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(f"{where} is not in COCO's format: {error}") from error


def _integer(row: Row, key: str) -> int:
    """Return a whole number of 64 bits, which may be written as 1.0; ValueError."""
    value = row[key]
    if isinstance(value, bool) or value != int(value) or not -(2**63) <= value < 2**63:
        raise ValueError(f"{key} is {reprlib.repr(value)}, a whole number of 64 bits is expected")
    return int(value)


def _text(row: Row, key: str) -> str:
    """Return a text that is not empty; ValueError."""
    if not isinstance(row[key], str) or not row[key]:
        raise ValueError(f"{key} is {reprlib.repr(row[key])}, a text is expected")
    return str(row[key])


def _numbers(values: Any, key: str) -> list[float]:
    """Return finite numbers; ValueError."""
    numbers = [float(value) for value in values]
    if not all(map(math.isfinite, numbers)):
        raise ValueError(f"{key} is {reprlib.repr(values)}, finite numbers are expected")
    return numbers


def _read_place(
    row: Row, image_ids: Collection[int], categories: Mapping[int, str]
) -> dict[str, Any]:
    """Return the ids and the box, x y width height, of an annotation or a result; ValueError."""
    image_id, category_id = _integer(row, "image_id"), _integer(row, "category_id")
    if image_id not in image_ids:
        raise ValueError(f"image_id is {image_id}, and no image has that id")
    if category_id not in categories:
        raise ValueError(f"category_id is {category_id}, and no category has that id")
    bbox = _numbers(row["bbox"], "bbox")
    if len(bbox) != 4 or min(bbox[2:]) < 0:
        raise ValueError(f"bbox is {reprlib.repr(bbox)}, x, y and sides from 0 are expected")
    return {"image_id": image_id, "category_id": category_id, "bbox": bbox}


_PARTS = ("images", "annotations", "categories")


@dataclass(frozen=True)
class Dataset:
    """Images in the order of the file, and what is on them.

    Attributes:
        images: Files by id.
        categories: Names by id.
        annotations: COCO's image_id, category_id, bbox, area and iscrowd, which counts neither way.
        other_image_ids: Images of the file that `limit` left out.
    """

    images: Mapping[int, Path]
    categories: Mapping[int, str]
    annotations: tuple[Row, ...]
    other_image_ids: frozenset[int] = frozenset()


def load_dataset(folder: Path, annotations: Path, *, limit: int | None = None) -> Dataset:
    """Read the annotations of images that lie in `folder` under their `file_name`.

    Args:
        folder: The images.
        annotations: COCO's JSON file. An annotation without `area` gets its box's.
        limit: Takes only that many images, the first ones.

    Raises:
        InvalidArgumentError: The file is not COCO's format, names images that are not in `folder`,
            or has no object on the images taken.
    """
    source = f"annotations {annotations}"
    content = _read_json(annotations, source)
    if not isinstance(content, dict) or not all(isinstance(content.get(p), list) for p in _PARTS):
        raise InvalidArgumentError(
            f"{source} are not in COCO's format: an object with the lists {', '.join(_PARTS)} is "
            "expected"
        )
    images, categories, objects = {}, {}, []
    for position, row in enumerate(content["images"]):
        with _reading(f"{source}: images[{position}]"):
            images[_integer(row, "id")] = _path(_text(row, "file_name"), folder)
    for position, row in enumerate(content["categories"]):
        with _reading(f"{source}: categories[{position}]"):
            categories[_integer(row, "id")] = _text(row, "name")
    if len(images) < len(content["images"]) or len(categories) < len(content["categories"]):
        raise InvalidArgumentError(f"{source} have an image or a category id twice")
    for position, row in enumerate(content["annotations"]):
        with _reading(f"{source}: annotations[{position}]"):
            found = _read_place(row, images, categories)
            area = found["bbox"][2] * found["bbox"][3]
            (found["area"],) = _numbers([row.get("area", area)], "area")
            objects.append({**found, "iscrowd": int(bool(row.get("iscrowd", 0)))})
    taken = dict(itertools.islice(images.items(), limit))
    kept = tuple(each for each in objects if each["image_id"] in taken)
    if all(each["iscrowd"] for each in kept):
        some = f"the first {len(taken)}" if len(taken) < len(images) else f"all {len(taken)}"
        raise InvalidArgumentError(f"{source} have no object on {some} images: nothing to measure")
    absent = [path for path in taken.values() if not path.exists()]
    if absent:
        raise InvalidArgumentError(
            f"{len(absent)} of {len(taken)} annotated images are not in folder {folder}, first "
            f"{absent[0]}; give the folder that every file_name starts from"
        )
    others = frozenset(images.keys() - taken.keys())
    return Dataset(taken, dict(sorted(categories.items())), kept, others)


def _path(name: str, folder: Path) -> Path:
    if os.path.isabs(name) or Path(os.path.normpath(name)).parts[:1] in ((), (os.pardir,)):
        raise ValueError(
            f"file_name {name!r} is not a file in folder {folder}; write every file_name from that "
            "folder on"
        )
    return folder / name


@dataclass(frozen=True)
class Failure:
    """An image for which `by` ("server" or "reference") has no result."""

    image: str
    by: str
    status: str
    error: str


@dataclass(frozen=True)
class Predictions:
    """Detections of all images; an image that failed has none.

    Attributes:
        rows: COCO's results: image_id, category_id, bbox, score.
    """

    rows: Sequence[Row]
    failures: tuple[Failure, ...] = ()

    @property
    def lowest_score(self) -> float | None:
        """The lowest score of all detections, None without any."""
        return min((row["score"] for row in self.rows), default=None)


def load_predictions(path: Path, dataset: Dataset) -> Predictions:
    """Read COCO's file of results: a list of image_id, category_id, bbox x y w h, score.

    Images of the annotations that a limit left out are skipped. Raises InvalidArgumentError
    when the file is something else, or names an image or a category that the annotations lack.
    """
    source = f"predictions {path}"
    rows = _read_json(path, source)
    if not isinstance(rows, list):
        raise InvalidArgumentError(
            f"{source} are not COCO's results: a list of objects with image_id, category_id, bbox "
            "and score is expected"
        )
    all_ids = dataset.images.keys() | dataset.other_image_ids
    found = []
    for position, row in enumerate(rows):
        with _reading(f"{source}[{position}]"):
            one = _read_place(row, all_ids, dataset.categories)
            (one["score"],) = _numbers([row["score"]], "score")
            if one["image_id"] in dataset.images:
                found.append(one)
    return Predictions(found)
