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


@pytest.mark.parametrize("iou_threshold", IOU_THRESHOLDS)
@pytest.mark.parametrize("count", COUNTS)
def test_nms_keeps_the_same_boxes(count: int, iou_threshold: float) -> None:
    random = np.random.default_rng(count)
    boxes = random_boxes(random, count)
    # A permutation: no two scores are equal, so that the order is the same everywhere.
    scores = (random.permutation(count) + 1).astype(np.float32) / count
    kept = endcap.nms(boxes, scores, iou_threshold)
    np.testing.assert_array_equal(kept, torch_nms(boxes, scores, iou_threshold))


@pytest.mark.parametrize("count", COUNTS)
def test_random_boxes_are_a_test(count: int) -> None:
    """At 0.5 suppression has something to do, and something is left."""
    random = np.random.default_rng(count)
    boxes = random_boxes(random, count)
    kept = torch_nms(boxes, random.uniform(size=count).astype(np.float32), 0.5)
    assert 0 < len(kept) <= max(1, 0.8 * count)


@pytest.mark.parametrize("iou_threshold", IOU_THRESHOLDS)
@pytest.mark.parametrize("count", COUNTS)
def test_ties_go_to_the_lower_index(count: int, iou_threshold: float) -> None:
    """torchvision on a CPU sorts stably, so its response for equal scores is defined too."""
    random = np.random.default_rng(count)
    boxes = random_boxes(random, count)
    scores = random.integers(1, 5, count).astype(np.float32) / 4
    kept = endcap.nms(boxes, scores, iou_threshold)
    np.testing.assert_array_equal(kept, torch_nms(boxes, scores, iou_threshold))


@pytest.mark.parametrize("iou_threshold", IOU_THRESHOLDS)
@pytest.mark.parametrize("num_classes", [1, 3, 80])
@pytest.mark.parametrize("count", COUNTS)
def test_batched_nms_keeps_the_same_boxes(
    count: int, num_classes: int, iou_threshold: float
) -> None:
    """Against torchvision class by class, which is what its own batched_nms does on many boxes.

    On few boxes it moves the classes apart instead, which rounds the coordinates: see below.
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


@pytest.mark.parametrize("count", COUNTS)
def test_batched_nms_equals_that_of_torchvision(count: int) -> None:
    """On whole coordinates no rounding happens when torchvision moves classes apart."""
    random = np.random.default_rng(count)
    boxes = np.rint(random_boxes(random, count))
    scores = (random.permutation(count) + 1).astype(np.float32) / count
    class_ids = random.integers(0, 5, count)
    expected = torchvision.ops.batched_nms(
        torch.from_numpy(boxes), torch.from_numpy(scores), torch.from_numpy(class_ids), 0.5
    )
    kept = endcap.batched_nms(boxes, scores, class_ids, 0.5)
    np.testing.assert_array_equal(kept, expected.numpy())


@pytest.mark.parametrize("above", [False, True])
def test_a_pair_at_the_threshold(above: bool) -> None:
    """Two boxes whose IoU is 1e-5 below or above the threshold."""
    boxes = np.array([[0, 0, 100, 100], [25, 0, 125, 100]], np.float32)
    scores = np.array([0.9, 0.8], np.float32)
    iou_threshold = 0.6 + (-1e-5 if above else 1e-5)  # the pair's IoU is 75 / 125
    kept = endcap.nms(boxes, scores, iou_threshold)
    np.testing.assert_array_equal(kept, [0] if above else [0, 1])
    np.testing.assert_array_equal(kept, torch_nms(boxes, scores, iou_threshold))


@pytest.mark.parametrize("iou_threshold", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("seed", range(10))
def test_a_crowd_with_a_pair_just_past_the_threshold(seed: int, iou_threshold: float) -> None:
    """The last of 1,000 boxes overlaps the first by 1e-5 more than the threshold."""
    random = np.random.default_rng(seed)
    corners = random.uniform(0, 100, (1000, 2))
    boxes = np.hstack([corners, corners + random.uniform(0, 100, (1000, 2))]).astype(np.float32)
    boxes[-1] = boxes[0]
    width = boxes[0, 2] - boxes[0, 0]
    boxes[-1, 2] = boxes[0, 0] + width / np.float32(iou_threshold + 1e-5)
    scores = random.uniform(0, 1, 1000).astype(np.float32)
    for given in (scores, scores[::-1].copy()):
        kept = endcap.nms(boxes, given, iou_threshold)
        np.testing.assert_array_equal(kept, torch_nms(boxes, given, iou_threshold))
    pair = boxes[[0, -1]]
    kept = endcap.nms(pair, scores[:2], iou_threshold)
    np.testing.assert_array_equal(kept, torch_nms(pair, scores[:2], iou_threshold))
    assert len(kept) == 1


@pytest.mark.parametrize(
    ("boxes_shape", "scores_shape"),
    [((4,), (3,)), ((3, 5), (3,)), ((3, 4), (3, 2)), ((3, 4), (4,))],
)
def test_shapes_that_torchvision_refuses(
    boxes_shape: tuple[int, ...], scores_shape: tuple[int, ...]
) -> None:
    boxes, scores = torch.rand(boxes_shape), torch.rand(scores_shape)
    with pytest.raises(RuntimeError):
        torchvision.ops.nms(boxes, scores, 0.5)
    with pytest.raises(endcap.InvalidArgumentError, match="shape"):
        endcap.nms(boxes, scores, 0.5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_large_boxes_in_each_floating_type(dtype: torch.dtype) -> None:
    """Areas beyond the range of float16; torchvision on a CPU has no float16 to compare with."""
    boxes = torch.tensor([[280, 180, 1190, 850], [284, 188, 1194, 852], [270, 199, 1190, 848.0]])
    scores = torch.tensor([0.625, 0.75, 0.4])
    expected = torchvision.ops.nms(boxes, scores, 0.2)
    assert expected.tolist() == [1]
    np.testing.assert_array_equal(endcap.nms(boxes.to(dtype), scores.to(dtype), 0.2), expected)


@pytest.mark.parametrize("iou_threshold", IOU_THRESHOLDS)
def test_float64(iou_threshold: float) -> None:
    """On whole coordinates float32 and float64 have the same IoU, but for its last digits."""
    random = np.random.default_rng(64)
    boxes = np.rint(random_boxes(random, 1000)).astype(np.float64)
    # float32 cannot tell these scores apart.
    scores = 0.5 + random.permutation(1000) * 1e-12
    kept = endcap.nms(boxes, scores, iou_threshold)
    np.testing.assert_array_equal(kept, torch_nms(boxes, scores, iou_threshold))


@pytest.mark.parametrize("seed", range(10))
def test_classes_of_boxes_that_all_overlap(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    top_left = torch.rand(1000, 2, generator=generator)
    boxes = torch.cat([top_left, 10 + torch.rand(1000, 2, generator=generator)], dim=1)
    scores = torch.rand(1000, generator=generator)
    idxs = torch.randint(0, 4, (1000,), generator=generator)
    expected = torchvision.ops.batched_nms(boxes, scores, idxs, 0.9)
    assert 4 < len(expected) < 1000
    np.testing.assert_array_equal(endcap.batched_nms(boxes, scores, idxs, 0.9), expected)


ANY_TYPE = [
    torch.float16, torch.float32, torch.float64, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.bool,
]  # fmt: skip


@pytest.mark.parametrize("dtype", ANY_TYPE)
def test_no_boxes_of_any_type(dtype: torch.dtype) -> None:
    boxes, scores = torch.empty((0, 4), dtype=dtype), torch.empty(0, dtype=dtype)
    expected = torchvision.ops.batched_nms(boxes, scores, scores, 0.5)
    for kept in (endcap.batched_nms(boxes, scores, scores, 0.5), endcap.nms(boxes, scores, 0.5)):
        assert (kept.shape, kept.dtype) == (expected.shape, np.int64)


@pytest.mark.parametrize("count", [100, 2000])  # torchvision has a method for many boxes
@pytest.mark.parametrize("dtype", ANY_TYPE)
def test_idxs_of_any_type(dtype: torch.dtype, count: int) -> None:
    random = np.random.default_rng(count)
    boxes = torch.from_numpy(np.rint(random_boxes(random, count)))
    scores = torch.from_numpy((random.permutation(count) + 1).astype(np.float32))
    idxs = torch.from_numpy(random.integers(0, 2, count)).to(dtype)
    expected = torchvision.ops.batched_nms(boxes, scores, idxs, 0.5)
    np.testing.assert_array_equal(endcap.batched_nms(boxes, scores, idxs, 0.5), expected)
    assert len(expected) != len(torchvision.ops.nms(boxes, scores, 0.5))


DEGENERATE = [[5, 5, 5, 5], [5, 5, 5, 5], [0, 0, 10, 10], [7, 7, 3, 3], [0, 0, float("inf"), 1]]


@pytest.mark.parametrize("iou_threshold", [-float("inf"), -1, -1e-9, 0, 1, 1.5, float("inf"), True])
def test_thresholds_outside_0_to_1(iou_threshold: float) -> None:
    random = np.random.default_rng(1)
    crowd = np.rint(random_boxes(random, 100))
    boxes = torch.from_numpy(np.vstack([np.array(DEGENERATE, np.float32), crowd]))
    scores = torch.from_numpy(random.permutation(len(boxes)).astype(np.float32))
    for order in (scores, -scores, torch.arange(len(boxes), 0, -1, dtype=torch.float32)):
        expected = torchvision.ops.nms(boxes, order, iou_threshold)
        np.testing.assert_array_equal(endcap.nms(boxes, order, iou_threshold), expected)
    idxs = torch.from_numpy(random.integers(0, 3, 100))
    whole, ranked = boxes[len(DEGENERATE) :], scores[len(DEGENERATE) :]
    # Moved apart, classes do not overlap, which a threshold below 0 does not ask: class by class.
    expected = torchvision.ops.boxes._batched_nms_vanilla(whole, ranked, idxs, iou_threshold)
    kept = endcap.batched_nms(whole, ranked, idxs, iou_threshold)
    np.testing.assert_array_equal(kept, expected)


@pytest.mark.parametrize(
    "iou_threshold", [torch.tensor(0.5), torch.tensor([0.5]), np.float64(0.5), np.float32(0.5)]
)
def test_thresholds_of_one_element(iou_threshold: object) -> None:
    boxes, scores = torch.tensor([[0, 0, 9, 9], [0, 0, 9, 8.0]]), torch.tensor([0.5, 0.75])
    expected = torchvision.ops.nms(boxes, scores, iou_threshold)
    np.testing.assert_array_equal(endcap.nms(boxes, scores, iou_threshold), expected)


def test_tensors_that_are_not_contiguous() -> None:
    random = np.random.default_rng(3)
    boxes = torch.from_numpy(random_boxes(random, 100)).t().contiguous().t()
    scores = torch.from_numpy(random.permutation(200).astype(np.float32))[::2]
    assert not boxes.is_contiguous()
    expected = torchvision.ops.nms(boxes, scores, 0.5)
    np.testing.assert_array_equal(endcap.nms(boxes, scores, 0.5), expected)


def test_what_torchvision_takes_and_endcap_refuses() -> None:
    """As the documentation says: NaN, and arguments that are not looked at without boxes."""
    boxes, scores = torch.tensor([[0, 0, 9, 9], [20, 20, 29, 29.0]]), torch.tensor([0.5, 0.75])
    nan = float("nan")
    assert torchvision.ops.nms(boxes, scores, nan).tolist() == [1, 0]
    with pytest.raises(endcap.InvalidArgumentError, match="iou_threshold"):
        endcap.nms(boxes, scores, nan)
    assert torchvision.ops.nms(boxes, torch.tensor([0.5, nan]), 0.5).tolist() == [1, 0]
    with pytest.raises(endcap.InvalidArgumentError, match="NaN"):
        endcap.nms(boxes, torch.tensor([0.5, nan]), 0.5)
    assert torchvision.ops.batched_nms(boxes[:0], None, None, None).tolist() == []
    with pytest.raises(endcap.InvalidArgumentError, match="iou_threshold"):
        endcap.batched_nms(boxes[:0], None, None, None)
