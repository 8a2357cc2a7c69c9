"""Which parameters of postprocess a head family reads; the others change nothing for it."""

from __future__ import annotations

_GENERAL = ("num_classes", "score_threshold", "max_candidates", "max_detections")
_BOXES = ("box_format", "box_unit", "input_size")
_SUPPRESSION = ("iou_threshold", "multi_label", "class_agnostic")

_YOLO = (*_GENERAL, *_SUPPRESSION, *_BOXES, "activation")

FAMILY_PARAMETERS = {
    "yolov5": _YOLO,
    "yolov8": _YOLO,
    "yolov8_seg": (*_YOLO, "mask_coefficients", "prototype_size", "mask_resolution"),
    "yolov8_pose": (*_YOLO, "num_keypoints", "keypoint_values"),
    "end2end": (*_GENERAL, *_BOXES, "activation"),
    "yolov8_obb": (*_YOLO, "rotated_nms"),
    "rtdetr": (*_GENERAL, "multi_label", *_BOXES, "activation", "joined", "background"),
    "ssd": (
        *(*_GENERAL, *_SUPPRESSION, *_BOXES, "activation", "background"),
        *("anchors", "anchor_grid", "anchor_offset", "variances"),
    ),
    "efficient_nms": (*_GENERAL, *_BOXES),
    "classification": ("num_classes", "top_k", "activation", "multi_label", "score_threshold"),
}
