"""Suppression: kept indices and their order equal the slow oracle exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import endcap
from tests.reference import boxes as oracle
from tests.support.forced_implementations import on_each_implementation

forced_implementation = on_each_implementation("nms")


def random_boxes(random: np.random.Generator, count: int, *, side: float = 100) -> np.ndarray:
    """xyxy float32 [count, 4], crowded enough that many overlap."""
    corners = random.uniform(0, side, (count, 2))
    return np.hstack([corners, corners + random.uniform(1, side / 2, (count, 2))]).astype(
        np.float32
    )


def pair_with_iou(iou: float) -> np.ndarray:
    """Two 100x100 boxes, the second moved to the right until they overlap by `iou`."""
    shift = 100 * (1 - iou) / (1 + iou)
    return np.array([[0, 0, 100, 100], [shift, 0, 100 + shift, 100]], np.float32)


@pytest.mark.parametrize("iou_threshold", [0.0, 0.2, 0.5, 0.7, 1.0])
@pytest.mark.parametrize(("count", "classes"), [(1, 1), (2, 1), (50, 3), (200, 3), (200, 80)])
def test_random_boxes_equal_oracle(count: int, classes: int, iou_threshold: float) -> None:
    random = np.random.default_rng(count + classes)
    boxes = random_boxes(random, count)
    scores = random.uniform(0, 1, count).astype(np.float32)
    class_ids = random.integers(0, classes, count)
    kept = endcap.nms(boxes, scores, iou_threshold)
    np.testing.assert_array_equal(kept, oracle.nms(boxes, scores, iou_threshold))
    kept = endcap.batched_nms(boxes, scores, class_ids, iou_threshold)
    expected = oracle.batched_nms(boxes, scores, class_ids, iou_threshold)
    np.testing.assert_array_equal(kept, expected)


@st.composite
def crowds(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Boxes on a coarse grid with few different scores: exact overlaps and ties are common."""
    count = draw(st.integers(0, 40))
    corners = draw(hnp.arrays(np.int8, (count, 2), elements=st.integers(-6, 6)))
    sizes = draw(hnp.arrays(np.int8, (count, 2), elements=st.integers(0, 6)))
    levels = draw(hnp.arrays(np.int8, count, elements=st.integers(-2, 4)))
    class_ids = draw(hnp.arrays(np.int32, count, elements=st.integers(0, 2)))
    boxes = np.hstack([corners, corners + sizes]).astype(np.float32)
    return boxes, levels.astype(np.float32) / 4, class_ids


THRESHOLDS = [0.0, 0.25, 1 / 3, 0.5, 0.75, 1.0, 1.5, np.inf]


@given(crowds(), st.sampled_from(THRESHOLDS))
def test_any_crowd_equals_oracle(
    crowd: tuple[np.ndarray, np.ndarray, np.ndarray], iou_threshold: float
) -> None:
    boxes, scores, class_ids = crowd
    np.testing.assert_array_equal(
        endcap.nms(boxes, scores, iou_threshold), oracle.nms(boxes, scores, iou_threshold)
    )
    np.testing.assert_array_equal(
        endcap.batched_nms(boxes, scores, class_ids, iou_threshold),
        oracle.batched_nms(boxes, scores, class_ids, iou_threshold),
    )


@given(
    hnp.arrays(
        np.float32,
        st.tuples(st.integers(0, 12), st.just(4)),
        elements=st.floats(width=32, allow_nan=True, allow_infinity=True),
    ),
)
def test_boxes_of_any_bits_equal_oracle(boxes: np.ndarray) -> None:
    scores = np.arange(len(boxes), dtype=np.float32)
    np.testing.assert_array_equal(endcap.nms(boxes, scores, 0.5), oracle.nms(boxes, scores, 0.5))


@pytest.mark.parametrize("iou", [0.1, 0.5, 0.7, 0.9])
def test_a_hair_past_the_threshold(iou: float) -> None:
    scores = np.array([0.9, 0.8], np.float32)
    boxes = pair_with_iou(iou)
    assert endcap.nms(boxes, scores, iou - 1e-5).tolist() == [0]
    assert endcap.nms(boxes, scores, iou + 1e-5).tolist() == [0, 1]


# Boxes, scores, threshold, and what is kept.
KNOWN: dict[str, tuple[Any, Any, float, list[int]]] = {
    # Intersection 1, union 2: the IoU is exactly one half.
    "equal to the threshold": ([[0, 0, 1, 1], [0, 0, 1, 2]], [0.9, 0.8], 0.5, [0, 1]),
    "just over": ([[0, 0, 1, 1], [0, 0, 1, 2]], [0.9, 0.8], np.nextafter(0.5, 0), [0]),
    # float32(1/3) is greater than the double 1/3, which torchvision's comparison sees.
    "compared in double": ([[0, 0, 2, 1], [1, 0, 3, 1]], [0.9, 0.8], 1 / 3, [0]),
    "ties, the lower index": ([[0, 0, 10, 10]] * 5, [0.5] * 5, 0.5, [0]),
    "ties apart": (
        [[100 * i, 0, 100 * i + 9, 9] for i in range(5)],
        [0.5, 0.7, 0.5, 0.7, 0.5],
        0.5,
        [1, 3, 0, 2, 4],
    ),
    # Touching boxes share no area, also where "+1" would make them overlap.
    "no offset of coordinates": ([[0, 0, 1, 1], [1, 0, 2, 1]], [0.9, 0.8], 0.0, [0, 1]),
    "empty boxes": ([[5, 5, 5, 5]] * 2 + [[0, 0, 10, 10]], [0.9, 0.8, 0.7], 0.5, [0, 1, 2]),
    "infinite scores": (
        [[0, 0, 1, 1], [5, 5, 6, 6], [9, 9, 10, 10]],
        [-np.inf, np.inf, 0],
        0.5,
        [1, 2, 0],
    ),
    "none": (np.zeros((0, 4)), [], 0.5, []),
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_results(name: str) -> None:
    boxes, scores, iou_threshold, expected = KNOWN[name]
    for kept in (
        endcap.nms(boxes, scores, iou_threshold),
        endcap.batched_nms(boxes, scores, np.zeros(len(boxes), np.int64), iou_threshold),
    ):
        assert (kept.dtype, kept.tolist()) == (np.int64, expected)


def test_far_classes_do_not_suppress_each_other_at_huge_coordinates() -> None:
    # An offset trick would lose the fractions of coordinates here.
    boxes = np.array([[1e6, 1e6, 1e6 + 10, 1e6 + 10]] * 2, np.float32)
    scores = np.array([0.9, 0.8], np.float32)
    assert endcap.batched_nms(boxes, scores, np.array([0, 7]), 0.5).tolist() == [0, 1]
    assert endcap.batched_nms(boxes, scores, np.array([7, 7]), 0.5).tolist() == [0]


def test_class_ids_beyond_32_bits_stay_apart_or_are_refused() -> None:
    boxes = np.array([[0, 0, 10, 10]] * 2, np.float32)
    scores = np.array([0.9, 0.8], np.float32)
    try:
        kept = endcap.batched_nms(boxes, scores, np.array([0, 2**32]), 0.5).tolist()
    except endcap.InvalidArgumentError:
        kept = [0, 1]
    assert kept == [0, 1]


@pytest.mark.parametrize("dtype", ["?", "i1", "i2", "u2", "u4", "i8", "u8", "f2", "f4", "f8"])
def test_class_ids_of_any_type(dtype: str) -> None:
    random = np.random.default_rng(15)
    boxes = random_boxes(random, 60)
    scores = random.uniform(0, 1, 60).astype(np.float32)
    class_ids = random.integers(0, 2, 60)
    kept = endcap.batched_nms(boxes, scores, class_ids.astype(dtype), 0.3)
    np.testing.assert_array_equal(kept, oracle.batched_nms(boxes, scores, class_ids, 0.3))


def test_class_ids_that_are_fractions_are_not_rounded() -> None:
    boxes = np.array([[0, 0, 10, 10]] * 3, np.float32)
    kept = endcap.batched_nms(boxes, [0.9, 0.8, 0.7], [0.25, 0.75, 0.25], 0.5)
    assert kept.tolist() == [0, 1]


@pytest.mark.parametrize("iou_threshold", [np.float16(0.5), np.array(0.5), np.array([0.5]), 0.5])
def test_thresholds_of_one_element(iou_threshold: Any) -> None:
    boxes = pair_with_iou(0.6)
    assert endcap.nms(boxes, [0.9, 0.8], iou_threshold).tolist() == [0]
    assert endcap.nms(boxes, [0.9, 0.8], iou_threshold + 0.25).tolist() == [0, 1]


@pytest.mark.parametrize("dtype", ["f2", "f8", "i2", "i4", "i8", "u1", "u8"])
def test_boxes_and_scores_of_any_type(dtype: str) -> None:
    random = np.random.default_rng(16)
    boxes = np.rint(random_boxes(random, 200)).astype(dtype)
    scores = random.permutation(200).astype(dtype)
    kept = endcap.nms(boxes, scores, 0.3)
    rounded = boxes.astype(np.float32), scores.astype(np.float32)
    np.testing.assert_array_equal(kept, oracle.nms(*rounded, 0.3))


@pytest.mark.parametrize(
    "scores",
    [
        np.array([1, 1 + 1e-12, 1 - 1e-12, 1 + 1e-12]),
        np.array([2**60, 2**60 + 1, 2**60 - 1, 2**60 + 1]),
        np.array([1e300, np.inf, -1e300, np.inf]),
    ],
    ids=["float64", "int64", "beyond_float32"],
)
def test_scores_that_float32_cannot_tell_apart_keep_their_order(scores: np.ndarray) -> None:
    apart = np.arange(4, dtype=np.float32)[:, None] * 100 + np.array([0, 0, 10, 10], np.float32)
    assert endcap.nms(apart, scores, 0.5).tolist() == [1, 3, 0, 2]


def test_thousands_of_boxes() -> None:
    random = np.random.default_rng(11)
    boxes = random_boxes(random, 3000, side=2000)
    scores = random.uniform(0, 1, 3000).astype(np.float32)
    kept = endcap.nms(boxes, scores, 0.5)
    # Properties that make the result unique: best first; no kept box overlaps a better kept one too
    # much; each dropped box overlaps a better kept one too much.
    assert (np.diff(scores[kept]) <= 0).all()
    is_kept = np.isin(np.arange(3000), kept)
    overlaps = overlap_matrix(boxes, boxes[kept]) > 0.5
    better = scores[kept][None, :] > scores[:, None]
    np.testing.assert_array_equal((overlaps & better).any(axis=1), ~is_kept)


def overlap_matrix(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """IoU of every pair, the oracle's float32 arithmetic on whole arrays."""
    a, b = first[:, None], second[None, :]
    sides = np.minimum(a[..., 2:], b[..., 2:]) - np.maximum(a[..., :2], b[..., :2])
    inter = np.prod(np.maximum(sides, np.float32(0)), axis=-1)
    area_a = (a[..., 2] - a[..., 0]) * (a[..., 3] - a[..., 1])
    area_b = (b[..., 2] - b[..., 0]) * (b[..., 3] - b[..., 1])
    return (inter / (area_a + area_b - inter)).astype(np.float64)


BOXES = np.zeros((2, 4), np.float32)
SCORES = np.zeros(2, np.float32)


@pytest.mark.parametrize(
    ("boxes", "scores", "iou_threshold", "named"),
    [
        (BOXES, np.array([0.5, np.nan], np.float32), 0.5, "score"),
        (BOXES, np.zeros(3, np.float32), 0.5, "scores"),
        (np.zeros((2, 5), np.float32), SCORES, 0.5, "boxes"),
        (np.zeros(8, np.float32), SCORES, 0.5, "boxes"),
        (BOXES, np.zeros((2, 1), np.float32), 0.5, "scores"),
        (BOXES, SCORES, float("nan"), "iou_threshold"),
        (BOXES, SCORES, -0.1, "iou_threshold"),
        (BOXES, SCORES, "0.5", "iou_threshold"),
        (BOXES, SCORES, np.array([0.5, 0.6]), "iou_threshold"),
        (BOXES.astype(complex), SCORES, 0.5, "boxes"),
        (BOXES, np.array(["a", "b"]), 0.5, "scores"),
    ],
)
def test_bad_arguments_are_refused(boxes: Any, scores: Any, iou_threshold: Any, named: str) -> None:
    with pytest.raises(endcap.InvalidArgumentError, match=named):
        endcap.nms(boxes, scores, iou_threshold)
    with pytest.raises(endcap.InvalidArgumentError, match=named):
        endcap.batched_nms(boxes, scores, np.zeros(2, np.int64), iou_threshold)


@pytest.mark.parametrize(
    "class_ids",
    [np.zeros(3, int), np.zeros((2, 1), int), np.array([np.nan, 1]), np.array(["a", "b"])],
)
def test_bad_class_ids_are_refused(class_ids: np.ndarray) -> None:
    with pytest.raises(endcap.InvalidArgumentError, match="class_ids"):
        endcap.batched_nms(BOXES, SCORES, class_ids, 0.5)
