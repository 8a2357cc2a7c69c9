"""Heads of rotated boxes: suppression by their own overlap, and the way back to the source."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import endcap
from tests.reference.rotated_boxes import corners as rotated_corners
from tests.reference.rotated_boxes import le90 as le90_reference
from tests.support.forced_implementations import on_each_implementation
from tests.support.sample_heads import end2end_obb_head, obb_head
from tests.support.tolerances import ROTATED_ANGLE, ROUND_TRIP_PIXELS

forced_implementation = on_each_implementation("box_decode", "nms")

SAME_SCALES = np.float32([0.5, 0.5, 20, 40, 600, 400, 1, 0])


def rotated(xywhr: np.ndarray) -> np.ndarray:
    """float64 [N, 4, 2], the corners of the boxes, upper left first."""
    return np.stack([np.roll(rotated_corners(box), 2, axis=0) for box in xywhr])


def to_xywhr(rows: endcap.ImageDetections) -> np.ndarray:
    """float64 [N, 5]"""
    low, high = rows.boxes[:, :2].astype(np.float64), rows.boxes[:, 2:].astype(np.float64)
    assert rows.angles is not None
    return np.hstack([(low + high) / 2, high - low, rows.angles[:, None]])


@pytest.mark.parametrize("geometry", [None, SAME_SCALES], ids=["model", "source"])
@pytest.mark.parametrize("class_agnostic", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("method", ["polygon", "probiou", "probiou_fast", "none"])
def test_kept_are_those_of_nms_rotated(
    method: str, dtype: type, class_agnostic: bool, geometry: Any
) -> None:
    """`yolov8_obb` keeps what `nms_rotated` keeps; `end2end_obb` (method none) keeps every row."""
    if method == "none":
        head = end2end_obb_head(1, rows=100, num_classes=3).astype(dtype)
        xywhr, family, options = head[:, [0, 1, 2, 3, 6]], "end2end_obb", {}
    else:
        head = obb_head(1, anchors=300, num_classes=3).astype(dtype)
        xywhr, family = np.vstack([head[:4], head[-1:]]).T, "yolov8_obb"
        options = {"rotated_nms": method}
    found = endcap.box_decode(head, family=family, num_classes=3)
    boxes = xywhr[found.indices].astype(np.float32)
    kept = np.arange(len(boxes))
    if method != "none":
        class_ids = None if class_agnostic else found.class_ids
        kept = endcap.nms_rotated(boxes, found.scores, 0.3, class_ids=class_ids, method=method)
        assert len(kept) < len(boxes)
    options |= {"iou_threshold": 0.3, "class_agnostic": class_agnostic}
    rows = endcap.Postprocessor(family, num_classes=3, **options)(head, geometry)[0]
    assert len(kept) > 5
    np.testing.assert_array_equal(rows.indices, found.indices[kept])
    np.testing.assert_array_equal(rows.scores, found.scores[kept])
    np.testing.assert_array_equal(rows.class_ids, found.class_ids[kept])
    np.testing.assert_array_equal(rows.angles, boxes[kept, 4])
    corners = rotated(boxes[kept])
    if geometry is not None:
        corners = (corners - geometry[2:4]) / geometry[:2]
        assert (rows.boxes < 0).any()  # not clipped
    np.testing.assert_allclose(rows.corners(), corners, rtol=0, atol=ROUND_TRIP_PIXELS)


def test_scales_that_differ_keep_the_sides_lengths_and_the_first_ones_direction() -> None:
    head = obb_head(3, anchors=100, num_classes=2)
    geometry = np.float32([0.5, 2.0, 0, 0, 600, 400, 1, 0])
    rows = endcap.Postprocessor("yolov8_obb", num_classes=2)(head, geometry)[0]
    corners = rotated(np.vstack([head[:4], head[-1:]]).T[rows.indices]) / [0.5, 2.0]
    actual = rows.corners().astype(np.float64)
    close: dict[str, Any] = {"rtol": 0, "atol": ROUND_TRIP_PIXELS}
    for side in (1, 3):
        lengths = [np.linalg.norm(each[:, side] - each[:, 0], axis=1) for each in (actual, corners)]
        np.testing.assert_allclose(*lengths, **close)
    first = corners[:, 1] - corners[:, 0]
    direction = np.arctan2(first[:, 1], first[:, 0])
    assert rows.angles is not None
    off = (rows.angles - direction + math.pi) % (2 * math.pi) - math.pi
    assert np.abs(off).max() < ROTATED_ANGLE
    # The turn stays that of the network, so that angles do not jump from one frame to the next.
    assert np.abs(rows.angles - head[-1, rows.indices]).max() < math.pi / 2 + 1e-5
    np.testing.assert_allclose(actual.mean(1), corners.mean(1), **close)


@pytest.mark.parametrize("method", ["probiou", "probiou_fast"])
def test_boxes_whose_determinants_overflow(method: Any) -> None:
    """Their probabilistic IoU is nearly 1 wherever they lie, with every implementation."""
    boxes = np.float32([[0, 0, 3e5, 1e6, 0], [3e5, 3e5, 1.4e5, 1.57e5, 0]])
    assert endcap.rotated_iou(boxes, boxes, method)[0, 1] > 0.99
    assert endcap.nms_rotated(boxes, np.float32([0.9, 0.8]), 0.5, method=method).tolist() == [0]


EDGES = np.float32([0, -0.0, 1e-9, -1e-9, *(np.arange(-5, 6) * np.pi / 2)])
EDGES = np.concatenate([EDGES, np.nextafter(EDGES, 9), np.nextafter(EDGES, -9)])


@pytest.mark.parametrize("geometry", [None, SAME_SCALES], ids=["model", "source"])
def test_le90_is_the_same_rectangle(geometry: np.ndarray | None) -> None:
    head = obb_head(8, anchors=400, num_classes=2)
    head[-1, : len(EDGES)] = EDGES
    head[4, : len(EDGES)] = 0.99
    fields: dict[str, Any] = {"num_classes": 2, "iou_threshold": 1.0, "max_detections": 400}
    raw = endcap.Postprocessor("yolov8_obb", **fields)(head, geometry)[0]
    le90 = endcap.Postprocessor("yolov8_obb", **fields, angle_range="le90")(head, geometry)[0]
    angles = le90.angles
    assert angles is not None
    assert raw.angles is not None
    assert ((angles >= 0) & (angles < np.float32(np.pi / 2))).all()
    assert not np.signbit(angles).any()
    assert ((raw.angles < 0) | (raw.angles > np.pi / 2)).any()
    expected, actual = np.stack([le90_reference(row) for row in to_xywhr(raw)]), to_xywhr(le90)
    # A multiple of a quarter turn may be rounded to either side of it.
    off = np.abs(actual[:, 4] - expected[:, 4])
    away = off > 1
    assert away.sum() <= 2 * len(EDGES) / 3
    assert np.abs(off[away] - np.pi / 2).max(initial=0) < ROTATED_ANGLE
    assert off[~away].max() < ROTATED_ANGLE
    close: dict[str, Any] = {"rtol": 0, "atol": ROUND_TRIP_PIXELS}
    np.testing.assert_allclose(actual[~away, :4], expected[~away, :4], **close)
    # The same corners, beginning with another one.
    turns = np.round((raw.angles - angles) / (np.pi / 2)).astype(int)
    for row, before, turn in zip(le90.corners(), raw.corners(), turns, strict=True):
        np.testing.assert_allclose(row, np.roll(before, turn, axis=0), **close)


def test_corners_of_upright_boxes() -> None:
    head = obb_head(7, anchors=50, num_classes=1)
    rows = endcap.Postprocessor(num_classes=1)(head[:5])[0]
    x1, y1, x2, y2 = rows.boxes.T
    expected = np.stack([x1, y1, x2, y1, x2, y2, x1, y2], 1).reshape(-1, 4, 2)
    np.testing.assert_allclose(rows.corners(), expected, rtol=0, atol=ROUND_TRIP_PIXELS)
