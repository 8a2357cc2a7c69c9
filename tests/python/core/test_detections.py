"""Detections of batches, images and single objects: items, selection, conversions."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import endcap
from endcap import ClassScore, Detection, ImageDetections
from endcap.masks import encode_rle

MASKS = np.random.default_rng(3).random((3, 4, 6)) > 0.5
ROWS = [
    Detection(
        (8.0 * row, 2.0, 8.0 * row + 4, 10.5),
        0.75 - row / 4,
        row,
        ["ring", None, "square"][row],
        5 + row,
        [(1.0, 2.0, 0.5), (row, 4.0, 1.0)],
        row / 2,
        {"size": [4, 6], "counts": encode_rle(MASKS[row]).decode()},
        ClassScore(3, 0.5, "red") if row else None,
    )
    for row in range(3)
]
IMAGE = ImageDetections.from_list(ROWS)


def test_columns_are_arrays_and_items_single_detections() -> None:
    assert (IMAGE.boxes.dtype, IMAGE.boxes.shape) == (np.float32, (3, 4))
    assert (IMAGE.scores.tolist(), IMAGE.class_ids.tolist()) == ([0.75, 0.5, 0.25], [0, 1, 2])
    assert IMAGE.labels == ["ring", None, "square"]
    assert IMAGE.masks is not None
    np.testing.assert_array_equal(IMAGE.masks, MASKS)
    assert isinstance(IMAGE, Sequence)
    assert list(IMAGE) == ROWS
    assert (IMAGE[1], IMAGE[np.int64(-1)]) == (ROWS[1], ROWS[2])
    for row in (3, -4):
        with pytest.raises(IndexError, match=f"detection {row} is out of range: there are 3"):
            IMAGE[row]


@pytest.mark.parametrize(
    ("rows", "kept"),
    [
        (slice(1, None), [1, 2]),
        (slice(None, None, -1), [2, 1, 0]),
        (IMAGE.scores > 0.3, [0, 1]),
        (np.array([2, 0]), [2, 0]),
        ([1], [1]),
        (slice(0, 0), []),
    ],
)
def test_rows_are_selected_in_every_column(rows: Any, kept: list[int]) -> None:
    selected = IMAGE[rows]
    assert isinstance(selected, ImageDetections)
    assert list(selected) == [ROWS[row] for row in kept]
    np.testing.assert_array_equal(selected.masks, MASKS[kept])
    assert selected.mask_size == (4, 6)


def test_equal_detections_are_equal() -> None:
    assert IMAGE == ImageDetections.from_list(ROWS) == ROWS
    assert IMAGE[:2] != IMAGE
    assert copy.deepcopy(IMAGE) == pickle.loads(pickle.dumps(IMAGE)) == IMAGE
    assert ImageDetections.from_list([]) == []
    assert not ImageDetections.from_list([])


def test_a_part_that_only_some_detections_have_is_refused() -> None:
    plain = Detection((0.0, 0.0, 1.0, 1.0), 0.5, 0)
    with pytest.raises(endcap.InvalidArgumentError, match=r"1 of 4 detections .* keypoints"):
        ImageDetections.from_list([*ROWS, plain])


def test_to_dict_is_plain_data() -> None:
    columns = IMAGE.to_dict()
    assert json.loads(json.dumps(columns)) == columns
    assert list(columns) == [
        *("boxes", "scores", "class_ids", "indices", "labels", "keypoints", "angles", "masks"),
        "classifications",
    ]
    assert columns["masks"][1] == ROWS[1].mask
    assert columns["classifications"] == [
        None,
        *[{"class_id": 3, "label": "red", "score": 0.5}] * 2,
    ]
    plain = ImageDetections.from_list([Detection((0.0, 0.0, 1.0, 1.0), 0.5, 0)])
    assert list(plain.to_dict()) == ["boxes", "scores", "class_ids", "indices"]


def test_repr_counts_classes() -> None:
    assert repr(IMAGE) == ("<ImageDetections: 3 detections (1 ring, 1 class 1, 1 square)>")
    assert repr(IMAGE[:0]) == "<ImageDetections: 0 detections>"


def test_a_batch_holds_images() -> None:
    head = np.zeros((2, 6, 3), np.float32)
    head[:, :4] = 8
    head[0, 4] = [0.9, 0, 0]
    batch = endcap.Postprocessor(num_classes=2)(head)
    assert isinstance(batch, endcap.Detections)
    assert (len(batch), batch.device) == (2, "cpu")
    assert batch.to_numpy() is batch
    assert [len(image) for image in batch] == [len(image) for image in batch[:]] == [1, 0]
    assert batch[-1] == []
    with pytest.raises(IndexError):
        batch[2]
    assert repr(batch) == "<Detections: 2 images, at most 300 detections each, cpu>"


def test_masks_as_bits_are_masks_of_the_items_too() -> None:
    bits = np.packbits(MASKS, axis=2)
    image = ImageDetections(
        IMAGE.boxes,
        IMAGE.scores,
        IMAGE.class_ids,
        IMAGE.indices,
        mask_size=(4, 6),
        packed_masks=bits,
    )
    np.testing.assert_array_equal(image[1:].masks, MASKS[1:])
    assert [each.mask for each in image] == [each.mask for each in ROWS]


def test_a_classification_holds_images() -> None:
    classes = endcap.Postprocessor("classification", num_classes=3, top_k=2, activation="none")(
        np.float32([[0.25, 0.75, 0], [0.5, 0, 0.125]])
    )
    assert isinstance(classes, endcap.Classification)
    assert list(classes) == [
        [ClassScore(1, 0.75), ClassScore(0, 0.25)],
        [ClassScore(0, 0.5), ClassScore(2, 0.125)],
    ]
    assert classes[-1] == list(classes)[1]
    assert repr(classes) == "<Classification: 2 images, cpu>"
