"""What became of images, in the formats that other programs read: JSON, CSV, COCO."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import endcap
from endcap._upright import upright_size
from endcap.client import ClassScore, Detection, ImageResult

CSV_COLUMNS = ("image", "status", "class_id", "label", "score", "x1", "y1", "x2", "y2")
# pycocotools takes an annotation of id 0 for none, and the ids of COCO's own classes start at 1.
_FIRST_COCO_ID = 1


def as_json(results: Sequence[ImageResult]) -> str:
    """Returns a JSON list with one object per image, each on its line; see ImageResult.to_json."""
    return json_lines([result.to_json() for result in results])


def as_csv(results: Sequence[ImageResult]) -> str:
    """Returns a header and a row per detection or class; CSV_COLUMNS names the columns.

    A class has no box. An image without an answer has one row all the same, its cells empty from
    class_id on.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    empty: tuple[object, ...] = ("",) * (len(CSV_COLUMNS) - 2)
    for result in results:
        rows: list[tuple[object, ...]] = [
            (each.class_id, each.label, each.score, *_box_cells(each)) for each in result.found
        ]
        for row in rows or [empty]:
            writer.writerow((result.image, result.status, *row))
    return text.getvalue().removesuffix("\n")


def _box_cells(answer: Detection | ClassScore) -> tuple[object, ...]:
    return answer.box if isinstance(answer, Detection) else ("",) * 4


def as_coco(results: Sequence[ImageResult], labels: Sequence[str] | None) -> str:
    """Returns one JSON object that pycocotools reads; its list `annotations` loads as results, too.

    labels: class names by id. A category's id is class_id + 1; all that `labels` names are listed,
    and those that were found. Width and height are those of the upright picture, as boxes are, read
    from the file's header; 0 where it cannot be read. An image that failed is listed with its
    status, without annotations.
    """
    parts = {
        "info": json.dumps({"description": "detections by endcap", "version": endcap.__version__}),
        "images": json_lines([_coco_image(each, number) for number, each in _numbered(results)]),
        "categories": json_lines(_coco_categories(results, labels)),
        "annotations": json_lines(_coco_annotations(results)),
    }
    return "{\n" + ",\n".join(f'"{name}": {part}' for name, part in parts.items()) + "\n}"


def _numbered(results: Sequence[ImageResult]) -> enumerate[ImageResult]:
    return enumerate(results, start=_FIRST_COCO_ID)


def _coco_image(result: ImageResult, number: int) -> dict[str, Any]:
    width, height = upright_size(Path(result.image)) or (0, 0)
    return {
        "id": number,
        "file_name": result.image,
        "width": width,
        "height": height,
        "status": result.status,
    }


def _coco_categories(
    results: Sequence[ImageResult], labels: Sequence[str] | None
) -> list[dict[str, Any]]:
    names = dict(enumerate(labels or ()))
    for detection in (each for result in results for each in result.detections):
        names.setdefault(detection.class_id, detection.label or f"class {detection.class_id}")
    return [
        {"id": class_id + _FIRST_COCO_ID, "name": name, "supercategory": ""}
        for class_id, name in sorted(names.items())
    ]


def _coco_annotations(results: Sequence[ImageResult]) -> list[dict[str, Any]]:
    found = [
        (number, detection)
        for number, result in _numbered(results)
        for detection in result.detections
    ]
    return [
        _coco_annotation(detection, image, number)
        for number, (image, detection) in enumerate(found, start=_FIRST_COCO_ID)
    ]


def _coco_annotation(detection: Detection, image: int, number: int) -> dict[str, Any]:
    x1, y1, x2, y2 = detection.box
    return {
        "id": number,
        "image_id": image,
        "category_id": detection.class_id + _FIRST_COCO_ID,
        "bbox": [x1, y1, x2 - x1, y2 - y1],
        "area": (x2 - x1) * (y2 - y1),
        "iscrowd": 0,
        "score": detection.score,
    }


def json_lines(rows: Sequence[dict[str, Any]]) -> str:
    """Returns a JSON list, each element on its line."""
    if not rows:
        return "[]"
    return "[\n" + ",\n".join(json.dumps(row, allow_nan=False) for row in rows) + "\n]"
