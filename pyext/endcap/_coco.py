"""Entries of files in COCO's format of detections."""

from __future__ import annotations

from typing import Any

from endcap.detections import Detection
from endcap.drawing.draw import mask_fits

Size = tuple[int, int]  # width, height of an image in pixels, in the orientation of its boxes

# pycocotools takes an annotation of id 0 for none, and the ids of COCO's own classes start at 1.
FIRST_COCO_ID = 1


def coco_image(name: str, status: str, size: Size, number: int) -> dict[str, Any]:
    """Return an entry of `images`; width and height are 0 where they are not known."""
    return {
        "id": number,
        "file_name": name,
        "width": size[0],
        "height": size[1],
        "status": status,
    }


def coco_annotation(detection: Detection, image: int, number: int, size: Size) -> dict[str, Any]:
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
        "category_id": detection.class_id + FIRST_COCO_ID,
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
