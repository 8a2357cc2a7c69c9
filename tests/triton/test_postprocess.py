"""endcap_postprocess: what comes back is what the Python package computes."""

from __future__ import annotations

import numpy as np
import pytest
import sample_heads
from calls import infer
from served_models import ANCHORS, MAX_DETECTIONS, NUM_CLASSES, POSTPROCESS

import endcap

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


def assert_same(answer: dict[str, np.ndarray], expected: endcap.Detections) -> None:
    for name, attribute in NAMES.items():
        given = getattr(expected, attribute)
        np.testing.assert_array_equal(answer[name], given.reshape(answer[name].shape), name)


def test_detections(client):
    answer = infer(client, "post", {"head": heads(), "geometry": GEOMETRY})
    assert_same(answer, endcap.Postprocessor(**POSTPROCESS)(heads(), geometry=GEOMETRY))
    assert answer["detection_boxes"].shape == (COUNT, MAX_DETECTIONS, 4)
    assert (answer["num_detections"] > 0).all()
    assert not answer["status"].any()


def test_without_geometry_boxes_stay_in_the_models_input(client):
    answer = infer(client, "post", {"head": heads()})
    assert_same(answer, endcap.Postprocessor(**POSTPROCESS)(heads()))


def test_model_without_batches(client):
    head = heads(count=1)[0]
    answer = infer(client, "post_single", {"head": head, "geometry": GEOMETRY[0]})
    assert answer["detection_boxes"].shape == (MAX_DETECTIONS, 4)
    expected = endcap.Postprocessor(**POSTPROCESS)(head[None], geometry=GEOMETRY[:1])
    assert_same(answer, expected)


def test_half_precision_head(client):
    head = heads().astype(np.float16)
    status = np.zeros((COUNT, 1), np.int32)
    answer = infer(client, "post_half", {"head": head, "geometry": GEOMETRY, "status": status})
    assert_same(answer, endcap.Postprocessor(**POSTPROCESS)(head, geometry=GEOMETRY))


def test_an_image_that_failed_before_is_carried_on_as_blank(client):
    status = np.array([[0], [int(endcap.Status.IMAGE_LIMIT)], [0], [0], [0]], np.int32)
    tensors = {"head": heads(), "geometry": GEOMETRY, "status": status}
    answer = infer(client, "post", tensors)
    np.testing.assert_array_equal(answer["status"], status)
    assert answer["num_detections"][1, 0] == 0
    assert (answer["detection_indices"][1] == -1).all()
    whole = infer(client, "post", {"head": heads(), "geometry": GEOMETRY})
    for name in NAMES:
        np.testing.assert_array_equal(answer[name][2:], whole[name][2:])


def test_no_detections_is_an_answer(client):
    answer = infer(client, "post", {"head": np.zeros((2, 4 + NUM_CLASSES, ANCHORS), np.float32)})
    np.testing.assert_array_equal(answer["num_detections"], [[0], [0]])
    assert (answer["detection_indices"] == -1).all()


@pytest.mark.parametrize("wanted", sorted(NAMES))
def test_only_the_output_that_was_asked_for(client, wanted):
    tensors = {"head": heads(), "geometry": GEOMETRY}
    answer = infer(client, "post", tensors, outputs=[wanted])
    assert list(answer) == [wanted]
    np.testing.assert_array_equal(answer[wanted], infer(client, "post", tensors)[wanted])


def test_head_of_several_tensors(client):
    single = sample_heads.efficient_nms_outputs(4, rows=20)
    tensors = {name: array[None] for name, array in single.items()}
    answer = infer(client, "post_efficient_nms", tensors)
    assert answer["num_detections"][0, 0] == 4
    np.testing.assert_array_equal(answer["detection_boxes"][0, :4], single["boxes"][:4])
    np.testing.assert_array_equal(answer["detection_scores"][0, :4], single["scores"][:4])
