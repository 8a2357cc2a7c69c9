"""The IoUs of rotated boxes: a slow oracle's, and near OpenCV's."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from rotated_crowds import CROWDS, scattered
from tolerances import OPENCV_ROTATED_IOU, PROBIOU_SQUARED_DISTANCE, ROTATED_IOU

import endcap
from reference import rotated_boxes as oracle

PI = np.float32(np.pi)


def assert_oracle_iou(boxes_a: np.ndarray, boxes_b: np.ndarray) -> None:
    polygon = endcap.rotated_iou(boxes_a, boxes_b)
    assert polygon.dtype == np.float32
    expected = oracle.iou_matrix(boxes_a, boxes_b, "polygon")
    np.testing.assert_allclose(polygon, expected, rtol=0, atol=ROTATED_IOU)
    probiou = endcap.rotated_iou(boxes_a, boxes_b, "probiou")
    expected = oracle.iou_matrix(boxes_a, boxes_b, "probiou")
    np.testing.assert_allclose(
        (1 - probiou.astype(np.float64)) ** 2,
        (1 - expected) ** 2,
        rtol=0,
        atol=PROBIOU_SQUARED_DISTANCE,
    )


@pytest.mark.parametrize("crowd", CROWDS)
def test_ious_equal_the_oracle(crowd: str) -> None:
    boxes = CROWDS[crowd](50).boxes
    assert_oracle_iou(boxes[:30], boxes)


def test_ious_on_a_grid_equal_the_oracle() -> None:
    """Equal boxes, one within the other, touching sides, crosses."""
    random = np.random.default_rng(1)
    numbers = [random.integers(-3, 4, (60, 2)), random.integers(1, 6, (60, 2))]
    turns = random.integers(-9, 10, (60, 1)) * (PI / 4)
    boxes = np.hstack([*numbers, turns]).astype(np.float32)
    assert_oracle_iou(boxes[:20], boxes)


@pytest.mark.parametrize("turn", [0.0, PI / 2, PI, -PI, 2 * PI, 1e6])
def test_angles_at_the_wrap(turn: float) -> None:
    random = np.random.default_rng(3)
    boxes = scattered(40).boxes
    boxes[:, 4] = (turn + random.normal(0, 1e-3, 40)).astype(np.float32)
    assert_oracle_iou(boxes[:15], boxes)


@pytest.mark.parametrize("crowd", CROWDS)
def test_ious_are_near_opencv(crowd: str) -> None:
    boxes = CROWDS[crowd](80).boxes
    ours = endcap.rotated_iou(boxes, boxes)
    rectangles = [((b[0], b[1]), (b[2], b[3]), np.degrees(b[4])) for b in boxes.tolist()]
    met = 0
    for i, first in enumerate(rectangles):
        for j, second in enumerate(rectangles[:i]):
            kind, points = cv2.rotatedRectangleIntersection(first, second)
            shared = 0.0
            if kind != cv2.INTERSECT_NONE:
                shared = cv2.contourArea(cv2.convexHull(points))
                met += 1
            union = np.prod(first[1]) + np.prod(second[1]) - shared
            assert abs(ours[i, j] - shared / union) <= OPENCV_ROTATED_IOU
    assert met >= 40


def test_bad_arguments_are_refused() -> None:
    boxes = np.ones((2, 5), np.float32)
    with pytest.raises(endcap.InvalidArgumentError, match="boxes_b have shape"):
        endcap.rotated_iou(boxes, np.ones((2, 4)))
    with pytest.raises(endcap.InvalidArgumentError, match="polygon, probiou, probiou_fast"):
        endcap.rotated_iou(boxes, boxes, "giou")  # type: ignore[arg-type]
