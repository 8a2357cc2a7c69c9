"""Suppression of rotated boxes keeps what ultralytics keeps; IoUs are its batch_probiou's."""

from __future__ import annotations

import numpy as np
import pytest

import endcap
from tests.support.rotated_crowds import CROWDS, THRESHOLDS, Crowd, clear_threshold
from tests.support.tolerances import PEER_PROBIOU

torch = pytest.importorskip("torch", reason="torch is not installed; `make test-peers` has it")
metrics = pytest.importorskip(
    "ultralytics.utils.metrics", reason="ultralytics is not installed; `make test-peers` has it"
)
ultralytics_nms = pytest.importorskip("ultralytics.utils.nms")

COUNTS = [1, 100, 1000]


def batch_probiou(crowd: Crowd) -> np.ndarray:
    boxes = torch.from_numpy(crowd.boxes)
    return metrics.batch_probiou(boxes, boxes).numpy()


def kept_by_ultralytics(crowd: Crowd, iou_threshold: float, num_classes: int) -> np.ndarray:
    """non_max_suppression on the crowd as the head of a network: the anchors that it kept."""
    count = len(crowd.scores)
    head = np.zeros((1, 4 + num_classes + 1, count), np.float32)
    head[0, :4] = crowd.boxes[:, :4].T
    head[0, 4 + crowd.class_ids, np.arange(count)] = crowd.scores
    head[0, -1] = crowd.boxes[:, 4]
    _, anchors = ultralytics_nms.non_max_suppression(
        torch.from_numpy(head),
        conf_thres=0.0,
        iou_thres=iou_threshold,
        max_det=count,
        nc=num_classes,
        rotated=True,
        return_idxs=True,
    )
    return anchors[0].numpy()


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("crowd", CROWDS)
def test_ious_are_those_of_batch_probiou(crowd: str, count: int) -> None:
    boxes = CROWDS[crowd](count)
    ours = endcap.rotated_iou(boxes.boxes, boxes.boxes, "probiou").astype(np.float64)
    theirs = batch_probiou(boxes).astype(np.float64)
    # As squares of 1 - IoU: near 1 the square root multiplies the roundings of both.
    np.testing.assert_allclose((1 - ours) ** 2, (1 - theirs) ** 2, rtol=0, atol=PEER_PROBIOU)
    middle = (theirs > 0.02) & (theirs < 0.9)
    np.testing.assert_allclose(ours[middle], theirs[middle], rtol=0, atol=PEER_PROBIOU)
    assert count == 1 or middle.sum() >= count / 5


@pytest.mark.parametrize("near", THRESHOLDS)
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("crowd", CROWDS)
def test_fast_suppression_is_that_of_ultralytics(crowd: str, count: int, near: float) -> None:
    boxes = CROWDS[crowd](count)
    threshold = clear_threshold(batch_probiou(boxes), near, PEER_PROBIOU)
    kept = endcap.nms_rotated(boxes.boxes, boxes.scores, threshold, method="probiou_fast")
    np.testing.assert_array_equal(kept, kept_by_ultralytics(boxes, threshold, 1))
    assert count == 1 or len(kept) < count


@pytest.mark.parametrize("num_classes", [3, 15])
@pytest.mark.parametrize("crowd", CROWDS)
def test_classes_are_apart_as_in_ultralytics(crowd: str, num_classes: int) -> None:
    """On coordinates and offsets of whole eighths: its offsets of classes then round nothing."""
    drawn = CROWDS[crowd](500, num_classes=num_classes)
    boxes = drawn.boxes.copy()
    boxes[:, :2] = np.rint(boxes[:, :2] * 8) / 8
    one = Crowd(boxes, drawn.scores, drawn.class_ids)
    threshold = clear_threshold(batch_probiou(one), 0.45, PEER_PROBIOU)
    kept = endcap.nms_rotated(
        boxes, one.scores, threshold, class_ids=one.class_ids, method="probiou_fast"
    )
    np.testing.assert_array_equal(kept, kept_by_ultralytics(one, threshold, num_classes))


def test_boxes_without_an_area_are_its_degenerate_case() -> None:
    """At angle 0: that of a turned line has a determinant of nothing but roundings."""
    boxes = np.array(
        [[5, 5, 0, 0, 0], [5, 5, 0, 0, 1], [5, 5, 0, 9, 0], [60, 5, 0, 9, 0], [5, 5, 8, 8, 0]],
        np.float32,
    )
    crowd = Crowd(boxes, np.arange(5, 0, -1, dtype=np.float32), np.zeros(5, np.int64))
    ours = endcap.rotated_iou(boxes, boxes, "probiou")
    np.testing.assert_allclose(ours, batch_probiou(crowd), rtol=0, atol=PEER_PROBIOU)
    kept = endcap.nms_rotated(boxes, crowd.scores, 0.5, method="probiou_fast")
    np.testing.assert_array_equal(kept, kept_by_ultralytics(crowd, 0.5, 1))
