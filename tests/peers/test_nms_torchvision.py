"""Suppression keeps what torchvision keeps: the same boxes in the same order."""

from __future__ import annotations

import numpy as np
import pytest

import endcap

torch = pytest.importorskip("torch", reason="torch is not installed; `make test-peers` has it")
torchvision = pytest.importorskip(
    "torchvision", reason="torchvision is not installed; `make test-peers` has it"
)

COUNTS = [1, 100, 5_000]
IOU_THRESHOLDS = [0.0, 0.3, 0.5, 0.7, 1.0]


def random_boxes(random: np.random.Generator, count: int) -> np.ndarray:
    """xyxy float32 [count, 4], so crowded that at every threshold some go and some stay."""
    side = 40.0 * np.sqrt(count) + 60.0
    corners = random.uniform(0, side, (count, 2))
    sizes = random.uniform(20, 120, (count, 2))
    # Every second box is near the one before it.
    corners[1::2] = corners[0::2][: count // 2] + random.normal(0, 3, (count // 2, 2))
    sizes[1::2] = sizes[0::2][: count // 2]
    return np.hstack([corners, corners + sizes]).astype(np.float32)


def torch_nms(boxes: np.ndarray, scores: np.ndarray, iou_threshold: float) -> np.ndarray:
    kept = torchvision.ops.nms(torch.from_numpy(boxes), torch.from_numpy(scores), iou_threshold)
    return kept.numpy()


@pytest.mark.parametrize("has_ties", [False, True])
@pytest.mark.parametrize("iou_threshold", IOU_THRESHOLDS)
@pytest.mark.parametrize("count", COUNTS)
def test_nms_keeps_the_same_boxes(count: int, iou_threshold: float, has_ties: bool) -> None:
    """torchvision on a CPU sorts stably: of equal scores the lower index is first."""
    random = np.random.default_rng(count)
    boxes = random_boxes(random, count)
    ranks = random.integers(1, 5, count) if has_ties else random.permutation(count) + 1
    scores = ranks.astype(np.float32) / (4 if has_ties else count)
    kept = endcap.nms(boxes, scores, iou_threshold)
    np.testing.assert_array_equal(kept, torch_nms(boxes, scores, iou_threshold))


@pytest.mark.parametrize("iou_threshold", IOU_THRESHOLDS)
@pytest.mark.parametrize("num_classes", [1, 3, 80])
@pytest.mark.parametrize("count", COUNTS)
def test_batched_nms_keeps_the_same_boxes(
    count: int, num_classes: int, iou_threshold: float
) -> None:
    """Against torchvision class by class, which is what its own batched_nms does on many boxes.

    On few boxes it moves the classes apart instead, which rounds the coordinates.
    """
    random = np.random.default_rng(count + num_classes)
    boxes = random_boxes(random, count)
    scores = (random.permutation(count) + 1).astype(np.float32) / count
    class_ids = random.integers(0, num_classes, count)
    expected = [
        rows[torch_nms(boxes[rows], scores[rows], iou_threshold)]
        for rows in (np.flatnonzero(class_ids == each) for each in np.unique(class_ids))
    ]
    kept = endcap.batched_nms(boxes, scores, class_ids, iou_threshold)
    together = np.concatenate(expected)
    np.testing.assert_array_equal(kept, together[np.argsort(-scores[together], kind="stable")])


DEGENERATE = [[5, 5, 5, 5], [5, 5, 5, 5], [0, 0, 10, 10], [7, 7, 3, 3], [0, 0, float("inf"), 1]]


@pytest.mark.parametrize("iou_threshold", [0, 1, 1.5, float("inf"), True])
def test_thresholds_of_0_and_from_1_on(iou_threshold: float) -> None:
    random = np.random.default_rng(1)
    crowd = np.rint(random_boxes(random, 100))
    boxes = torch.from_numpy(np.vstack([np.array(DEGENERATE, np.float32), crowd]))
    scores = torch.from_numpy(random.permutation(len(boxes)).astype(np.float32))
    for order in (scores, -scores, torch.arange(len(boxes), 0, -1, dtype=torch.float32)):
        expected = torchvision.ops.nms(boxes, order, iou_threshold)
        np.testing.assert_array_equal(endcap.nms(boxes, order, iou_threshold), expected)
    idxs = torch.from_numpy(random.integers(0, 3, 100))
    whole, ranked = boxes[len(DEGENERATE) :], scores[len(DEGENERATE) :]
    expected = torchvision.ops.boxes._batched_nms_vanilla(whole, ranked, idxs, iou_threshold)
    kept = endcap.batched_nms(whole, ranked, idxs, iou_threshold)
    np.testing.assert_array_equal(kept, expected)
