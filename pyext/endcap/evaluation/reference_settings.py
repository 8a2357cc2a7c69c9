"""Settings of the reference: how it prepares images and reads heads."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import Enum

from endcap.parameters import postprocess_defaults


class HeadName(str, Enum):
    """The head families that the reference reads; of those with more than boxes the boxes."""

    yolov8 = "yolov8"  # [4 + C, A], also of YOLOv9, 11 and 12
    yolov8_seg = "yolov8_seg"  # [4 + C + more, A]
    yolov8_pose = "yolov8_pose"  # [4 + C + more, A]
    yolov5 = "yolov5"  # [A, 5 + C]
    end2end = "end2end"  # [K, 6]
    end2end_seg = "end2end_seg"  # [K, 6 + more]
    end2end_pose = "end2end_pose"  # [K, 6 + more]
    rtdetr = "rtdetr"  # [Q, C] and [Q, 4], or joined [Q, 4 + C]
    efficient_nms = "efficient_nms"  # four tensors
    classification = "classification"  # [C]


class Fit(str, Enum):
    """How an image fits the tensor."""

    letterbox = "letterbox"
    stretch = "stretch"
    center_crop = "center_crop"


class Color(str, Enum):
    """The channels of the tensor."""

    rgb = "rgb"
    bgr = "bgr"
    gray = "gray"


class Activation(str, Enum):
    """What makes scores of a head's numbers.

    `default` is softmax for classification, sigmoid for rtdetr that is not joined, else none.
    """

    default = "default"
    none = "none"
    sigmoid = "sigmoid"
    softmax = "softmax"


class BoxFormat(str, Enum):
    """How a head gives boxes; `default` is xyxy for rows of detections, else cxcywh."""

    default = "default"
    xyxy = "xyxy"
    cxcywh = "cxcywh"


class Background(str, Enum):
    """Where rtdetr has a class for nothing, which is none of the classes; `default` is nowhere."""

    default = "default"
    none = "none"
    first = "first"
    last = "last"


@dataclass(frozen=True, kw_only=True)
class ReferenceSettings:
    """The defaults are the way that Ultralytics' detectors are trained and exported.

    Attributes:
        size: Height and width of the tensor; None takes those of the network.
        antialias: The image is resized as Pillow does it, not OpenCV.
        quantized: Resized pixels are whole numbers. A channel is (pixel * scale - mean) / std, its
            type the network's.
        num_classes: None takes those of the head's shape.
        box_side: Height and width in pixels of a head whose boxes are fractions of them; None where
            boxes are pixels of the tensor, and of rtdetr fractions of its sides.
        top_k: None takes all classes, 5 at most. The rest is named as in the configuration of a
            model.
    """

    size: tuple[int, int] | None = None
    fit: Fit = Fit.letterbox
    resize_shorter: int = 256
    antialias: bool = False
    quantized: bool = True
    pad_value: int = 114
    pad_centered: bool = True
    upscale: bool = True
    color: Color = Color.rgb
    channels_last: bool = False
    scale: float = 1.0 / 255.0
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)
    apply_exif: bool = True
    head: HeadName = HeadName.yolov8
    num_classes: int | None = None
    score_threshold: float = 0.001
    iou_threshold: float = float(postprocess_defaults()["iou_threshold"])
    max_candidates: int = int(postprocess_defaults()["max_candidates"])
    max_detections: int = int(postprocess_defaults()["max_detections"])
    multi_label: bool = False
    class_agnostic: bool = False
    box_format: BoxFormat = BoxFormat.default
    box_side: tuple[int, int] | None = None
    activation: Activation = Activation.default
    top_k: int | None = None
    joined: bool = False
    background: Background = Background.default

    def with_head(self, head: HeadName) -> ReferenceSettings:
        """Return these settings for another head, every class of a query being a candidate."""
        multi_label = head is HeadName.rtdetr or self.multi_label
        return dataclasses.replace(self, head=head, multi_label=multi_label)

    @property
    def has_background(self) -> bool:
        """Whether scores have one more column than there are classes."""
        return self.background in (Background.first, Background.last)

    @property
    def channels(self) -> int:
        """Of the tensor."""
        return 1 if self.color is Color.gray else 3
