"""What the server makes of a config that holds only backend, max_batch_size and parameters."""

from __future__ import annotations

from tests.triton.running_server import RunningServer
from tests.triton.served_models import ANCHORS, LABELS, MAX_DETECTIONS, NUM_CLASSES, SIZE


def tensors_of(server: RunningServer, model: str, side: str) -> dict[str, tuple[str, list[int]]]:
    config = server.config(model)
    return {each["name"]: (each["data_type"], each["dims"]) for each in config[side]}


def optional_of(server: RunningServer, model: str) -> dict[str, bool]:
    return {each["name"]: each["optional"] for each in server.config(model)["input"]}


def test_preprocess(server):
    assert tensors_of(server, "pre", "input") == {"encoded": ("TYPE_STRING", [1])}
    assert tensors_of(server, "pre", "output") == {
        "images": ("TYPE_FP32", [3, *SIZE]),
        "geometry": ("TYPE_FP32", [8]),
        "status": ("TYPE_INT32", [1]),
    }
    assert server.config("pre")["max_batch_size"] == 32
    assert server.config("pre_single")["max_batch_size"] == 0


def test_preprocess_defaults(server):
    images = tensors_of(server, "pre_defaults", "output")["images"]
    assert images == ("TYPE_FP32", [3, 640, 640])


def test_dtype_and_layout_decide_the_images(server):
    images = tensors_of(server, "pre_uint8", "output")["images"]
    assert images == ("TYPE_UINT8", [*SIZE, 1])


def test_preprocess_with_rois(server):
    inputs = tensors_of(server, "rois_names_only", "input")
    assert inputs == {"encoded": ("TYPE_STRING", [1]), "rois": ("TYPE_FP32", [-1, 4])}
    assert tensors_of(server, "rois_names_only", "output") == {
        "images": ("TYPE_UINT8", [-1, 3, *SIZE]),
        "geometry": ("TYPE_FP32", [-1, 8]),
        "status": ("TYPE_INT32", [-1]),
    }
    assert tensors_of(server, "rois_bytes", "input")["encoded"] == ("TYPE_UINT8", [-1])


def test_what_the_config_gives_stays(server):
    assert tensors_of(server, "pre_bytes", "input") == {"encoded": ("TYPE_UINT8", [-1])}
    assert list(tensors_of(server, "pre_subset", "output")) == ["geometry"]
    assert tensors_of(server, "post_half", "input")["head"] == (
        "TYPE_FP16",
        [4 + NUM_CLASSES, ANCHORS],
    )
    assert optional_of(server, "post_half") == dict.fromkeys(["head", "geometry", "status"], False)


def test_open_dims_get_the_numbers_that_the_parameters_know(server):
    assert tensors_of(server, "pre_open_dims", "output") == {
        "images": ("TYPE_FP32", [3, *SIZE]),
        "geometry": ("TYPE_FP32", [8]),
    }
    head = tensors_of(server, "post_open_dims", "input")["head"]
    assert head == ("TYPE_FP32", [4 + NUM_CLASSES, ANCHORS])
    assert tensors_of(server, "post_open_dims", "output") == {
        "detection_boxes": ("TYPE_FP32", [MAX_DETECTIONS, 4])
    }


def test_detection(server):
    assert tensors_of(server, "post", "input") == {
        "head": ("TYPE_FP32", [4 + NUM_CLASSES, -1]),
        "geometry": ("TYPE_FP32", [8]),
        "status": ("TYPE_INT32", [1]),
    }
    assert optional_of(server, "post") == {"head": False, "geometry": True, "status": True}
    assert tensors_of(server, "post", "output") == {
        "num_detections": ("TYPE_INT32", [1]),
        "detection_boxes": ("TYPE_FP32", [MAX_DETECTIONS, 4]),
        "detection_scores": ("TYPE_FP32", [MAX_DETECTIONS]),
        "detection_classes": ("TYPE_INT32", [MAX_DETECTIONS]),
        "detection_indices": ("TYPE_INT32", [MAX_DETECTIONS]),
        "status": ("TYPE_INT32", [1]),
    }


def test_classification(server):
    assert tensors_of(server, "classes", "input")["logits"] == ("TYPE_FP32", [len(LABELS)])
    assert tensors_of(server, "classes", "output") == {
        "class_scores": ("TYPE_FP32", [3]),
        "class_ids": ("TYPE_INT32", [3]),
        "class_probabilities": ("TYPE_FP32", [len(LABELS)]),
        "class_labels": ("TYPE_STRING", [3]),
        "status": ("TYPE_INT32", [1]),
    }
