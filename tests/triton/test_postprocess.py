"""endcap_postprocess: what comes back is what the Python package computes."""

from __future__ import annotations

import numpy as np
import pytest

import endcap
from tests.support import sample_heads
from tests.triton.calls import infer
from tests.triton.served_models import ANCHORS, MAX_DETECTIONS, NUM_CLASSES, POSTPROCESS

pytestmark = pytest.mark.both_variants

COUNT = 5
GEOMETRY = np.array(
    [[0.5 + 0.1 * i, 0.6, 3 * i, 2, 900, 1000 - i, 1, 0] for i in range(COUNT)], np.float32
)
NAMES = {
    "num_detections": "num_detections",
    "detection_boxes": "boxes",
    "detection_scores": "scores",
    "detection_classes": "class_ids",
    "detection_indices": "indices",
}


def heads(*, count: int = COUNT) -> np.ndarray:
    return np.stack(
        [
            sample_heads.yolov8_head(seed, anchors=ANCHORS, num_classes=NUM_CLASSES)
            for seed in range(count)
        ]
    )


def assert_same(response: dict[str, np.ndarray], expected: endcap.Detections) -> None:
    for name, attribute in NAMES.items():
        given = getattr(expected, attribute)
        np.testing.assert_array_equal(response[name], given.reshape(response[name].shape), name)


def test_detections(client):
    response = infer(client, "post", {"head": heads(), "geometry": GEOMETRY})
    assert_same(response, endcap.Postprocessor(**POSTPROCESS)(heads(), geometry=GEOMETRY))
    assert response["detection_boxes"].shape == (COUNT, MAX_DETECTIONS, 4)
    assert (response["num_detections"] > 0).all()
    assert not response["status"].any()


def test_without_geometry_boxes_stay_in_the_models_input(client):
    response = infer(client, "post", {"head": heads()})
    assert_same(response, endcap.Postprocessor(**POSTPROCESS)(heads()))


def test_model_without_batches(client):
    head = heads(count=1)[0]
    response = infer(client, "post_single", {"head": head, "geometry": GEOMETRY[0]})
    assert response["detection_boxes"].shape == (MAX_DETECTIONS, 4)
    expected = endcap.Postprocessor(**POSTPROCESS)(head[None], geometry=GEOMETRY[:1])
    assert_same(response, expected)


def test_half_precision_head(client):
    head = heads().astype(np.float16)
    status = np.zeros((COUNT, 1), np.int32)
    response = infer(client, "post_half", {"head": head, "geometry": GEOMETRY, "status": status})
    assert_same(response, endcap.Postprocessor(**POSTPROCESS)(head, geometry=GEOMETRY))


def test_an_image_that_failed_before_is_carried_on_as_blank(client):
    status = np.array([[0], [int(endcap.Status.IMAGE_LIMIT)], [0], [0], [0]], np.int32)
    tensors = {"head": heads(), "geometry": GEOMETRY, "status": status}
    response = infer(client, "post", tensors)
    np.testing.assert_array_equal(response["status"], status)
    assert response["num_detections"][1, 0] == 0
    assert (response["detection_indices"][1] == -1).all()
    whole = infer(client, "post", {"head": heads(), "geometry": GEOMETRY})
    for name in NAMES:
        np.testing.assert_array_equal(response[name][2:], whole[name][2:])
