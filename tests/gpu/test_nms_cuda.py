"""nms, batched_nms and nms_rotated on a GPU: the CPU's indices, wherever boxes lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import endcap
from tests.support.cuda_inputs import HOLDERS, on_gpu
from tests.support.rotated_crowds import CROWDS, Crowd
from tests.support.sample_heads import random_boxes

RANDOM = np.random.default_rng(3)
CORNERS = RANDOM.uniform(0, 100, (300, 2))
BOXES = np.hstack([CORNERS, CORNERS + RANDOM.uniform(1, 60, (300, 2))]).astype(np.float32)
SCORES = np.round(RANDOM.uniform(0, 1, 300), 1).astype(np.float32)
CLASS_IDS = RANDOM.integers(0, 4, 300)


def boxes_xyxy(random: np.random.Generator, count: int) -> np.ndarray:
    cxcywh = random_boxes(random, count)
    half = cxcywh[:, 2:] / 2
    return np.hstack([cxcywh[:, :2] - half, cxcywh[:, :2] + half]).astype(np.float32)


@pytest.mark.parametrize("count", [0, 1, 2, 31, 64, 65, 1000, 3000])
@pytest.mark.parametrize("iou_threshold", [0.0, 0.45, 1.0, 1.5])
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


def test_an_iou_equal_to_the_threshold_is_kept() -> None:
    boxes, scores = np.float32([[0, 0, 1, 1], [0, 0, 1, 2]]), np.float32([0.9, 0.8])  # IoU 1/2
    for iou_threshold, expected in ((0.5, [0, 1]), (np.nextafter(0.5, 0), [0])):
        kept = endcap.nms(boxes, scores, iou_threshold, device="cuda")
        assert kept.to_numpy().tolist() == expected


@pytest.mark.parametrize("hold", HOLDERS)
def test_boxes_on_the_gpu(hold: Any) -> None:
    kept = endcap.nms(hold(BOXES), hold(SCORES), 0.45)
    assert isinstance(kept, endcap.CudaArray)
    assert kept.dtype == np.int64
    np.testing.assert_array_equal(kept.to_numpy(), endcap.nms(BOXES, SCORES, 0.45))


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
@pytest.mark.parametrize("hold", [np.asarray, *HOLDERS])
def test_classes_of_every_integer_type(hold: Any, dtype: str) -> None:
    kept = endcap.batched_nms(on_gpu(BOXES), SCORES, hold(CLASS_IDS.astype(dtype)), 0.5)
    expected = endcap.batched_nms(BOXES, SCORES, CLASS_IDS, 0.5)
    np.testing.assert_array_equal(kept.to_numpy(), expected)


def test_class_ids_beyond_32_bits() -> None:
    wide = CLASS_IDS * 2**33
    kept = endcap.batched_nms(on_gpu(BOXES), on_gpu(SCORES), on_gpu(wide), 0.5)
    np.testing.assert_array_equal(kept.to_numpy(), endcap.batched_nms(BOXES, SCORES, wide, 0.5))


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int64])
def test_boxes_and_scores_of_other_types(dtype: Any) -> None:
    boxes, scores = BOXES.astype(dtype), (1000 * SCORES).astype(dtype)
    kept = endcap.nms(on_gpu(boxes), on_gpu(scores), 0.5)
    np.testing.assert_array_equal(kept.to_numpy(), endcap.nms(boxes, scores, 0.5))


def test_boxes_of_the_host_are_uploaded() -> None:
    kept = endcap.nms(BOXES.tolist(), SCORES, 0.5, device="cuda")
    np.testing.assert_array_equal(kept.to_numpy(), endcap.nms(BOXES, SCORES, 0.5))
    assert endcap.nms(BOXES, SCORES, 0.5, device="cuda:0", stream=2).stream == 2


def test_no_boxes() -> None:
    empty = np.zeros((0, 4), np.float32)
    assert endcap.nms(on_gpu(empty), on_gpu(SCORES[:0]), 0.5).shape == (0,)
    assert endcap.batched_nms(empty, [], [], 0.5, device="cuda").to_numpy().tolist() == []


def test_a_score_without_order_is_refused() -> None:
    scores = SCORES.copy()
    scores[7] = np.nan
    with pytest.raises(endcap.InvalidArgumentError, match="NaN"):
        endcap.nms(on_gpu(BOXES), on_gpu(scores), 0.5)


@pytest.mark.parametrize(
    ("boxes", "scores", "threshold", "message"),
    [
        (BOXES[:9], SCORES, 0.5, "shape"),
        (BOXES.ravel(), SCORES, 0.5, "shape"),
        (BOXES, SCORES[:, None], 0.5, "shape"),
        (BOXES.astype(bool), SCORES, 0.5, "boxes is bool"),
        (BOXES, SCORES, float("nan"), "iou_threshold"),
        (BOXES, SCORES, "half", "iou_threshold"),
    ],
)
def test_what_does_not_fit(
    boxes: np.ndarray, scores: np.ndarray, threshold: Any, message: str
) -> None:
    with pytest.raises(endcap.InvalidArgumentError, match=message):
        endcap.nms(on_gpu(boxes), on_gpu(scores), threshold)


def test_the_cpu_does_not_fetch_boxes_from_the_gpu() -> None:
    with pytest.raises(endcap.InvalidArgumentError, match="boxes lies on cuda:0"):
        endcap.nms(on_gpu(BOXES), SCORES, 0.5, device="cpu")


METHODS = ["polygon", "probiou", "probiou_fast"]


def both_devices(crowd: Crowd, hold: Any, **options: Any) -> tuple[Any, np.ndarray]:
    """What nms_rotated keeps on the GPU, and on the CPU."""
    classes = crowd.class_ids
    gpu = endcap.nms_rotated(
        hold(crowd.boxes), hold(crowd.scores), 0.3, class_ids=hold(classes), **options
    )
    return gpu, endcap.nms_rotated(crowd.boxes, crowd.scores, 0.3, class_ids=classes, **options)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("crowd", CROWDS)
@pytest.mark.parametrize("count", [1, 65, 1100])
def test_rotated_boxes(count: int, crowd: str, method: str) -> None:
    on_the_gpu, expected = both_devices(CROWDS[crowd](count, 1, 3), on_gpu, method=method)
    assert isinstance(on_the_gpu, endcap.CudaArray)
    assert on_the_gpu.dtype == np.int64
    np.testing.assert_array_equal(on_the_gpu.to_numpy(), expected)


@pytest.mark.parametrize("hold", HOLDERS)
@pytest.mark.parametrize("limit", [0, 7, None])
def test_rotated_boxes_wherever_they_lie(hold: Any, limit: int | None) -> None:
    crowd = CROWDS["scattered"](100, 2, 2)
    on_the_gpu, expected = both_devices(crowd, hold, max_detections=limit)
    np.testing.assert_array_equal(on_the_gpu.to_numpy(), expected)
    up = endcap.nms_rotated(crowd.boxes.tolist(), crowd.scores, 0.3, device="cuda", stream=2)
    assert up.stream == 2
    np.testing.assert_array_equal(up.to_numpy(), endcap.nms_rotated(crowd.boxes, crowd.scores, 0.3))


def test_no_rotated_boxes() -> None:
    empty = np.zeros((0, 5), np.float32)
    assert endcap.nms_rotated(on_gpu(empty), on_gpu(SCORES[:0]), 0.5).shape == (0,)
    for device in ("cpu", "cuda"):
        assert endcap.nms_rotated([], [], 0.5, device=device).shape == (0,)
        with pytest.raises(endcap.InvalidArgumentError, match="iou_threshold"):
            endcap.nms_rotated(empty, [], 1.5, device=device)
        with pytest.raises(endcap.InvalidArgumentError, match="angle"):
            endcap.nms_rotated(empty[:, :4], [], 0.5, device=device)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"boxes": BOXES}, "shape"),
        ({"scores": SCORES[:9]}, "shape"),
        ({"scores": np.full(300, np.nan, np.float32)}, "NaN"),
        ({"iou_threshold": 1.5}, "iou_threshold"),
        ({"method": "exact"}, "polygon, probiou, probiou_fast"),
        ({"max_detections": -1}, "max_detections"),
        ({"device": "cpu"}, "boxes lies on cuda:0"),
    ],
)
def test_rotated_boxes_that_do_not_fit(change: dict[str, Any], message: str) -> None:
    rotated = np.hstack([BOXES, BOXES[:, :1]])
    arguments = {"boxes": rotated, "scores": SCORES, "iou_threshold": 0.5} | change
    arrays = {name: on_gpu(arguments.pop(name)) for name in ("boxes", "scores")}
    with pytest.raises(endcap.InvalidArgumentError, match=message):
        endcap.nms_rotated(**arrays, **arguments)
