"""Head families, and the parameters of each. docs/heads.md describes them."""

from __future__ import annotations

import endcap._core as _core

_THRESHOLDS = ("score_threshold", "score_thresholds", "classes")
_GENERAL = ("num_classes", *_THRESHOLDS, "max_candidates", "max_detections", "on_nan")
_BOXES = ("box_format", "box_unit", "input_size")
_SUPPRESSION = ("iou_threshold", "multi_label", "class_agnostic")
_ANCHORS = ("anchors", "anchor_grid", "anchor_offset", "variances")
_MASKS = ("mask_coefficients", "prototype_size", "mask_resolution")
_KEYPOINTS = ("num_keypoints", "keypoint_values")
_QUERIES = (*_GENERAL, "multi_label", *_BOXES, "activation", "joined", "background")
_YOLO = (*_GENERAL, *_SUPPRESSION, *_BOXES, "activation")

NO_HEAD = "none"  # outputs that are returned unread, by an ensemble without postprocess

# The parameters of postprocess that each family reads; the others change nothing for it.
HEAD_PARAMETERS: dict[str, tuple[str, ...]] = {
    "yolov5": _YOLO,
    "yolox": (*_GENERAL, *_SUPPRESSION, "input_size", "activation", "anchor_grid"),
    "yolov8": _YOLO,
    "yolov8_seg": (*_YOLO, *_MASKS),
    "yolov8_pose": (*_YOLO, *_KEYPOINTS),
    "yolov8_obb": (*_YOLO, "rotated_nms", "angle_range"),
    "end2end": (*_GENERAL, *_BOXES, "activation"),
    "end2end_seg": (*_GENERAL, *_BOXES, "activation", *_MASKS),
    "end2end_pose": (*_GENERAL, *_BOXES, "activation", *_KEYPOINTS),
    "end2end_obb": (*_GENERAL, *_BOXES, "activation", "angle_range"),
    "rtdetr": _QUERIES,
    "rtdetr_seg": (*_QUERIES, "prototype_size", "mask_resolution"),
    "ssd": (*_GENERAL, *_SUPPRESSION, *_BOXES, "activation", "background", *_ANCHORS),
    "efficient_nms": (*_GENERAL, *_BOXES, "background"),
    "detections": (*_GENERAL, *_BOXES, "background"),
    "classification": ("num_classes", "top_k", "activation", "multi_label", *_THRESHOLDS),
}


def readable_families() -> list[str]:
    """Return the head families that postprocess reads, as its parameter table names them."""
    rows = _core.Postprocessor([], 1).parameters
    (families,) = (allowed for name, _, allowed, _ in rows if name == "head")
    return families.removeprefix("one of ").split(", ")
