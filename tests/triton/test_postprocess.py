"""endcap_postprocess: a head of each layout, by its tensors and its outputs, as in the package."""

from __future__ import annotations

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

import endcap
from tests.support import sample_heads
from tests.triton.calls import infer, infer_http
from tests.triton.served_models import (
    ANCHORS,
    CLASSIFICATION,
    HEADS,
    LABELS,
    MAX_DETECTIONS,
    MULTI_LABEL,
    NUM_CLASSES,
    POSTPROCESS,
    TREE,
    Head,
)

COUNT = 3
GEOMETRY = np.float32([[0.5, 0.6, 20, 40, 600, 400 + i, 1, 0] for i in range(COUNT)])
NAMES = {
    "num_detections": "num_detections",
    "detection_boxes": "boxes",
    "detection_scores": "scores",
    "detection_classes": "class_ids",
    "detection_indices": "indices",
}
YOLOV8 = Head(
    POSTPROCESS,
    lambda seed: sample_heads.yolov8_head(seed, anchors=ANCHORS, num_classes=NUM_CLASSES),
)
HEAD = YOLOV8.tensors(COUNT)["head"]
LOGITS = np.float32([[1, 5, 2, -3, 0], [4, 4, 9, 8, -1]])
BEST = [[1, 2, 0], [2, 3, 0]]  # of equal scores the lower class


def assert_same(
    head: Head,
    response: dict[str, np.ndarray],
    tensors: dict[str, np.ndarray],
    geometry: np.ndarray | None = GEOMETRY,
) -> None:
    """Compares detections with those of the package for the same batch."""
    packs = "detection_masks" in head.outputs
    postprocessor = endcap.Postprocessor(**head.parameters, packed_masks=packs)
    expected = postprocessor(tensors["head"] if len(tensors) == 1 else tensors, geometry)
    assert (expected.num_detections > 1).all()
    for name, attribute in (NAMES | head.outputs).items():
        given = getattr(expected, attribute)
        np.testing.assert_array_equal(response[name], given.reshape(response[name].shape), name)
    if expected.rle is not None:
        rows = [[*rle, *[b""] * (expected.boxes.shape[1] - len(rle))] for rle in expected.rle]
        assert response["detection_rle"].tolist() == rows
    assert not response["status"].any()


@pytest.mark.parametrize("name", HEADS)
def test_every_layout(server, client, name):
    tensors = HEADS[name].tensors(COUNT)
    response = infer(client, name, {**tensors, "geometry": GEOMETRY})
    assert_same(HEADS[name], response, tensors)


def test_over_http(server, web_client):
    tensors = HEADS["seg_input"].tensors(COUNT)
    response = infer_http(web_client, "seg_input", {**tensors, "geometry": GEOMETRY})
    assert_same(HEADS["seg_input"], response, tensors)


def test_without_geometry_boxes_stay_in_the_models_input(server, client):
    assert_same(YOLOV8, infer(client, "post", {"head": HEAD}), {"head": HEAD}, None)


def test_model_without_batches(server, client):
    response = infer(client, "post_single", {"head": HEAD[0], "geometry": GEOMETRY[0]})
    assert response["detection_boxes"].shape == (MAX_DETECTIONS, 4)
    assert_same(YOLOV8, response, {"head": HEAD[:1]}, GEOMETRY[:1])


def test_half_precision_head(server, client):
    half = HEAD.astype(np.float16)
    status = np.zeros((COUNT, 1), np.int32)
    response = infer(client, "post_half", {"head": half, "geometry": GEOMETRY, "status": status})
    assert_same(YOLOV8, response, {"head": half})


def test_only_what_is_requested_is_returned(server, client):
    tensors = {**HEADS["seg_input"].tensors(COUNT), "geometry": GEOMETRY}
    whole = infer(client, "seg_input", tensors)
    for names in (["num_detections"], ["detection_rle"], ["detection_masks"], ["mask_size"]):
        response = infer(client, "seg_input", tensors, outputs=names)
        assert list(response) == names
        np.testing.assert_array_equal(response[names[0]], whole[names[0]])


@pytest.mark.parametrize("name", ["post", "seg"])
def test_an_image_that_failed_before_is_blank_and_touches_no_other(server, client, name):
    tensors = {"head": HEAD} if name == "post" else HEADS[name].tensors(COUNT)
    status = np.int32([[0], [int(endcap.Status.IMAGE_LIMIT)], [0]])
    response = infer(client, name, {**tensors, "geometry": GEOMETRY, "status": status})
    whole = infer(client, name, {**tensors, "geometry": GEOMETRY})
    np.testing.assert_array_equal(response.pop("status"), status)
    assert response["num_detections"][1, 0] == 0
    assert (response["detection_indices"][1] == -1).all()
    assert not any(response.get("detection_rle", [[], []])[1])
    for output, array in response.items():
        np.testing.assert_array_equal(array[[0, 2]], whole[output][[0, 2]])


@pytest.mark.parametrize(
    "tensors",
    [
        {"head": HEAD[:, :-1]},
        {"head": HEAD.astype(np.float16)},
        {"head": HEAD[0]},
        {"head": HEAD, "geometry": GEOMETRY[:, :7]},
        {"head": HEAD, "geometry": GEOMETRY[:2]},
        {"head": HEAD, "status": np.zeros((COUNT, 1), np.float32)},
        {"geometry": GEOMETRY},
        {"head": np.full_like(HEAD, np.nan)},
    ],
)
def test_bad_tensors(server, client, tensors):
    with pytest.raises(InferenceServerException) as error:
        infer(client, "post", tensors)
    assert error.value.status() == "StatusCode.INVALID_ARGUMENT", error.value
    message = error.value.message()
    assert any(name in message for name in (*tensors, "'head'")), message


# --- classification -------------------------------------------------------------------------------


def texts(names: list[str], ids: np.ndarray) -> list[list[bytes]]:
    return [[names[i].encode() if i >= 0 else b"" for i in row] for row in ids]


def test_scores_ids_and_labels(server, client):
    expected = endcap.Postprocessor(**CLASSIFICATION)(LOGITS)
    for model, labels in (("classes", LABELS), ("classes_unnamed", [""] * len(LABELS))):
        response = infer(client, model, {"logits": LOGITS})
        assert response["class_ids"].tolist() == BEST
        np.testing.assert_array_equal(response["class_scores"], expected.scores)
        np.testing.assert_array_equal(response["class_probabilities"], expected.probabilities)
        assert response["class_labels"].tolist() == texts(labels, response["class_ids"])
        assert "class_paths" not in response
        assert not response["status"].any()


def test_labels_are_last_parts_and_paths_whole_lines(server, client):
    names = {"class_labels": [path.split("/")[-1] for path in TREE], "class_paths": TREE}
    response = infer(client, "classes_of_a_tree", {"logits": LOGITS})
    for output, given in names.items():
        assert response[output].tolist() == texts(given, np.int32(BEST))
        alone = infer(client, "classes_of_a_tree", {"logits": LOGITS}, outputs=[output])
        assert list(alone) == [output]
        assert alone[output].tolist() == response[output].tolist()


def test_several_labels_of_each_image_of_a_batch(server, client):
    # Some classes, all of them, none (a score of exactly the threshold), and an image that failed.
    logits = np.float32(
        [[1, -5, 2, -3, 2], [4, 4, 9, 8, 1], [0, -1, 0, -9, 0], [9, 9, 9, 9, 9]],
    )
    status = np.int32([[0], [0], [0], [2]])
    response = infer(client, "several_classes", {"logits": logits, "status": status})
    ids = [[2, 4, 0], [2, 3, 0], [-1, -1, -1], [-1, -1, -1]]
    assert response["class_ids"].tolist() == ids
    assert response["class_paths"].tolist() == texts(TREE, np.int32(ids))
    expected = endcap.Postprocessor(**CLASSIFICATION, **MULTI_LABEL)(logits[:3])
    np.testing.assert_array_equal(response["class_scores"][:3], expected.scores)
    np.testing.assert_array_equal(response["class_probabilities"][:3], expected.probabilities)
    assert not response["class_scores"][3].any()
    assert not response["class_probabilities"][3].any()
    np.testing.assert_array_equal(response["status"], status)
