"""Crops into batches for classifiers, and their responses back to the rows that they belong to."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from endcap import InvalidArgumentError
from endcap.python_backend.crops import (
    BestClassRows,
    Crops,
    Regions,
    in_batches,
    joined,
    read_best_classes,
    sort_crops,
)


def regions(rows: list[int], classifiers: list[str], *, image: int = 0) -> Regions:
    boxes = np.zeros((len(rows), 4), np.float32)
    return Regions("rois", image, np.array(rows), boxes, tuple(classifiers))


def cut(rows: list[int], *, status: list[int] | None = None) -> dict[str, np.ndarray]:
    """Tensors [R, 1, 2] that hold the number of their row."""
    images = np.broadcast_to(np.array(rows, np.float32)[:, None, None], (len(rows), 1, 2))
    return {"images": images, "status": np.array(status or [0] * len(rows), np.int32)}


def rows_of(crops: list[Crops]) -> list[tuple[str, list[int]]]:
    for each in crops:
        np.testing.assert_array_equal(each.images[:, 0, 0], each.rows)
    return [(each.classifier, each.rows.tolist()) for each in crops]


def test_crops_by_classifier():
    found = sort_crops(regions([0, 2, 3], ["a", "b", "a"]), cut([0, 2, 3]), request=7)
    assert rows_of(found) == [("a", [0, 3]), ("b", [2])]
    assert {each.request for each in found} == {7}


def test_crops_for_one_classifier_are_not_copied():
    outputs = cut([0, 2])
    (crops,) = sort_crops(regions([0, 2], ["a", "a"]), outputs, request=0)
    assert np.shares_memory(crops.images, outputs["images"])
    assert np.shares_memory(joined([crops]), outputs["images"])


def test_what_could_not_be_cut_out_is_left_out():
    found = sort_crops(
        regions([0, 2, 3], ["a", "b", "a"]), cut([0, 2, 3], status=[0, 4, 4]), request=0
    )
    assert rows_of(found) == [("a", [0])]


@pytest.mark.parametrize(
    ("outputs", "said"),
    [
        ({"images": np.zeros((2, 1))}, "it gave no status"),
        ({"status": np.zeros(2, np.int32)}, "it gave no images"),
        (cut([0]), r"it gave images \[1, 1, 2\] for 2 regions"),
    ],
)
def test_a_response_that_is_no_crops(outputs, said):
    with pytest.raises(InvalidArgumentError, match=said):
        sort_crops(regions([0, 1], ["a", "a"]), outputs, request=0)


SOURCES = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.integers(1, 9)), max_size=8
)


@given(SOURCES, st.integers(1, 5))
def test_batches_hold_every_crop_once_and_are_full(sources, size):
    crops = [
        sort_crops(regions(rows, [name] * count, image=i), cut(rows), request=request)[0]
        for i, (name, request, count) in enumerate(sources)
        for rows in [list(range(count))]
    ]
    batches = in_batches(crops, size)
    for name in "ab":
        of_one = [batch for batch in batches if batch[0].classifier == name]
        lengths = [len(joined(batch)) for batch in of_one]
        assert all(length == size for length in lengths[:-1])
        assert all(1 <= length <= size for length in lengths[-1:])
        assert sum(lengths) == sum(count for other, _, count in sources if other == name)
    for batch in batches:
        assert {each.classifier for each in batch} == {batch[0].classifier}
    found = [
        (each.request, each.image, row) for batch in batches for each in batch for row in each.rows
    ]
    expected = {
        (request, i, row) for i, (_, request, count) in enumerate(sources) for row in range(count)
    }
    assert len(found) == len(expected)
    assert set(found) == expected


def test_tensors_of_different_shapes_do_not_meet():
    small = Crops("a", 0, 0, np.array([0]), np.zeros((1, 3, 8, 8), np.float32))
    large = Crops("a", 0, 1, np.array([0]), np.zeros((1, 3, 9, 9), np.float32))
    assert len(in_batches([small, large, small], 16)) == 2


@pytest.mark.parametrize("shape", [(2, 4), (4,)])
def test_responses_go_to_their_rows(shape):
    responses = BestClassRows(shape)
    outputs = {
        "class_ids": np.array([[3, 1], [9, 2]], np.int32),
        "class_scores": np.array([[0.75, 0.2], [0.5, 0.1]], np.float32),
        "class_labels": np.array([[b"red", b"blue"], [b"pink", b""]], np.object_),
    }
    responses.put(len(shape) - 1, np.array([1, 3]), read_best_classes(outputs, 2))
    found = responses.outputs()
    last = {name: values.reshape(-1, 4)[-1].tolist() for name, values in found.items()}
    assert last == {
        "class_ids": [-1, 3, -1, 9],
        "class_scores": [0, 0.75, 0, 0.5],
        "class_labels": [b"", b"red", b"", b"pink"],
    }
    assert [values.shape for values in found.values()] == [shape] * 3
    assert [values.dtype.kind for values in found.values()] == ["i", "f", "O"]
    if len(shape) == 2:
        assert (found["class_ids"][0] == -1).all()


def test_a_classifier_without_labels():
    outputs = {"class_ids": np.array([4], np.int32), "class_scores": np.array([1], np.float32)}
    assert read_best_classes(outputs, 1).labels.tolist() == [b""]


@pytest.mark.parametrize(
    ("name", "said"), [("class_ids", "it gave no class_ids"), ("class_scores", "class_scores")]
)
def test_what_a_classifier_must_have(name, said):
    outputs = {"class_ids": np.zeros((1, 1), np.int64), "class_scores": np.zeros((1, 1))}
    del outputs[name]
    with pytest.raises(InvalidArgumentError, match=said):
        read_best_classes(outputs, 1)


@pytest.mark.parametrize("values", [np.zeros((2, 1)), np.zeros((1, 0)), np.zeros(())])
def test_a_classifier_must_have_a_row_for_each_crop(values):
    outputs = {"class_ids": values, "class_scores": np.zeros((1, 1))}
    with pytest.raises(InvalidArgumentError, match=r"it gave class_ids \[.*\] for 1 crops"):
        read_best_classes(outputs, 1)


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("class_ids", np.array([b"cat"], np.object_), "class_ids of object, not integers"),
        ("class_ids", np.zeros(1), "class_ids of float64, not integers"),
        ("class_scores", np.zeros(1, np.int32), "class_scores of int32, not floating-point"),
        ("class_labels", np.zeros(1, np.int32), "class_labels of int32, not strings"),
    ],
)
def test_what_a_classifier_gives_must_be_of_its_kind(name, values, said):
    good = {"class_ids": np.zeros(1, np.int64), "class_scores": np.zeros(1, np.float16)}
    assert read_best_classes(good, 1).ids.tolist() == [0]
    with pytest.raises(InvalidArgumentError, match=f"^it gave {said}"):
        read_best_classes({**good, name: values}, 1)
