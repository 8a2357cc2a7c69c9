"""Networks with masks, keypoints, angles, queries and anchors, and the expected outputs."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import cv2
import family_networks as families
import numpy as np
from family_networks import Network
from init_cases import DETECTIONS, letterboxed
from PIL import Image
from preset_recipes import IMAGENET_MEAN, IMAGENET_STD, float_resize

from reference import anchors, detections, heads, placement, rotated_boxes
from reference.heads import Candidate

Floats = np.ndarray
Outputs = Mapping[str, Floats]
INPUT = (64, 64)
KEYPOINTS_METADATA = {"author": "Ultralytics", "task": "pose", "kpt_shape": "[5, 3]"}


def stretched(jpeg: bytes) -> tuple[Floats, Floats]:
    """RT-DETR's preparation for 64x64, by Pillow."""
    picture = Image.open(io.BytesIO(jpeg)).convert("RGB")
    place = placement.stretch(*INPUT)
    pixels = picture.resize((place.new_w, place.new_h), Image.Resampling.BILINEAR)
    tensor = (np.asarray(pixels, np.float32) / np.float32(255)).transpose(2, 0, 1)
    return tensor, place.geometry(picture.height, picture.width)


def as_rfdetr(jpeg: bytes) -> tuple[Floats, Floats]:
    """RF-DETR's preparation for 64x64: float throughout, ImageNet statistics."""
    pixels = np.asarray(Image.open(io.BytesIO(jpeg)).convert("RGB"))
    tensor = (float_resize(pixels, 64) / 255 - IMAGENET_MEAN) / IMAGENET_STD
    geometry = placement.stretch(*INPUT).geometry(*pixels.shape[:2])
    return tensor.astype(np.float32).transpose(2, 0, 1), geometry


def stretched_by_opencv(jpeg: bytes) -> tuple[Floats, Floats]:
    """YOLOv4's preparation for 64x64."""
    pixels = cv2.cvtColor(cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR), 4)
    resized = cv2.resize(pixels, INPUT[::-1])
    tensor = (resized.astype(np.float32) / np.float32(255)).transpose(2, 0, 1)
    return tensor, placement.stretch(*INPUT).geometry(*pixels.shape[:2])


@dataclass(frozen=True)
class HeadCase:
    """A network, the options of init, and how the reference reads its images and its head.

    iou_threshold: None where nothing is suppressed.
    """

    network: Network
    candidates: Callable[[Outputs], list[Candidate]]
    options: Sequence[object] = ()
    image: Callable[[bytes], tuple[Floats, Floats]] = letterboxed
    iou_threshold: float | None = 0.7

    def expected_outputs(self, jpeg: bytes) -> Outputs:
        return self.network.expected_outputs(self.image(jpeg)[0])

    def ranked(self, jpeg: bytes) -> list[Candidate]:
        return heads.best(self.candidates(self.expected_outputs(jpeg)), 30000)[0]

    def rows(self, jpeg: bytes) -> detections.Rows:
        return detections.pack(
            self.ranked(jpeg),
            max_detections=DETECTIONS,
            geometry=self.image(jpeg)[1],
            iou_threshold=self.iou_threshold,
        )


def yolo(classes: int) -> Callable[[Outputs], list[Candidate]]:
    """Candidates by boxes and scores alone."""
    return lambda outputs: heads.yolov8(outputs["output0"][: 4 + classes], score_threshold=0.25)


def queries(scores: Floats, fractions: Floats, *, multi_label: bool = True) -> list[Candidate]:
    boxes = fractions * np.float32(64)
    return heads.rtdetr(scores, boxes, score_threshold=0.25, multi_label=multi_label)


def rtdetr(outputs: Outputs) -> list[Candidate]:
    return queries(heads.sigmoid(outputs["logits"]), outputs["pred_boxes"])


def rfdetr(background: str) -> Callable[[Outputs], list[Candidate]]:
    return lambda outputs: queries(
        heads.activated(outputs["labels"], "sigmoid", background), outputs["dets"]
    )


def detr(outputs: Outputs) -> list[Candidate]:
    scores = heads.activated(outputs["logits"], "softmax", "last")
    return queries(scores, outputs["pred_boxes"], multi_label=False)


def joined(outputs: Outputs) -> list[Candidate]:
    return queries(outputs["output0"][:, 4:], outputs["output0"][:, :4])


def joined_raw(outputs: Outputs) -> list[Candidate]:
    return queries(heads.sigmoid(outputs["output0"][:, 4:]), outputs["output0"][:, :4])


def at_anchors(boxes: Floats, scores: Floats) -> list[Candidate]:
    rows = enumerate(zip(boxes.astype(np.float32), scores, strict=True))
    return [
        candidate
        for index, (box, row) in rows
        for candidate in heads.pick(box, row, index, score_threshold=0.25, multi_label=True)
    ]


def ssd(outputs: Outputs) -> list[Candidate]:
    boxes = anchors.decode(outputs["boxes"], families.grid_anchors(), (0.1, 0.1, 0.2, 0.2))
    return at_anchors(boxes, heads.activated(outputs["scores"], "softmax", "first"))


def yolov4(outputs: Outputs) -> list[Candidate]:
    boxes = outputs["boxes"][:, 0] * np.float32(64)
    return [
        candidate
        for index, (box, row) in enumerate(zip(boxes, outputs["confs"], strict=True))
        for candidate in heads.pick(box, row, index, score_threshold=0.25, multi_label=False)
    ]


def dets_and_labels(outputs: Outputs) -> list[Candidate]:
    rows = np.hstack([outputs["dets"], outputs["labels"][:, None]])
    return heads.end2end(rows, score_threshold=0.25)


def decoded(outputs: Outputs) -> list[Candidate]:
    return at_anchors(outputs["boxes"], outputs["scores"])


_AS_YOLO = ["--preset", "ultralytics"]
_THREE, _FOUR = ["--num-classes", 3], ["--num-classes", 4]
_FIVE_ROWS = ["--num-classes", 5, *_AS_YOLO]
_GRID = ["--set", "anchors=grid", "--set", f"anchor_grid={families.ANCHOR_GRID}"]

PLAIN = {
    "seg": HeadCase(families.seg(), yolo(3)),
    "pose": HeadCase(families.pose(metadata=KEYPOINTS_METADATA), yolo(2)),
    "joined": HeadCase(families.joined(), joined, image=stretched, iou_threshold=None),
    "joined_raw": HeadCase(families.joined(raw=True), joined_raw, _AS_YOLO, iou_threshold=None),
    "rtdetr": HeadCase(
        families.rtdetr(), rtdetr, [*_FOUR, "--preset", "rtdetr"], stretched, iou_threshold=None
    ),
    # A score more than classes, and as many.
    "rfdetr": HeadCase(families.rfdetr(), rfdetr("last"), _FOUR, as_rfdetr, iou_threshold=None),
    "rfdetr_seg": HeadCase(
        families.rfdetr(columns=4, masks=(18, 16)),
        rfdetr("none"),
        _FOUR,
        as_rfdetr,
        iou_threshold=None,
    ),
    "detr": HeadCase(families.detr(), detr, [*_FOUR, *_AS_YOLO], iou_threshold=None),
    "ssd": HeadCase(families.ssd(), ssd, [*_THREE, *_AS_YOLO]),
    "ssd_grid": HeadCase(families.ssd(anchors=False), ssd, [*_THREE, *_AS_YOLO, *_GRID]),
    "yolov4": HeadCase(families.yolov4(), yolov4, (), stretched_by_opencv),
    "dets_and_labels": HeadCase(
        families.dets_and_labels(), dets_and_labels, _FIVE_ROWS, iou_threshold=None
    ),
    "padded_float_labels": HeadCase(
        families.dets_and_labels(ids="float32", used=12),
        dets_and_labels,
        _FIVE_ROWS,
        iou_threshold=None,
    ),
    "decoded": HeadCase(families.decoded(), decoded, [*_THREE, *_AS_YOLO]),
}
OBB_THRESHOLD = 0.2
OBB = HeadCase(families.obb(), yolo(3), ["--iou-threshold", OBB_THRESHOLD])
CASES = {**PLAIN, "obb": OBB}


def kept_rotated(jpeg: bytes) -> tuple[list[Candidate], Floats]:
    """Those that Ultralytics' suppression keeps, and their boxes x, y, w, h, angle of the input."""
    head = OBB.expected_outputs(jpeg)["output0"]
    ranked = OBB.ranked(jpeg)
    boxes = np.vstack([head[:4], head[-1:]])[:, [each.index for each in ranked]].T
    kept = rotated_boxes.suppress(
        rotated_boxes.iou_matrix(boxes, boxes, "probiou_fast"),
        np.array([each.score for each in ranked]),
        OBB_THRESHOLD,
        class_ids=np.array([each.class_id for each in ranked]),
        method="probiou_fast",
    )
    return [ranked[i] for i in kept], boxes[kept]


def to_source(boxes: Floats, geometry: Floats) -> Floats:
    """x, y, w, h, angle in float64: sides keep their lengths, the first one its direction."""
    x, y, w, h, angle = boxes.T.astype(np.float64)
    scale_x, scale_y, pad_x, pad_y = geometry[:4].astype(np.float64)
    along = np.stack([w * np.cos(angle) / scale_x, w * np.sin(angle) / scale_y])
    across = np.stack([h * np.sin(angle) / scale_x, h * np.cos(angle) / scale_y])
    return np.stack(
        [
            (x - pad_x) / scale_x,
            (y - pad_y) / scale_y,
            np.hypot(*along),
            np.hypot(*across),
            np.arctan2(along[1], along[0]),
        ],
        axis=1,
    )
