"""Suppression on a GPU keeps what the CPU keeps, in the same order."""

from __future__ import annotations

import numpy as np
import pytest
from sample_heads import random_boxes

import endcap


def boxes_xyxy(random: np.random.Generator, count: int) -> np.ndarray:
    cxcywh = random_boxes(random, count)
    half = cxcywh[:, 2:] / 2
    return np.hstack([cxcywh[:, :2] - half, cxcywh[:, :2] + half]).astype(np.float32)


@pytest.mark.parametrize("count", [0, 1, 2, 31, 64, 65, 1000, 3000])
@pytest.mark.parametrize("iou_threshold", [0.0, 0.45, 1.0])
def test_nms(count: int, iou_threshold: float) -> None:
    random = np.random.default_rng(count)
    boxes = boxes_xyxy(random, count)
    scores = np.round(random.uniform(0, 1, count), 2).astype(np.float32)  # with ties
    class_ids = random.integers(0, 9, count).astype(np.int32)
    kept = endcap.nms(boxes, scores, iou_threshold, device="cuda")
    np.testing.assert_array_equal(kept.to_numpy(), endcap.nms(boxes, scores, iou_threshold))
    kept = endcap.batched_nms(boxes, scores, class_ids, iou_threshold, device="cuda")
    expected = endcap.batched_nms(boxes, scores, class_ids, iou_threshold)
    np.testing.assert_array_equal(kept.to_numpy(), expected)


@pytest.mark.parametrize("count", [1, 31, 65, 1100])
@pytest.mark.parametrize("method", ["polygon", "probiou", "probiou_fast"])
def test_nms_rotated(count: int, method: str) -> None:
    random = np.random.default_rng(count)
    angles = random.uniform(-7, 7, (count, 1))
    boxes = np.hstack([random_boxes(random, count), angles]).astype(np.float32)
    scores = np.round(random.uniform(0, 1, count), 2).astype(np.float32)  # with ties
    class_ids = random.integers(0, 3, count).astype(np.int32)
    for classes in (None, class_ids):
        expected = endcap.nms_rotated(boxes, scores, 0.3, class_ids=classes, method=method)
        kept = endcap.nms_rotated(
            boxes, scores, 0.3, class_ids=classes, method=method, device="cuda"
        )
        np.testing.assert_array_equal(kept.to_numpy(), expected)


def test_empty_and_infinite_boxes() -> None:
    boxes = np.array(
        [[0, 0, 0, 0], [0, 0, 0, 0], [-np.inf, 0, np.inf, 1], [5, 5, 1, 1], [0, 0, 9, 9]],
        np.float32,
    )
    scores = np.array([0.5, 0.5, 0.9, -np.inf, 0.1], np.float32)
    kept = endcap.nms(boxes, scores, 0.5, device="cuda").to_numpy()
    np.testing.assert_array_equal(kept, endcap.nms(boxes, scores, 0.5))


def test_a_nan_score_is_an_error() -> None:
    scores = np.array([0.5, np.nan], np.float32)
    with pytest.raises(endcap.InvalidArgumentError, match="NaN"):
        endcap.nms(np.zeros((2, 4), np.float32), scores, 0.5, device="cuda")
