"""Rotated boxes: IoU against a slow reference and OpenCV, and suppression by each method."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import endcap
from tests.reference import rotated_boxes as oracle
from tests.support.forced_implementations import on_each_target
from tests.support.rotated_crowds import CROWDS, THRESHOLDS, Crowd, clear_threshold, scattered
from tests.support.tolerances import OPENCV_ROTATED_IOU, PROBIOU_SQUARED_DISTANCE, ROTATED_IOU

forced_implementation = on_each_target("nms")

METHODS = ["polygon", "probiou", "probiou_fast"]
PI = np.float32(np.pi)


@pytest.mark.parametrize("num_classes", [1, 3])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("crowd", CROWDS)
def test_kept_boxes_equal_the_oracle(crowd: str, method: str, num_classes: int) -> None:
    boxes = CROWDS[crowd](40, seed=1, num_classes=num_classes)
    ious = oracle.iou_matrix(boxes.boxes, boxes.boxes, method)
    for near in THRESHOLDS:
        threshold = clear_threshold(ious, near, 1e-5)
        kept = endcap.nms_rotated(
            boxes.boxes, boxes.scores, threshold, class_ids=boxes.class_ids, method=method
        )
        expected = oracle.suppress(
            ious, boxes.scores, threshold, class_ids=boxes.class_ids, method=method
        )
        assert kept.dtype == np.int64
        np.testing.assert_array_equal(kept, expected)


@st.composite
def crowds(draw: st.DrawFn) -> Crowd:
    """Boxes on a coarse grid, few angles and scores: equal boxes, touching sides and ties."""
    count = draw(st.integers(0, 30))
    centres = draw(hnp.arrays(np.int8, (count, 2), elements=st.integers(-6, 6)))
    sizes = draw(hnp.arrays(np.int8, (count, 2), elements=st.integers(-1, 6)))
    turns = draw(hnp.arrays(np.int8, (count, 1), elements=st.integers(-9, 9)))
    levels = draw(hnp.arrays(np.int8, count, elements=st.integers(-2, 4)))
    class_ids = draw(hnp.arrays(np.int32, count, elements=st.integers(0, 2)))
    boxes = np.hstack([centres, sizes, turns * (PI / 4)]).astype(np.float32)
    return Crowd(boxes, levels.astype(np.float32) / 4, class_ids)


@given(crowds(), st.sampled_from(METHODS), st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 0.75, 1.0]))
def test_any_crowd_is_suppressed_by_its_ious(
    crowd: Crowd, method: str, iou_threshold: float
) -> None:
    """By rotated_iou and not the oracle's: here many IoUs are about the threshold."""
    ious = endcap.rotated_iou(crowd.boxes, crowd.boxes, method)
    np.testing.assert_array_equal(
        endcap.nms_rotated(
            crowd.boxes, crowd.scores, iou_threshold, class_ids=crowd.class_ids, method=method
        ),
        oracle.suppress(
            ious, crowd.scores, iou_threshold, class_ids=crowd.class_ids, method=method
        ),
    )


@given(
    hnp.arrays(
        np.float32,
        st.tuples(st.integers(0, 12), st.just(5)),
        elements=st.floats(width=32, allow_nan=True, allow_infinity=True),
    ),
    st.sampled_from(METHODS),
    st.integers(0, 2**32 - 1),
)
def test_boxes_of_any_bits(boxes: np.ndarray, method: str, seed: int) -> None:
    scores = np.random.default_rng(seed).permutation(len(boxes)).astype(np.float32)
    ious = endcap.rotated_iou(boxes, boxes, method)
    np.testing.assert_array_equal(ious, ious.T)
    kept = endcap.nms_rotated(boxes, scores, 0.3, method=method)
    np.testing.assert_array_equal(kept, oracle.suppress(ious, scores, 0.3, method=method))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("crowd", "count"),
    [("scattered", 0), ("scattered", 1), *((crowd, 1000) for crowd in CROWDS), ("clustered", 2000)],
)
def test_many_boxes(crowd: str, count: int, method: str) -> None:
    many = CROWDS[crowd](count, num_classes=2)
    kept = endcap.nms_rotated(many.boxes, many.scores, 0.4, class_ids=many.class_ids, method=method)
    assert (np.diff(many.scores[kept]) < 0).all()
    # What makes the result unique: who goes is overlapped by a better box (a kept one, for the
    # greedy methods), and who stays is not.
    others = np.arange(count) if method == "probiou_fast" else kept
    suppresses = endcap.rotated_iou(many.boxes, many.boxes[others], method) > 0.4
    suppresses &= many.class_ids[:, None] == many.class_ids[others]
    suppresses &= many.scores[:, None] < many.scores[others]
    is_kept = np.isin(np.arange(count), kept)
    np.testing.assert_array_equal(suppresses.any(axis=1), ~is_kept)
    if count >= 1000:
        assert 10 < len(kept) < 0.97 * count


def assert_pairs(
    first: np.ndarray, second: np.ndarray, thresholds: Iterable[float], method: str
) -> None:
    """Pairs of separate classes: the better box stays, the IoU decides the other one."""
    boxes = np.stack([first, second], axis=1).reshape(-1, 5).astype(np.float32)
    scores, class_ids = np.tile([0.9, 0.8], len(first)), np.repeat(np.arange(len(first)), 2)
    ious = np.array(
        [endcap.rotated_iou(*pair, method).item() for pair in boxes.reshape(-1, 2, 1, 5)]
    )
    for threshold in thresholds:
        kept = endcap.nms_rotated(boxes, scores, threshold, class_ids=class_ids, method=method)
        stay = np.flatnonzero(~(ious > threshold))
        assert kept.tolist() == [*range(0, len(boxes), 2), *(1 + 2 * stay)]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("threshold", [0.002, 0.1, 0.45, 0.7, 0.95])
def test_pairs_a_hair_from_the_threshold(threshold: float, method: str) -> None:
    """Where quick bounds are tight: boxes of one shape side by side, and one within another."""
    random = np.random.default_rng(5)
    side = random.uniform(5, 200, 60)
    other, place = side * np.exp2(random.uniform(-4.9, 4.9, 60)), random.uniform(0, 4096, 60)
    turn, nothing = random.uniform(-3, 3, 60), np.zeros(60)
    near = 1 + random.uniform(-1, 1, 60) * np.exp2(random.uniform(-24, -6, 60))
    distance = -np.log(1 - (1 - threshold) ** 2)  # of Bhattacharyya
    shift = near * side * (1 - threshold) / (1 + threshold)
    apart = near * side * np.sqrt(distance * 2 / 3)
    ratio = np.exp(distance) + np.sqrt(np.exp(2 * distance) - 1)
    across = np.stack([place, nothing, side, other, nothing], 1)
    along = np.stack([nothing, place, other, side, nothing], 1)
    turned = np.stack([place, nothing, side, other, turn], 1)
    pairs = [
        (across, across + np.stack([shift, *[nothing] * 4], 1)),
        (across, across + np.stack([apart, *[nothing] * 4], 1)),
        (along, along + np.stack([nothing, apart, *[nothing] * 3], 1)),
        *(
            (turned, turned * np.stack([1 + nothing, nothing, wide, high, 1 + nothing], 1))
            for wide, high in (
                (near * threshold, 1 + nothing),
                (near * ratio, near * ratio),
                (near * np.sqrt(ratio), np.sqrt(ratio) + nothing),
            )
        ),
    ]
    assert_pairs(*(np.vstack(each) for each in zip(*pairs, strict=True)), [threshold], method)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scale", [1e-30, 1e-10, 1e-3, 1, 1e3, 1e12, 1e30])
def test_pairs_of_all_shapes(scale: float, method: str) -> None:
    """At the ends of the range of shapes whose bounds are trusted, and beyond."""
    random = np.random.default_rng(6)
    sides, thin = scale * np.exp2(random.uniform(-8, 8, 300)), np.exp2(random.uniform(-11, 0, 300))
    turn = random.uniform(-2, 2, 300)
    step = sides * random.uniform(0, 0.5, 300)
    nothing, grown = np.zeros(300), sides * random.uniform(0.5, 2, (2, 300))
    first = np.stack([nothing, nothing, sides, thin * sides, turn], 1)
    second = [step * np.cos(turn), step * np.sin(turn), grown[0], thin * grown[1]]
    second.append(turn + thin * random.uniform(-1, 1, 300))
    assert_pairs(first, np.stack(second, 1), [0, 1e-12, 5e-4, 0.1, 0.45, 0.7, 0.9994, 1], method)


def test_empty_lists() -> None:
    assert endcap.nms_rotated([], [], 0.5).shape == (0,)
    assert endcap.rotated_iou([], BOXES[:1]).shape == (0, 1)


def test_max_detections() -> None:
    many = scattered(100)
    all_kept = endcap.nms_rotated(many.boxes, many.scores, 0.3)
    for limit in (0, 1, 10, 1000):
        kept = endcap.nms_rotated(many.boxes, many.scores, 0.3, max_detections=limit)
        np.testing.assert_array_equal(kept, all_kept[:limit])


def test_class_ids_of_64_bits() -> None:
    boxes = np.tile(np.array([0, 0, 10, 10, 1], np.float32), (3, 1))
    class_ids = np.array([0, 2**32, 0])
    kept = endcap.nms_rotated(boxes, [3, 2, 1], 0.5, class_ids=class_ids)
    assert kept.tolist() == [0, 1]


BOXES = np.ones((2, 5), np.float32)
SCORES = np.ones(2, np.float32)


@pytest.mark.parametrize(
    ("arguments", "options", "named"),
    [
        ((BOXES, np.array([0.5, np.nan]), 0.5), {}, "score"),
        ((BOXES, np.ones(3), 0.5), {}, "scores"),
        ((BOXES, np.ones((2, 1)), 0.5), {}, "scores"),
        ((np.ones((2, 4)), SCORES, 0.5), {}, "boxes"),
        ((np.ones(10), SCORES, 0.5), {}, "boxes"),
        ((BOXES.astype(complex), SCORES, 0.5), {}, "boxes"),
        ((BOXES, SCORES, -0.1), {}, "iou_threshold"),
        ((BOXES, SCORES, float("nan")), {}, "iou_threshold"),
        ((BOXES, SCORES, None), {}, "iou_threshold"),
        ((BOXES, SCORES, 0.5), {"class_ids": np.zeros(3, np.int64)}, "class_ids"),
        ((BOXES, SCORES, 0.5), {"class_ids": np.array([np.nan, 1])}, "class_ids"),
        ((BOXES, SCORES, 0.5), {"method": "exact"}, "polygon, probiou, probiou_fast"),
        ((BOXES, SCORES, 0.5), {"max_detections": -1}, "max_detections"),
        ((BOXES, SCORES, 0.5), {"max_detections": 1.5}, "max_detections"),
    ],
)
def test_bad_arguments_are_refused(arguments: Any, options: Any, named: str) -> None:
    with pytest.raises(endcap.InvalidArgumentError, match=named):
        endcap.nms_rotated(*arguments, **options)


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


def test_ious_of_degenerate_boxes_equal_the_oracle() -> None:
    """Sides that are 0 or less; for the exact IoU, numbers that are not finite."""
    odd = np.float32(
        [
            *([0, 0, 2, 2, 0], [0, 0, 0, 2, 0], [0, 0, -2, 2, 0], [0, 0, -2, -2, 1]),
            *([3, 4, 0, 0, 0], [3, 4, 0, 0, 1], [300, 4, 0, 0, 1], [3, 4, -9, 5, 1]),
        ]
    )
    assert_oracle_iou(odd, odd)
    wild = np.tile(odd[0], (15, 1))
    wild[np.arange(15), np.arange(15) % 5] = np.repeat([np.nan, np.inf, -np.inf], 5)
    assert np.isnan(endcap.rotated_iou(odd[:1], wild)).all()


@pytest.mark.parametrize("method", METHODS)
def test_ious_far_from_the_origin_lose_nothing(method: Any) -> None:
    pair = np.float32([[0.5, 1.25, 3, 1.5, 0.4], [1.75, 0.5, 2, 2.5, -1.1]])
    moved = pair + np.float32([2**20, -(2**19), 0, 0, 0])
    ious = endcap.rotated_iou(pair, pair, method)
    assert ious[0, 1] > 0.1
    np.testing.assert_array_equal(endcap.rotated_iou(moved, moved, method), ious)


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


def test_bad_arguments_of_rotated_iou_are_refused() -> None:
    boxes = np.ones((2, 5), np.float32)
    with pytest.raises(endcap.InvalidArgumentError, match="boxes_b have shape"):
        endcap.rotated_iou(boxes, np.ones((2, 4)))
    with pytest.raises(endcap.InvalidArgumentError, match="polygon, probiou, probiou_fast"):
        endcap.rotated_iou(boxes, boxes, "giou")  # type: ignore[arg-type]
