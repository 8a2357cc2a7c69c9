"""A detector's response, as a model that called it reads it."""

from __future__ import annotations

import numpy as np
import pytest

from endcap import InvalidArgumentError
from endcap.python_backend.model_calls import read_detections

ROWS = 5


def response(*images: list[tuple[float, int]]) -> dict[str, np.ndarray]:
    """Responses with these scores and classes; box r of image i is [i, r, i + 1, r + 1]."""
    tensors = {
        "num_detections": np.array([[len(rows)] for rows in images], np.int32),
        "detection_boxes": np.zeros((len(images), ROWS, 4), np.float32),
        "detection_scores": np.zeros((len(images), ROWS), np.float32),
        "detection_classes": np.zeros((len(images), ROWS), np.int32),
    }
    for i, rows in enumerate(images):
        for r, (score, class_id) in enumerate(rows):
            tensors["detection_boxes"][i, r] = [i, r, i + 1, r + 1]
            tensors["detection_scores"][i, r] = score
            tensors["detection_classes"][i, r] = class_id
    return tensors


def test_rows_of_images():
    found = read_detections(response([(0.9, 0), (0.8, 5)], [], [(0.7, 1)]))
    assert found.counts.tolist() == [2, 0, 1]
    assert found.class_ids[0, :2].tolist() == [0, 5]
    np.testing.assert_array_equal(found.boxes[0, :2], [[0, 0, 1, 1], [0, 1, 1, 2]])
    np.testing.assert_array_equal(found.scores[2, :1], np.float32([0.7]))


@pytest.mark.parametrize("images", [[[]], [[], []]])
def test_no_detections(images):
    found = read_detections(response(*images))
    assert found.scores.shape == (len(images), ROWS)
    assert not found.counts.any()


def test_a_response_without_batch():
    tensors = {name: values[0] for name, values in response([(0.9, 2)]).items()}
    found = read_detections(tensors)
    assert found.counts.tolist() == [1]
    assert found.class_ids[0, 0] == 2


def test_what_is_missing_is_named():
    tensors = response([(0.9, 2)])
    del tensors["detection_boxes"], tensors["detection_classes"]
    said = "it gave no detection_boxes and no detection_classes"
    with pytest.raises(InvalidArgumentError, match=said):
        read_detections(tensors)


@pytest.mark.parametrize("name", ["num_detections", "detection_boxes", "detection_classes"])
def test_tensors_of_other_shapes_are_refused(name):
    tensors = response([(0.9, 2)])
    tensors[name] = tensors[name][:, :, None]
    with pytest.raises(InvalidArgumentError, match="its outputs do not belong together"):
        read_detections(tensors)
