"""Documents in COCO's format of detections."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import endcap
from endcap.detections import Detection
from endcap.drawing.draw import mask_fits

Size = tuple[int, int]  # width, height of an image in pixels, in the orientation of its boxes

# pycocotools takes an annotation of id 0 for none, and the ids of COCO's own classes start at 1.
_FIRST_ID = 1


@dataclass(frozen=True)
class CocoImage:
    """An image and its detections; its width and height are 0 where they are not known."""

    name: str
    status: str
    size: Size
    detections: Sequence[Detection]


def coco_document(images: Sequence[CocoImage], labels: Sequence[str] | None) -> str:
    """Return one JSON object, each image and annotation on its line.

    A category's id is class_id + 1; the classes of `labels` are listed, and those of detections.
    """
    names = dict(enumerate(labels or ()))
    annotations: list[dict[str, Any]] = []
    for number, image in enumerate(images, _FIRST_ID):
        for each in image.detections:
            names.setdefault(each.class_id, each.label or f"class {each.class_id}")
            annotations.append(_annotation(each, number, len(annotations) + _FIRST_ID, image.size))
    rows = [
        {
            "id": number,
            "file_name": image.name,
            "width": image.size[0],
            "height": image.size[1],
            "status": image.status,
        }
        for number, image in enumerate(images, _FIRST_ID)
    ]
    categories = [
        {"id": class_id + _FIRST_ID, "name": name, "supercategory": ""}
        for class_id, name in sorted(names.items())
    ]
    parts = {
        "info": json.dumps({"description": "detections by endcap", "version": endcap.__version__}),
        "images": json_lines(rows),
        "categories": json_lines(categories),
        "annotations": json_lines(annotations),
    }
    return "{\n" + ",\n".join(f'"{name}": {part}' for name, part in parts.items()) + "\n}"


def json_lines(rows: Sequence[dict[str, Any]]) -> str:
    """Return a JSON list, each element on its line."""
    if not rows:
        return "[]"
    return "[\n" + ",\n".join(json.dumps(row, allow_nan=False) for row in rows) + "\n]"


def _annotation(detection: Detection, image: int, number: int, size: Size) -> dict[str, Any]:
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
    xs, ys = zip(*detection.corners(), strict=True)
    return {
        "id": number,
        "image_id": image,
        "category_id": detection.class_id + _FIRST_ID,
        "bbox": [min(xs), min(ys), max(xs) - min(xs), max(ys) - min(ys)],
        "area": (x2 - x1) * (y2 - y1),
        "iscrowd": 0,
        "score": detection.score,
        **_extras(detection, size),
    }


def _extras(detection: Detection, size: Size) -> dict[str, Any]:
    extras: dict[str, Any] = {}
    if detection.mask is not None and mask_fits(detection.mask, size):
        extras["segmentation"] = detection.mask
    elif detection.angle is not None:
        extras["segmentation"] = [[side for corner in detection.corners() for side in corner]]
    if detection.keypoints is not None:
        extras["keypoints"] = [value for point in detection.keypoints for value in point]
        extras["num_keypoints"] = len(detection.keypoints)
    return extras
