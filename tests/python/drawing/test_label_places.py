"""Labels find room beside their boxes."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from endcap.drawing.labels import place_labels

PICTURE = (200, 100)
LABEL = (40, 12)
Box = tuple[int, int, int, int]


def place(*boxes: Box) -> list[tuple[int, int] | None]:
    return place_labels(boxes, [LABEL] * len(boxes), PICTURE)


def test_above_is_best_and_below_comes_next() -> None:
    assert place((50, 40, 100, 80)) == [(50, 28)]
    assert place((50, 5, 100, 60)) == [(50, 61)]


def test_a_box_that_fills_the_picture_has_its_label_inside() -> None:
    assert place((0, 0, 199, 99)) == [(0, 0)]


def test_a_label_is_pushed_back_into_the_picture() -> None:
    assert place((190, 50, 199, 60)) == [(160, 38)]


def test_equal_boxes_get_labels_side_by_side() -> None:
    best, second = place((50, 40, 120, 80), (50, 40, 120, 80))
    assert best == (50, 28)
    assert second is not None
    assert not overlap(best, second)


def test_less_important_label_is_dropped_without_room() -> None:
    tiny = place_labels([(0, 0, 9, 9)] * 30, [(60, 40)] * 30, (60, 40))
    assert tiny[0] == (0, 0)
    assert tiny[1:] == [None] * 29


def test_no_box_no_label() -> None:
    assert place() == []


def overlap(one: tuple[int, int], other: tuple[int, int]) -> int:
    sides = [max(0, size - abs(a - b)) for a, b, size in zip(one, other, LABEL, strict=True)]
    return sides[0] * sides[1]


sides = st.tuples(st.integers(0, 199), st.integers(0, 99))
boxes = st.builds(
    lambda a, b: (min(a[0], b[0]), min(a[1], b[1]), max(a[0], b[0]), max(a[1], b[1])), sides, sides
)


@given(st.lists(boxes, min_size=1, max_size=40))
def test_labels_lie_in_the_picture_and_hardly_hide_each_other(crowd: list[Box]) -> None:
    placed = [corner for corner in place(*crowd) if corner is not None]
    assert placed, "the first one always finds room"
    for x, y in placed:
        assert 0 <= x <= PICTURE[0] - LABEL[0]
        assert 0 <= y <= PICTURE[1] - LABEL[1]
    for one, other in itertools.combinations(placed, 2):
        assert overlap(one, other) <= 0.05 * LABEL[0] * LABEL[1]
