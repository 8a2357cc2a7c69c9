"""Small annotation files in COCO's detection format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from endcap.evaluation.annotations import Dataset, load_dataset

Row = dict[str, Any]

CATEGORIES = [{"id": 3, "name": "cat"}, {"id": 7, "name": "dog"}]


def annotation(image_id: int, category_id: int, box: list[float], **more: object) -> Row:
    row: Row = {"image_id": image_id, "category_id": category_id, "bbox": box, "iscrowd": 0}
    return {**row, "area": box[2] * box[3], **more}


def coco(images: int, annotations: list[Row], categories: list[Row] | None = None) -> Row:
    """Images 1.jpg, 2.jpg ... with those ids; annotation ids count from 0."""
    return {
        "images": [{"id": i, "file_name": f"{i}.jpg"} for i in range(1, images + 1)],
        "annotations": [{"id": number, **row} for number, row in enumerate(annotations)],
        "categories": [dict(row) for row in categories or CATEGORIES],
    }


def write(folder: Path, content: Any) -> Path:
    """Write annotations.json and an empty file for each image; returns the former."""
    if isinstance(content, dict) and isinstance(content.get("images"), list):
        for image in content["images"]:
            if isinstance(image, dict) and isinstance(image.get("file_name"), str):
                (folder / image["file_name"]).touch()
    path = folder / "annotations.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def dataset(folder: Path, images: int, annotations: list[Row]) -> Dataset:
    return load_dataset(folder, write(folder, coco(images, annotations)))
