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
from tests.support.forced_implementations import on_each_target

forced_implementation = on_each_target("nms")


def scattered(seed: int, count: int, span: float, side: float, octaves: float) -> np.ndarray:
    """Boxes with sides spread over powers of two below `side`."""
    random = np.random.default_rng(seed)
    corners = random.uniform(0, span, (count, 2))
    sides = side * np.exp2(-random.uniform(0, octaves, (count, 2)))
    return np.hstack([corners, corners + sides]).astype(np.float32)


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


def assert_pairs(first: np.ndarray, second: np.ndarray, iou_threshold: float) -> None:
    """Boxes that only their partners overlap: the better one stays, its IoU decides the other."""
    boxes = np.stack([first, second], axis=1).reshape(-1, 4)
    stay = ~(pairwise_iou(first, second) > iou_threshold)
    kept = endcap.nms(boxes, np.tile([0.9, 0.8], len(first)), iou_threshold)
    assert kept.tolist() == [*range(0, len(boxes), 2), *(1 + 2 * np.flatnonzero(stay))]
    assert not stay.all()


def pairwise_iou(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The oracle's float32 arithmetic on whole arrays."""
    sides = np.minimum(first[..., 2:], second[..., 2:]) - np.maximum(
        first[..., :2], second[..., :2]
    )
    shared = np.prod(np.maximum(sides, np.float32(0)), axis=-1)
    areas = [np.prod(each[..., 2:] - each[..., :2], axis=-1) for each in (first, second)]
    return (shared / (areas[0] + areas[1] - shared)).astype(np.float64)


@pytest.mark.parametrize("unit", [1.0, 5.353e-24], ids=["", "areas of 20 smallest numbers"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("iou_threshold", [0.002, 0.1, 0.5, 0.7, 0.95])
def test_pairs_a_hair_from_the_threshold(iou_threshold: float, axis: int, unit: float) -> None:
    """Boxes of 1000x1, anywhere among the cells of the grid."""
    random, rows = np.random.default_rng(12), np.arange(600)
    shift = np.full(600, 1000 * (1 - iou_threshold) / (1 + iou_threshold), np.float32)
    if unit == 1:
        shift -= (rows % 7 - 3) * np.spacing(shift)
    else:  # areas are rounded, and with them IoUs by some percent
        shift *= random.uniform(0.91, 1.09, 600).astype(np.float32)
    place = random.uniform(0, 65536, 600).astype(np.float32)
    first = np.stack([place, 2 * rows, place + 1000, 2 * rows + 1], 1).astype(np.float32)
    second = first + shift[:, None] * np.float32([1, 0, 1, 0])
    turn = [1, 0, 3, 2] if axis else [0, 1, 2, 3]
    assert_pairs(*(each[:, turn] * np.float32(unit) for each in (first, second)), iou_threshold)


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
    boxes = scattered(15, 60, 100, 50, 5)
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
    boxes = np.float32([[0, 0, 100, 100], [25, 0, 125, 100]])  # an IoU of 0.6
    assert endcap.nms(boxes, [0.9, 0.8], iou_threshold).tolist() == [0]
    assert endcap.nms(boxes, [0.9, 0.8], iou_threshold + 0.25).tolist() == [0, 1]


@pytest.mark.parametrize("dtype", ["f2", "f8", "i2", "i4", "i8", "u1", "u8"])
def test_boxes_and_scores_of_any_type(dtype: str) -> None:
    random = np.random.default_rng(16)
    boxes = np.rint(scattered(16, 200, 100, 50, 5)).astype(dtype)
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


def lattice() -> np.ndarray:
    """IoUs that equal thresholds, and sides on the borders of cells."""
    random = np.random.default_rng(4)
    corners = random.integers(0, 41, (1500, 2))
    return np.hstack([corners, corners + random.integers(0, 9, (1500, 2))]).astype(np.float32)


def with_outliers() -> np.ndarray:
    """Few boxes far away, and few that cover everything."""
    step = np.arange(40)[:, None]
    large = [
        np.hstack([-step, -step, 200 + step, 210 + step]),
        np.hstack([1e30 + 0 * step, 1e30 + 0 * step, 1e30 * (1.5 + step), 2e30 + 0 * step]),
        np.hstack([-1e9 + 0 * step, step, 1e9 + 0 * step, step + 1]),
        np.hstack([step, -1e9 + 0 * step, step + 1, 1e9 + 0 * step]),
    ]
    return np.vstack([scattered(8, 1200, 200, 12, 2), *large]).astype(np.float32)


MANY = {
    "scattered": scattered(1, 1500, 1400, 120, 2),
    "of all sizes": scattered(2, 1200, 600, 600, 8),
    "on top of each other": scattered(3, 1200, 20, 60, 2),
    "lattice": lattice(),
    "with outliers": with_outliers(),
    **{f"tiny, {unit}": scattered(7, 800, 40, 12, 3) * np.float32(unit) for unit in (1e-14, 4e-23)},
}


@pytest.mark.parametrize("name", MANY)
@pytest.mark.parametrize("iou_threshold", [0.0, 5e-4, 1 / 3, 0.5, 0.95])
def test_many_boxes(name: str, iou_threshold: float) -> None:
    """Properties that make the result unique, for boxes among which a grid is searched.

    Best first; no kept box overlaps a better kept one too much; each dropped one does.
    """
    boxes = MANY[name]
    random = np.random.default_rng(11)
    scores = np.round(random.uniform(-1, 1, len(boxes)), 2).astype(np.float32)  # with ties
    class_ids = random.choice([-(2**31), -1, 2**31 - 1], len(boxes))
    kept = endcap.batched_nms(boxes, scores, class_ids, iou_threshold)
    rank = np.argsort(np.argsort(-scores, kind="stable"))
    assert (np.diff(rank[kept]) > 0).all()
    with np.errstate(all="ignore"):
        suppresses = pairwise_iou(boxes[:, None], boxes[kept]) > iou_threshold
    suppresses &= rank[kept] < rank[:, None]
    suppresses &= class_ids[kept] == class_ids[:, None]
    is_kept = np.isin(np.arange(len(boxes)), kept)
    np.testing.assert_array_equal(suppresses.any(axis=1), ~is_kept)


@pytest.mark.parametrize("count", [127, 128, 129, 4095, 4096, 5000])
@pytest.mark.parametrize("levels", [5, 1_000_000])
def test_the_order_of_scores(count: int, levels: int) -> None:
    """Of both signs, with ties; sorted in other ways from some counts on."""
    scores = np.random.default_rng(2).integers(-levels, levels + 1, count).astype(np.float32)
    scores[:4] = [np.inf, -np.inf, 1e-45, -1e-45]
    boxes = np.arange(count, dtype=np.float32)[:, None] * 4 + np.float32([0, 0, 1, 1])
    kept = endcap.nms(boxes, scores, 0.5)
    np.testing.assert_array_equal(kept, np.argsort(-scores, kind="stable"))


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
