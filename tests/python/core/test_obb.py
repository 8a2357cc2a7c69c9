"""Heads of rotated boxes: suppression by their own overlap, and the way back to the source."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import endcap
from tests.reference.placement import letterbox
from tests.reference.rotated_boxes import le90 as le90_reference
from tests.support import tolerances
from tests.support.forced_implementations import on_each_implementation
from tests.support.sample_heads import obb_head

forced_implementation = on_each_implementation("box_decode", "nms")

GEOMETRY = letterbox(427, 641, 640, 640, upscale=True, pad_align="center").geometry(427, 641)


def rotated(xywhr: np.ndarray) -> np.ndarray:
    """float64 [N, 4, 2], the corners of the boxes."""
    cx, cy, w, h, angle = xywhr.astype(np.float64).T
    across = np.stack([np.cos(angle), np.sin(angle)], 1) * w[:, None] / 2
    down = np.stack([-np.sin(angle), np.cos(angle)], 1) * h[:, None] / 2
    centre = np.stack([cx, cy], 1)
    corners = [-across - down, across - down, across + down, down - across]
    return np.stack([centre + corner for corner in corners], 1)


def boxes_of(head: np.ndarray, indices: np.ndarray) -> np.ndarray:
    return np.vstack([head[:4], head[-1:]])[:, indices].T


@pytest.mark.parametrize("method", ["polygon", "probiou", "probiou_fast"])
@pytest.mark.parametrize("class_agnostic", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_kept_are_those_of_nms_rotated(method: str, class_agnostic: bool, dtype: type) -> None:
    head = obb_head(1, anchors=300, num_classes=3).astype(dtype)
    found = endcap.box_decode(head, family="yolov8_obb", num_classes=3)
    boxes = boxes_of(head, found.indices).astype(np.float32)
    kept = endcap.nms_rotated(
        boxes,
        found.scores,
        0.3,
        class_ids=None if class_agnostic else found.class_ids,
        method=method,
    )
    rows = endcap.Postprocessor(
        "yolov8_obb",
        num_classes=3,
        iou_threshold=0.3,
        class_agnostic=class_agnostic,
        rotated_nms=method,
    )(head)[0]
    assert 5 < len(kept) < len(boxes)
    np.testing.assert_array_equal(rows.indices, found.indices[kept])
    np.testing.assert_array_equal(rows.scores, found.scores[kept])
    np.testing.assert_array_equal(rows.class_ids, found.class_ids[kept])
    assert rows.angles is not None
    np.testing.assert_array_equal(rows.angles, boxes[kept, 4])
    corners = rotated(boxes[kept])
    np.testing.assert_allclose(rows.corners(), corners, rtol=0, atol=tolerances.ROUND_TRIP_PIXELS)


def test_in_source_pixels_of_a_letterbox() -> None:
    head = obb_head(2, anchors=100, num_classes=2)
    geometry = np.float32([0.5, 0.5, 20, 40, 600, 400, 1, 0])
    rows = endcap.Postprocessor("yolov8_obb", num_classes=2)(head, geometry)[0]
    raw = boxes_of(head, rows.indices)
    corners = (rotated(raw) - [20, 40]) / 0.5
    assert rows.angles is not None
    np.testing.assert_array_equal(rows.angles, raw[:, 4])
    np.testing.assert_allclose(rows.corners(), corners, rtol=0, atol=tolerances.ROUND_TRIP_PIXELS)
    assert (rows.boxes < 0).any()  # not clipped


def test_scales_that_differ_keep_the_sides_lengths_and_the_first_ones_direction() -> None:
    head = obb_head(3, anchors=100, num_classes=2)
    geometry = np.float32([0.5, 2.0, 0, 0, 600, 400, 1, 0])
    rows = endcap.Postprocessor("yolov8_obb", num_classes=2)(head, geometry)[0]
    corners = rotated(boxes_of(head, rows.indices)) / [0.5, 2.0]
    actual = rows.corners().astype(np.float64)
    sides = [corners[:, 1] - corners[:, 0], corners[:, 3] - corners[:, 0]]
    lengths = [np.linalg.norm(side, axis=1) for side in sides]
    for side, length in zip((1, 3), lengths, strict=True):
        np.testing.assert_allclose(
            np.linalg.norm(actual[:, side] - actual[:, 0], axis=1),
            length,
            rtol=0,
            atol=tolerances.ROUND_TRIP_PIXELS,
        )
    direction = np.arctan2(sides[0][:, 1], sides[0][:, 0])
    assert rows.angles is not None
    off = (rows.angles - direction + math.pi) % (2 * math.pi) - math.pi
    assert np.abs(off).max() < tolerances.ROTATED_ANGLE
    # The turn stays that of the network, so that angles do not jump from one frame to the next.
    assert np.abs(rows.angles - head[-1, rows.indices]).max() < math.pi / 2 + 1e-5
    np.testing.assert_allclose(
        actual.mean(1), corners.mean(1), rtol=0, atol=tolerances.ROUND_TRIP_PIXELS
    )


def test_a_letterboxes_scales_are_equal_but_for_rounding() -> None:
    head = obb_head(4, anchors=100, num_classes=2)
    rows = endcap.Postprocessor("yolov8_obb", num_classes=2)(head, GEOMETRY)[0]
    scale_x, scale_y, pad_x, pad_y = GEOMETRY[:4].astype(np.float64)
    assert 0 < abs(scale_x - scale_y) < 0.002
    corners = (rotated(boxes_of(head, rows.indices)) - [pad_x, pad_y]) / [scale_x, scale_y]
    assert np.abs(rows.corners() - corners).max() < 640 * 0.002


def test_fractions_of_the_input() -> None:
    head = obb_head(5, anchors=100, num_classes=2)
    fractions = head.copy()
    fractions[[0, 2]] /= 640
    fractions[[1, 3]] /= 320
    pixels = endcap.Postprocessor("yolov8_obb", num_classes=2)(head)[0]
    normalized = endcap.Postprocessor(
        "yolov8_obb", num_classes=2, box_unit="normalized", input_size=(320, 640)
    )(fractions)[0]
    np.testing.assert_array_equal(normalized.indices, pixels.indices)
    np.testing.assert_allclose(
        normalized.boxes, pixels.boxes, rtol=0, atol=tolerances.ROUND_TRIP_PIXELS
    )


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_angles_of_candidates_must_be_numbers(value: float) -> None:
    head = obb_head(6, anchors=50, num_classes=1)
    postprocessor = endcap.Postprocessor("yolov8_obb", num_classes=1)
    candidates = endcap.box_decode(head, family="yolov8_obb", num_classes=1).indices
    dropped = sorted(set(range(50)) - set(candidates.tolist()))
    expected = postprocessor(head)[0].indices
    head[5, dropped] = value
    np.testing.assert_array_equal(postprocessor(head)[0].indices, expected)
    head[5, candidates[0]] = value
    with pytest.raises(endcap.InvalidArgumentError, match=f"row 5 of anchor {candidates[0]}"):
        postprocessor(head)


@pytest.mark.parametrize(
    "fields", [{"box_format": "xyxy"}, {"rotated_nms": "fast"}], ids=lambda f: next(iter(f))
)
def test_impossible_parameters_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(endcap.InvalidArgumentError, match=next(iter(fields))):
        endcap.Postprocessor("yolov8_obb", **fields)


@pytest.mark.parametrize("method", ["probiou", "probiou_fast"])
def test_boxes_whose_determinants_overflow(method: Any) -> None:
    """Their probabilistic IoU is nearly 1 wherever they lie, with every implementation."""
    boxes = np.float32([[0, 0, 3e5, 1e6, 0], [3e5, 3e5, 1.4e5, 1.57e5, 0]])
    assert endcap.rotated_iou(boxes, boxes, method)[0, 1] > 0.99
    assert endcap.nms_rotated(boxes, np.float32([0.9, 0.8]), 0.5, method=method).tolist() == [0]


EDGES = np.float32([0, -0.0, 1e-9, -1e-9, *(np.arange(-5, 6) * np.pi / 2)])
EDGES = np.concatenate([EDGES, np.nextafter(EDGES, 9), np.nextafter(EDGES, -9)])


@pytest.mark.parametrize(
    "geometry", [None, np.float32([0.5, 0.5, 20, 40, 600, 400, 1, 0])], ids=["model", "source"]
)
def test_le90_is_the_same_rectangle(geometry: np.ndarray | None) -> None:
    head = obb_head(8, anchors=400, num_classes=2)
    head[-1, : len(EDGES)] = EDGES
    head[4, : len(EDGES)] = 0.99
    fields: dict[str, Any] = {"num_classes": 2, "iou_threshold": 1.0, "max_detections": 400}
    raw = endcap.Postprocessor("yolov8_obb", **fields)(head, geometry)
    le90 = endcap.Postprocessor("yolov8_obb", **fields, angle_range="le90")(head, geometry)
    angles = le90[0].angles
    assert angles is not None
    assert raw[0].angles is not None
    assert ((angles >= 0) & (angles < np.float32(np.pi / 2))).all()
    assert not np.signbit(angles).any()
    assert ((raw[0].angles < 0) | (raw[0].angles > np.pi / 2)).any()
    expected = np.stack([le90_reference(row) for row in to_xywhr(raw[0])])
    actual = to_xywhr(le90[0])
    # A multiple of a quarter turn may be rounded to either side of it.
    off = np.abs(actual[:, 4] - expected[:, 4])
    away = off > 1
    assert away.sum() <= 2 * len(EDGES) / 3
    assert np.abs(off[away] - np.pi / 2).max(initial=0) < tolerances.ROTATED_ANGLE
    assert off[~away].max() < tolerances.ROTATED_ANGLE
    np.testing.assert_allclose(
        actual[~away, :4], expected[~away, :4], rtol=0, atol=tolerances.ROUND_TRIP_PIXELS
    )
    # The same corners, beginning with another one.
    turns = np.round((raw[0].angles - angles) / (np.pi / 2)).astype(int)
    corners = raw[0].corners()
    for row, turn in enumerate(turns):
        np.testing.assert_allclose(
            le90[0].corners()[row],
            np.roll(corners[row], turn, axis=0),
            rtol=0,
            atol=tolerances.ROUND_TRIP_PIXELS,
        )


def to_xywhr(rows: endcap.ImageDetections) -> np.ndarray:
    """float64 [N, 5]"""
    low, high = rows.boxes[:, :2].astype(np.float64), rows.boxes[:, 2:].astype(np.float64)
    assert rows.angles is not None
    return np.hstack([(low + high) / 2, high - low, rows.angles[:, None]])


def test_corners_of_upright_boxes() -> None:
    head = obb_head(7, anchors=50, num_classes=1)
    rows = endcap.Postprocessor(num_classes=1)(head[:5])[0]
    x1, y1, x2, y2 = rows.boxes.T
    expected = np.stack([x1, y1, x2, y1, x2, y2, x1, y2], 1).reshape(-1, 4, 2)
    np.testing.assert_allclose(rows.corners(), expected, rtol=0, atol=tolerances.ROUND_TRIP_PIXELS)
