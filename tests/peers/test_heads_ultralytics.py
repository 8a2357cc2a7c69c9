"""Heads with masks, keypoints and angles, and RT-DETR's, against what ultralytics makes of them.

The same tensors go through ultralytics' own post-processing: non_max_suppression, then scale_boxes,
scale_coords, process_mask or process_mask_native, as its predictors call them.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from ultralytics.nn.modules.head import RTDETRDecoder
from ultralytics.utils import ops
from ultralytics.utils.nms import non_max_suppression

import endcap
from tests.support import sample_heads
from tests.support.tolerances import (
    PEER_ANGLE,
    PEER_BOX_PIXELS,
    PEER_KEYPOINT_PIXELS,
    PEER_MASK_IOU,
    PEER_SCORE,
)

INPUT = (640, 640)
SOURCES = [(480, 640), (427, 641), (1080, 1920), (333, 2000)]
ANCHORS = 900


def letterbox_geometry(source: tuple[int, int]) -> np.ndarray:
    return endcap.preprocess(np.zeros((*source, 3), np.uint8), size=INPUT).geometry[0]


def suppressed(head: np.ndarray, classes: int, **options: Any) -> Any:
    given = {"conf_thres": 0.25, "iou_thres": 0.7, "max_det": 300, "nc": classes, **options}
    (rows,) = non_max_suppression(torch.from_numpy(head)[None].clone(), **given)
    return rows


def in_picture(head: np.ndarray, classes: int, source: tuple[int, int]) -> np.ndarray:
    """The head with scores of 0 for boxes that have no area in the picture.

    Ultralytics keeps those boxes, and clips them to a line.
    """
    boxes = ops.scale_boxes(INPUT, ops.xywh2xyxy(torch.from_numpy(head[:4].T.copy())), source)
    flat = ~((boxes[:, 0] < boxes[:, 2]) & (boxes[:, 1] < boxes[:, 3])).numpy()
    head = head.copy()
    head[4 : 4 + classes, flat] = 0
    return head


def assert_rows(actual: Any, rows: Any, boxes: Any) -> None:
    assert len(actual) == len(rows) > 10
    np.testing.assert_allclose(actual.scores, rows[:, 4], rtol=0, atol=PEER_SCORE)
    np.testing.assert_array_equal(actual.class_ids, rows[:, 5])
    np.testing.assert_allclose(actual.boxes, boxes, rtol=0, atol=PEER_BOX_PIXELS)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("shape", [(17, 3), (5, 2)])
def test_pose(source: tuple[int, int], shape: tuple[int, int]) -> None:
    head = sample_heads.pose_head(
        1, anchors=ANCHORS, num_classes=2, keypoints=shape[0], values=shape[1]
    )
    rows = suppressed(in_picture(head, 2, source), 2)
    boxes = ops.scale_boxes(INPUT, rows[:, :4].clone(), source)
    expected = ops.scale_coords(INPUT, rows[:, 6:].view(len(rows), *shape).clone(), source)
    actual = endcap.Postprocessor(
        "yolov8_pose", num_classes=2, num_keypoints=shape[0], keypoint_values=shape[1]
    )(head, letterbox_geometry(source))[0]
    assert_rows(actual, rows, boxes)
    assert actual.keypoints is not None
    np.testing.assert_allclose(
        actual.keypoints[..., : shape[1]], expected, rtol=0, atol=PEER_KEYPOINT_PIXELS
    )


@pytest.mark.parametrize("classes", [1, 4])
def test_obb(classes: int) -> None:
    """In pixels of the input: ultralytics scales by one factor, endcap by each side's own."""
    head = sample_heads.obb_head(2, anchors=ANCHORS, num_classes=classes)
    rows = suppressed(head, classes, rotated=True, iou_thres=0.45)
    actual = endcap.Postprocessor(
        "yolov8_obb", num_classes=classes, iou_threshold=0.45, rotated_nms="probiou_fast"
    )(head)[0]
    assert_rows(actual, rows, ops.xywh2xyxy(rows[:, :4]))
    np.testing.assert_allclose(actual.angles, rows[:, 6], rtol=0, atol=PEER_ANGLE)
    corners = ops.xywhr2xyxyxyxy(torch.cat([rows[:, :4], rows[:, 6:]], 1)).numpy()
    # The same four corners, from another one on.
    ours = np.sort(actual.corners().reshape(len(rows), 4, 2), axis=1)
    np.testing.assert_allclose(ours, np.sort(corners, axis=1), rtol=0, atol=PEER_BOX_PIXELS)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("resolution", ["prototype", "input", "source"])
def test_seg(source: tuple[int, int], resolution: str) -> None:
    head = sample_heads.seg_outputs(4, anchors=ANCHORS, num_classes=3, count=32)
    rows = suppressed(in_picture(head["head"], 3, source), 3, max_det=40)
    boxes = ops.scale_boxes(INPUT, rows[:, :4].clone(), source)
    protos = torch.from_numpy(head["protos"])
    if resolution == "source":
        masks = ops.process_mask_native(protos, rows[:, 6:], boxes, source)
    else:
        upsample = resolution == "input"
        masks = ops.process_mask(protos, rows[:, 6:], rows[:, :4], INPUT, upsample=upsample)
    actual = endcap.Postprocessor(
        "yolov8_seg", num_classes=3, max_detections=40, mask_resolution=resolution
    )(head, letterbox_geometry(source))[0]
    assert_rows(actual, rows, boxes)
    ours, theirs = actual.masks, masks.numpy().astype(bool)
    assert ours.shape == theirs.shape
    # Within a prototype pixel of the picture's edge ultralytics gives the padding a say, unless
    # that is whole prototype pixels wide; endcap never does.
    edge = math.ceil(4 * max(source) / 640) if resolution == "source" else 0
    inner = (slice(None), *[slice(edge, side - edge) for side in ours.shape[1:]])
    both, either = (ours & theirs)[inner].sum((1, 2)), (ours | theirs)[inner].sum((1, 2))
    large = either > 500
    assert large.sum() > 10
    assert (both[large] / either[large]).min() > PEER_MASK_IOU


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("joined", [False, True])
def test_rtdetr(source: tuple[int, int], joined: bool) -> None:
    """Its decoder takes the best of all classes of all queries; images are stretched."""
    head = sample_heads.rtdetr_outputs(5, queries=300, num_classes=6)
    boxes = torch.from_numpy(head["boxes"])[None]
    scores = torch.from_numpy(head["logits"])[None].sigmoid()
    decoder = SimpleNamespace(num_queries=300, nc=6, export=False, dynamic=False, format=None)
    (rows,) = RTDETRDecoder.postprocess(decoder, boxes, scores)
    rows = rows[rows[:, 4] > 0.25]
    height, width = source
    expected = ops.xywh2xyxy(rows[:, :4]) * torch.tensor([width, height, width, height])
    expected = ops.clip_boxes(expected, source)
    stretch = np.float32([640 / width, 640 / height, 0, 0, width, height, 1, 0])
    actual = endcap.Postprocessor("rtdetr", num_classes=6, joined=joined, input_size=INPUT)(
        np.hstack([head["boxes"], scores[0].numpy()]) if joined else head, stretch
    )[0]
    assert_rows(actual, rows, expected)
