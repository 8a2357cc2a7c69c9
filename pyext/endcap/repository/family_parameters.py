"""Which parameters of postprocess a head family reads; the others change nothing for it."""

from __future__ import annotations

_GENERAL = ("num_classes", "score_threshold", "max_candidates", "max_detections")
_BOXES = ("box_format", "box_unit", "input_size")
_SUPPRESSION = ("iou_threshold", "multi_label", "class_agnostic")

FAMILY_PARAMETERS = {
    "yolov5": (*_GENERAL, *_SUPPRESSION, *_BOXES, "activation"),
    "yolov8": (*_GENERAL, *_SUPPRESSION, *_BOXES, "activation"),
    "end2end": (*_GENERAL, *_BOXES, "activation"),
    "efficient_nms": (*_GENERAL, *_BOXES),
    "classification": ("num_classes", "top_k", "activation"),
}
