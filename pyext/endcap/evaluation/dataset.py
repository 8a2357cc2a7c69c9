"""Annotated images: a folder, and a file of annotations in COCO's detection format."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from endcap.errors import InvalidArgumentError

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

    other_image_ids: images of the file that `limit` left out.
    """

    images: tuple[AnnotatedImage, ...]
    categories: Mapping[int, str]  # id -> name, by id
    annotations: tuple[Annotation, ...]
    other_image_ids: frozenset[int] = frozenset()


def load_dataset(folder: Path, annotations: Path, *, limit: int | None = None) -> Dataset:
    """Reads the annotations of images that lie in `folder` under their `file_name`.

    limit: takes the first so many images. An annotation without `area` gets its box's.
    Raises InvalidArgumentError when the file is not COCO's format, names images that are not there,
    or has no object on the images taken.
    """
    source = f"annotations {annotations}"
    content = _load_json(annotations, source)
    if not isinstance(content, dict) or not all(isinstance(content.get(p), list) for p in _PARTS):
        raise InvalidArgumentError(
            f"{source} are not in COCO's format: an object with the lists {', '.join(_PARTS)} is "
            "expected"
        )
    images = tuple(
        AnnotatedImage(_integer(row, "id", where), folder / _text(row, "file_name", where))
        for where, row in _rows(content["images"], f"{source}: images")
    )
    categories = [
        (_integer(row, "id", where), _text(row, "name", where))
        for where, row in _rows(content["categories"], f"{source}: categories")
    ]
    _check_unique((image.id for image in images), f"{source}: images")
    _check_unique((category_id for category_id, _ in categories), f"{source}: categories")
    image_ids, category_ids = {image.id for image in images}, {each for each, _ in categories}
    objects = [
        _annotation(row, where, image_ids, category_ids)
        for where, row in _rows(content["annotations"], f"{source}: annotations")
    ]
    taken = images[:limit]
    taken_ids = {image.id for image in taken}
    kept = tuple(each for each in objects if each.image_id in taken_ids)
    if not any(not each.crowd for each in kept):
        some = f"the first {len(taken)}" if len(taken) < len(images) else f"all {len(taken)}"
        raise InvalidArgumentError(f"{source} have no object on {some} images: nothing to measure")
    _check_files(taken, folder)
    return Dataset(taken, dict(sorted(categories)), kept, frozenset(image_ids - taken_ids))


def _load_json(path: Path, source: str) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidArgumentError(f"{source} cannot be read: {error.strerror}") from error
    except ValueError as error:  # no UTF-8, no JSON
        raise InvalidArgumentError(f"{source} are not JSON: {error}") from error


def _rows(rows: list[Any], name: str) -> Iterable[tuple[str, dict[str, Any]]]:
    for position, row in enumerate(rows):
        where = f"{name}[{position}]"
        if not isinstance(row, dict):
            raise InvalidArgumentError(f"{where} is no object in braces")
        yield where, row


def _integer(row: Mapping[str, Any], key: str, where: str) -> int:
    value = row.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidArgumentError(f"{where} has {key} {value!r}; a whole number is expected")
    return value


def _text(row: Mapping[str, Any], key: str, where: str) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value:
        raise InvalidArgumentError(f"{where} has {key} {value!r}; a text is expected")
    return value


def read_bbox(row: Mapping[str, Any], where: str) -> tuple[float, float, float, float]:
    """Returns x, y, width, height of an annotation or a result; InvalidArgumentError."""
    box = row.get("bbox")
    if isinstance(box, list) and len(box) == 4 and all(map(_is_number, box)):
        x, y, width, height = map(float, box)
        if width >= 0 and height >= 0:
            return x, y, width, height
    raise InvalidArgumentError(
        f"{where} has bbox {box!r}; x, y, width, height are expected, with no negative side"
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _annotation(
    row: Mapping[str, Any], where: str, image_ids: set[int], category_ids: set[int]
) -> Annotation:
    image_id, category_id = _integer(row, "image_id", where), _integer(row, "category_id", where)
    if image_id not in image_ids:
        raise InvalidArgumentError(f"{where} has image_id {image_id}, and no image has that id")
    if category_id not in category_ids:
        raise InvalidArgumentError(
            f"{where} has category_id {category_id}, and no category has that id"
        )
    box = read_bbox(row, where)
    area = row.get("area", box[2] * box[3])
    if not _is_number(area) or area < 0:
        raise InvalidArgumentError(f"{where} has area {area!r}; a number from 0 is expected")
    return Annotation(image_id, category_id, box, float(area), bool(row.get("iscrowd", 0)))


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
