"""Which rows of a detector's response a cascade classifies."""

from __future__ import annotations

import numpy as np
import pytest

from endcap import InvalidArgumentError
from endcap.python_backend.crops import Regions, choose_regions, read_detections
from endcap.triton.cascade_settings import CascadeSettings, parse_routes

ROWS = 5
THRESHOLD = 0.3


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


def settings(classifiers: str) -> CascadeSettings:
    return CascadeSettings(classifiers=parse_routes(classifiers), classify_threshold=THRESHOLD)


def plain(regions: list[Regions]) -> list[tuple[str, int, list[int], tuple[str, ...]]]:
    return [(r.rois_model, r.image, r.rows.tolist(), r.classifiers) for r in regions]


def test_one_call_for_each_image_and_rois_model():
    found = read_detections(
        response([(0.9, 0), (0.8, 5), (0.7, 1)], [], [(0.9, 1), (0.8, 7), (0.6, 5)])
    )
    regions = choose_regions(found, settings("0=rois+a,5=rois+rings,1=others+a"))
    assert plain(regions) == [
        ("rois", 0, [0, 1], ("a", "rings")),
        ("others", 0, [2], ("a",)),
        ("others", 2, [0], ("a",)),
        ("rois", 2, [2], ("rings",)),
    ]
    np.testing.assert_array_equal(regions[0].boxes, [[0, 0, 1, 1], [0, 1, 1, 2]])
    np.testing.assert_array_equal(regions[3].boxes, [[2, 2, 3, 3]])


def test_a_score_must_be_greater_as_a_number_of_the_core():
    as_float32 = float(np.float32(THRESHOLD))
    assert as_float32 > THRESHOLD  # so the row is over it, as it is for score_threshold
    below = float(np.nextafter(np.float32(THRESHOLD), np.float32(0)))
    found = read_detections(response([(0.4, 0), (as_float32, 0), (below, 0), (0.1, 0)]))
    (regions,) = choose_regions(found, settings("*=rois+a"))
    assert regions.rows.tolist() == [0, 1]
    exact = CascadeSettings(classifiers=parse_routes("*=rois+a"), classify_threshold=0.5)
    assert choose_regions(read_detections(response([(0.5, 0)])), exact) == []


def test_rows_that_do_not_count_are_not_looked_at():
    tensors = response([(0.9, 0), (0.9, 0)])
    tensors["num_detections"][:] = 1
    (regions,) = choose_regions(read_detections(tensors), settings("*=rois+a"))
    assert regions.rows.tolist() == [0]


@pytest.mark.parametrize("classifiers", ["", "3=rois+a"])
def test_without_a_route_there_is_nothing_to_do(classifiers):
    found = read_detections(response([(0.9, 0), (0.8, 1)]))
    assert choose_regions(found, settings(classifiers)) == []


@pytest.mark.parametrize("images", [[[]], [[], []]])
def test_no_detections(images):
    found = read_detections(response(*images))
    assert found.shape == (len(images), ROWS)
    assert choose_regions(found, settings("*=rois+a")) == []


def test_a_response_without_batch():
    tensors = {name: values[0] for name, values in response([(0.9, 2)]).items()}
    found = read_detections(tensors)
    assert found.shape == (ROWS,)
    assert plain(choose_regions(found, settings("*=rois+a"))) == [("rois", 0, [0], ("a",))]


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
