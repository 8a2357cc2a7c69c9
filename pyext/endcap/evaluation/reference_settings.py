"""How the reference prepares images and reads heads."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class HeadName(str, Enum):
    """The head families that the reference reads."""

    yolov8 = "yolov8"  # [4 + C, A], also of YOLOv9, 11 and 12
    yolov5 = "yolov5"  # [A, 5 + C]


@dataclass(frozen=True, kw_only=True)
class ReferenceSettings:
    """The defaults are the way that Ultralytics' detectors are trained and exported.

    size: height and width of the tensor; None takes those of the network. letterbox: else the
    image is stretched. A channel is (pixel * scale - mean) / std. num_classes: None takes those of
    the head's shape. The rest is named as in the configuration of a model.
    """

    size: tuple[int, int] | None = None
    letterbox: bool = True
    pad_value: int = 114
    pad_centered: bool = True
    upscale: bool = True
    rgb: bool = True
    scale: float = 1.0 / 255.0
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)
    upright: bool = True  # as EXIF says
    head: HeadName = HeadName.yolov8
    num_classes: int | None = None
    score_threshold: float = 0.001
    iou_threshold: float = 0.7
    max_candidates: int = 30000
    max_detections: int = 300
    multi_label: bool = False
    class_agnostic: bool = False
