"""Class ids, which count from 0, and category ids, which do not."""

from __future__ import annotations

import numpy as np
import pytest

from endcap.errors import InvalidArgumentError
from endcap.evaluation.categories import ClassMap, match_categories

# As in COCO: ids with gaps, not in the order of the model's classes.
CATEGORIES = {1: "person", 3: "traffic light", 90: "toothbrush"}
LABELS = ["toothbrush", "Person", " traffic light"]


def test_labels_match_names_whatever_their_order_and_case() -> None:
    found = match_categories(CATEGORIES, labels=LABELS)
    assert found.category_of == {0: 90, 1: 1, 2: 3}
    assert found.category_ids == [1, 3, 90]


def test_without_labels_the_order_of_ids_counts() -> None:
    assert match_categories(CATEGORIES, labels=None).category_of == {0: 1, 1: 3, 2: 90}


def test_eighty_classes_of_ninety_ids_by_order() -> None:
    ids = [i for i in range(1, 91) if i not in (12, 26, 29, 30, 45, 66, 68, 69, 71, 83)]
    found = match_categories({i: f"name {i}" for i in ids}, labels=None, num_classes=80)
    assert [found.category_of[class_id] for class_id in (0, 10, 11, 79)] == [1, 11, 13, 90]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"labels": None, "num_classes": 80}, "80 classes without labels, .* 3 categories"),
        ({"labels": LABELS, "num_classes": 4}, "3 labels and the reference 4 classes"),
        ({"labels": [str(n) for n in range(77)]}, r"class: person \(1\), .*, 7 \(7\) and 69 more"),
    ],
)
def test_nothing_that_matches_is_an_error(options: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        match_categories(CATEGORIES, **options)  # type: ignore[arg-type]


def test_two_categories_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="two categories have the same name"):
        match_categories({1: "person", 2: "Person"}, labels=["person"])


def test_what_has_no_partner_is_left_out_and_noted() -> None:
    found = match_categories(CATEGORIES, labels=["toothbrush", "car", "person"])
    assert found.category_of == {0: 90, 2: 1}
    assert "a class: traffic light (3); classes without a category: car (1)" in found.note


def predict(classes: ClassMap, class_ids: list[int]) -> list[int]:
    boxes = np.tile([1.0, 2.0, 4.0, 8.0], (len(class_ids), 1))
    scores = np.linspace(0.9, 0.1, len(class_ids))
    rows = classes.as_rows(7, boxes, scores, np.array(class_ids, np.int64))
    assert all(row["image_id"] == 7 and row["bbox"] == [1, 2, 3, 6] for row in rows)
    return [row["category_id"] for row in rows]


def test_detections_get_their_categories() -> None:
    assert predict(ClassMap({0: 90, 2: 1}), [2, 0, 2]) == [1, 90, 1]
    assert predict(ClassMap({0: 90}), []) == []


def test_a_class_without_category_is_left_out_or_by_order_an_error() -> None:
    assert predict(ClassMap({0: 90}), [5, 0]) == [90]
    with pytest.raises(InvalidArgumentError, match="class id 5 came back"):
        predict(ClassMap({0: 90}, by_name=False), [0, 5])
