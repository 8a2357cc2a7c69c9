"""Documents in COCO's format of detections."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from endcap._version import __version__
from endcap.client.results import ImageResult
from endcap.drawing.draw import mask_fits
from endcap.drawing.pictures import read_oriented_size
from endcap.predictions import Detection, class_name

Size = tuple[int, int]  # width, height of an image in pixels, in the orientation of its boxes

# pycocotools takes an annotation of id 0 for none, and the ids of COCO's own classes start at 1.
_FIRST_ID = 1


def as_coco(results: Sequence[ImageResult], labels: Sequence[str] | None) -> str:
    """Return one JSON object that pycocotools reads; its list `annotations` loads as results, too.

    Each image and annotation is on its line. A category's id is class_id + 1; the classes of
    `labels` are listed, and those of the results. Width and height are those of the image that
    boxes refer to, read from the file's header; 0 where it cannot be read. A failed image is listed
    with its status, without annotations. `file_name` starts from the folder that all images lie in,
    as `endcap evaluate` takes it.
    """
    folders = [os.path.abspath(Path(each.image).parent) for each in results]
    names = dict(enumerate(labels or ()))
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for number, result in enumerate(results, _FIRST_ID):
        size = read_oriented_size(Path(result.image), upright=result.upright) or (0, 0)
        images.append(
            {
                "id": number,
                "file_name": os.path.relpath(result.image, os.path.commonpath(folders)),
                "width": size[0],
                "height": size[1],
                "status": result.status,
            }
        )
        for each in result.detections:
            names.setdefault(each.class_id, class_name(each.class_id, each.label))
            annotations.append(_annotate(each, number, len(annotations) + _FIRST_ID, size))
    categories = [
        {"id": class_id + _FIRST_ID, "name": name, "supercategory": ""}
        for class_id, name in sorted(names.items())
    ]
    parts = {
        "info": json.dumps({"description": "detections by endcap", "version": __version__}),
        "images": json_lines(images),
        "categories": json_lines(categories),
        "annotations": json_lines(annotations),
    }
    return "{\n" + ",\n".join(f'"{name}": {part}' for name, part in parts.items()) + "\n}"


def json_lines(rows: Sequence[dict[str, Any]]) -> str:
    """Return a JSON list, each element on its line."""
    if not rows:
        return "[]"
    return "[\n" + ",\n".join(json.dumps(row, allow_nan=False) for row in rows) + "\n]"


def _annotate(detection: Detection, image: int, number: int, size: Size) -> dict[str, Any]:
    """Return an entry of `annotations`.

    Its `area` is its box's; `bbox` encloses a rotated box, whose corners are the `segmentation`. A
    mask is the segmentation where it has the image's size.

    Args:
        detection: The detection.
        image: The image's number.
        number: Its own.
        size: The image's.
    """
    x1, y1, x2, y2 = detection.box
    corners = detection.corners()
    xs, ys = zip(*corners, strict=True)
    row: dict[str, Any] = {
        "id": number,
        "image_id": image,
        "category_id": detection.class_id + _FIRST_ID,
        "bbox": [min(xs), min(ys), max(xs) - min(xs), max(ys) - min(ys)],
        "area": (x2 - x1) * (y2 - y1),
        "iscrowd": 0,
        "score": detection.score,
    }
    if detection.mask is not None and mask_fits(detection.mask, size):
        row["segmentation"] = detection.mask
    elif detection.angle is not None:
        row["segmentation"] = [[side for corner in corners for side in corner]]
    if detection.keypoints is not None:
        row["keypoints"] = [value for point in detection.keypoints for value in point]
        row["num_keypoints"] = len(detection.keypoints)
    return row
