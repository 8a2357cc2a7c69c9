"""Results in the formats of other programs: JSON, CSV, COCO."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from pathlib import Path

from endcap._coco import CocoImage, coco_document, json_lines
from endcap.detections import ROW_COLUMNS, ImageResult
from endcap.drawing.orientation import oriented_size

CSV_COLUMNS = ("image", "status", *ROW_COLUMNS)

# Also behind what spreadsheets leave out, and of full width.
_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def as_json(results: Sequence[ImageResult]) -> str:
    """Return a JSON list with one object per image, each on its line; see ImageResult.to_dict."""
    return json_lines([result.to_dict() for result in results])


def as_csv(results: Sequence[ImageResult]) -> str:
    """Return a header and a row per detection or class; CSV_COLUMNS names the columns.

    Rotated boxes have one more column, angle, and tracked ones track_id. A class has no box. An
    image without results has one row, its cells empty from class_id on. A text that spreadsheets
    would take for a formula has an apostrophe before it.
    """
    text = io.StringIO()
    detections = [each for result in results for each in result.detections]
    columns = [*CSV_COLUMNS]
    if any(each.angle is not None for each in detections):
        columns.append("angle")
    if any(each.track_id is not None for each in detections):
        columns.append("track_id")
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for result in results:
        for row in result.to_rows():
            writer.writerow({name: csv_cell(value) for name, value in row.items()})
    return text.getvalue().removesuffix("\n")


def csv_cell(value: object) -> object:
    """Return a value as a cell, behind an apostrophe where spreadsheets would take a formula."""
    is_formula = isinstance(value, str) and value.startswith(_FORMULAS)
    return f"'{value}" if is_formula else value


def as_coco(results: Sequence[ImageResult], labels: Sequence[str] | None) -> str:
    """Return one JSON object that pycocotools reads; its list `annotations` loads as results, too.

    A category's id is class_id + 1; the classes of `labels` are listed, and those of the results.
    Width and height are those of the image that boxes refer to, read from the file's header; 0
    where it cannot be read. A failed image is listed with its status, without annotations. An
    annotation's `area` is its box's; `bbox` encloses a rotated box, whose corners are the
    `segmentation`. A mask is the segmentation where it has the image's size.
    `file_name` starts from the folder that all images lie in, as `endcap evaluate` takes it.
    """
    paths = [Path(each.image) for each in results]
    folder = os.path.commonpath([os.path.abspath(path.parent) for path in paths]) if paths else "."
    sizes = [
        oriented_size(path, upright=each.upright) or (0, 0)
        for path, each in zip(paths, results, strict=True)
    ]
    images = [
        CocoImage(os.path.relpath(each.image, folder), each.status, size, list(each.detections))
        for each, size in zip(results, sizes, strict=True)
    ]
    return coco_document(images, labels)
