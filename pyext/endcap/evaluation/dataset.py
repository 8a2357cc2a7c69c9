"""Annotated images: a folder, and a file of annotations in COCO's detection format."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from endcap.errors import InvalidArgumentError
from endcap.evaluation.json_fields import (
    Row,
    read_bbox,
    read_integer,
    read_json,
    read_number,
    read_text,
    rows_of,
)

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
        limit: Takes the first so many images. An annotation without `area` gets its box's. Raises
            InvalidArgumentError when the file is not COCO's format, names images that are not in
            `folder`, or has no object on the images taken.
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
