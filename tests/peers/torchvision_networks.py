"""Detectors of torchvision with random weights, each with the last layers of its class scores."""

from __future__ import annotations

from typing import Any

from torchvision.models import detection
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.backbone_utils import mobilenet_backbone

from tests.peers.exporting import SIDE


def ssdlite() -> tuple[Any, list[Any]]:
    network = detection.ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None)
    return network, [block[-1] for block in network.head.classification_head.module_list]


def backbone() -> Any:
    return mobilenet_backbone(
        backbone_name="mobilenet_v3_small", weights=None, fpn=True, trainable_layers=6
    )


def faster_rcnn() -> tuple[Any, list[Any]]:
    anchors = AnchorGenerator(((32, 64),) * 3, ((0.5, 1.0, 2.0),) * 3)
    network = detection.FasterRCNN(
        backbone(), 91, rpn_anchor_generator=anchors, min_size=SIDE, max_size=SIDE
    )
    return network, [network.roi_heads.box_predictor.cls_score]


def retinanet() -> tuple[Any, list[Any]]:
    anchors = AnchorGenerator(((32, 45, 64),) * 3, ((0.5, 1.0, 2.0),) * 3)
    network = detection.RetinaNet(
        backbone(), 91, anchor_generator=anchors, min_size=SIDE, max_size=SIDE
    )
    return network, [network.head.classification_head.cls_logits]
