"""A config that cannot be carried out fails the load with a sentence, and no other model's."""

from __future__ import annotations

from collections.abc import Iterator

import jpegs
import pytest
import tritonclient.grpc as grpc_client
from calls import infer, strings
from model_folders import tensor, write_postprocess, write_preprocess
from running_server import RunningServer, run_server

HEAD = tensor("head", "TYPE_FP32", [84, 8400])
ENCODED = tensor("encoded", "TYPE_STRING", [1])
CLASSES = {"head": "classification", "num_classes": 3, "top_k": 2}

# name: (what to write, what the sentence says)
BAD_PREPROCESS = {
    "unknown_parameter": ({"parameters": {"sise": "640"}}, ["sise"]),
    "impossible_size": ({"parameters": {"size": "0,640"}}, ["size"]),
    "impossible_pad": ({"parameters": {"pad_value": 300}}, ["pad_value", "255"]),
    "not_a_number": ({"parameters": {"max_bytes": "many"}}, ["max_bytes", "many"]),
    "unknown_enum": ({"parameters": {"fit": "squeeze"}}, ["fit", "squeeze", "letterbox"]),
    "unknown_preset": ({"parameters": {"preset": "yolo99"}}, ["yolo99", "ultralytics"]),
    "not_in_this_build": ({"parameters": {"interpolation": "area"}}, ["interpolation", "area"]),
    "nvjpeg_and_exact": ({"parameters": {"jpeg_decoder": "nvjpeg"}}, ["jpeg_decoder"]),
    "negative_threads": ({"parameters": {"threads": -1}}, ["threads", "-1"]),
    "empty_threads": ({"parameters": {"threads": ""}}, ["threads"]),
    "images_of_other_size": (
        {"outputs": [tensor("images", "TYPE_FP32", [3, 320, 320])]},
        ["'images'", "[3, 320, 320]", "[3, 640, 640]"],
    ),
    "images_of_other_type": (
        {"outputs": [tensor("images", "TYPE_UINT8", [3, 640, 640])]},
        ["'images'", "TYPE_UINT8", "TYPE_FP32"],
    ),
    "images_of_default_type": (
        {
            "parameters": {"dtype": "uint8"},
            "outputs": [tensor("images", "TYPE_FP32", [3, 640, 640])],
        },
        ["'images'", "TYPE_UINT8"],
    ),
    "encoded_of_other_type": (
        {"inputs": [tensor("encoded", "TYPE_FP32", [1])]},
        ["'encoded'", "TYPE_FP32", "TYPE_STRING [1] or TYPE_UINT8 [-1]"],
    ),
    "two_strings": (
        {"inputs": [tensor("encoded", "TYPE_STRING", [2])]},
        ["'encoded'", "[2]"],
    ),
    "unknown_input": (
        {"inputs": [ENCODED, tensor("hint", "TYPE_FP32", [1])]},
        ["'hint'", "encoded"],
    ),
    "unknown_output": (
        {"outputs": [tensor("image", "TYPE_FP32", [3, 640, 640])]},
        ["'image'", "images, geometry, status"],
    ),
}
BAD_POSTPROCESS = {
    "unknown_head": ({"parameters": {"head": "yolov77"}}, ["yolov77", "yolov8"]),
    "unknown_post_parameter": ({"parameters": {"iou": 0.5}}, ["'iou'"]),
    "impossible_iou": ({"parameters": {"iou_threshold": 1.5}}, ["iou_threshold", "1.5"]),
    "impossible_classes": ({"parameters": {"num_classes": 0}}, ["num_classes", "0"]),
    "classes_do_not_fit": (
        {"parameters": {"head": "yolov8", "num_classes": 3}, "inputs": [HEAD]},
        ["'head'", "[84, 8400]", "head=yolov8 or num_classes=3", "[7, -1]"],
    ),
    "other_family_fits": (
        {"parameters": {"head": "yolov5", "num_classes": 80}, "inputs": [HEAD]},
        ["'head'", "head=yolov5 or num_classes=80", "[-1, 85]"],
    ),
    "head_is_missing": (
        {"inputs": [tensor("geometry", "TYPE_FP32", [8])]},
        ["'head'", "is missing"],
    ),
    "head_of_integers": (
        {"inputs": [tensor("head", "TYPE_INT32", [84, 8400])]},
        ["'head'", "TYPE_INT32", "TYPE_FP32 [84, -1] or TYPE_FP16 [84, -1]"],
    ),
    "short_geometry": (
        {"inputs": [HEAD, tensor("geometry", "TYPE_FP32", [4])]},
        ["'geometry'", "[4]", "[8]"],
    ),
    "fewer_rows": (
        {"outputs": [tensor("detection_scores", "TYPE_FP32", [100])]},
        ["'detection_scores'", "max_detections=300", "[100]"],
    ),
    "labels_file_is_missing": (
        {"parameters": {**CLASSES, "labels_file": "nowhere.txt"}},
        ["nowhere.txt", "cannot be read"],
    ),
    "labels_file_is_a_folder": (
        {"parameters": {**CLASSES, "labels_file": "1"}},
        ["labels_file", "cannot be read"],
    ),
    "too_few_labels": (
        {"parameters": {**CLASSES, "labels_file": "l.txt"}, "files": {"l.txt": "a\nb\n"}},
        ["l.txt", "2 lines", "num_classes=3"],
    ),
    "labels_for_boxes": (
        {"parameters": {"labels_file": "l.txt"}, "files": {"l.txt": "a\n"}},
        ["labels_file", "head=yolov8"],
    ),
}
BAD = {**BAD_PREPROCESS, **BAD_POSTPROCESS}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, str]]]:
    repository = tmp_path_factory.mktemp("bad")
    for name, (options, _) in BAD_PREPROCESS.items():
        write_preprocess(repository, name, max_batch_size=4, **options)
    for name, (options, _) in BAD_POSTPROCESS.items():
        write_postprocess(repository, name, max_batch_size=4, **options)
    write_preprocess(repository, "good", max_batch_size=4)
    with run_server(repository) as server:
        yield server.index()


@pytest.mark.parametrize("name", sorted(BAD))
def test_load_fails_with_a_sentence(index, name):
    model = index[name]
    assert model["state"] == "UNAVAILABLE"
    assert model["reason"].startswith("Invalid argument: ")
    for text in BAD[name][1]:
        assert text in model["reason"]


def test_the_good_model_is_served(index):
    assert index["good"]["state"] == "READY"


@pytest.fixture(scope="module")
def strict_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that completes no config and keeps no metrics."""
    repository = tmp_path_factory.mktemp("strict")
    images = tensor("images", "TYPE_FP32", [3, 64, 64])
    small = {"size": 64}
    write_preprocess(repository, "whole", parameters=small, inputs=[ENCODED], outputs=[images])
    write_preprocess(repository, "empty", parameters=small)
    write_preprocess(repository, "wrong", inputs=[ENCODED], outputs=[images])
    with run_server(
        repository, "--disable-auto-complete-config", "--allow-metrics=false"
    ) as server:
        yield server


def test_config_is_checked_where_it_is_not_completed(strict_server):
    index = strict_server.index()
    assert index["whole"]["state"] == "READY"
    assert index["wrong"]["state"] == "UNAVAILABLE"
    assert "[3, 64, 64]" in index["wrong"]["reason"]
    assert index["empty"]["state"] == "UNAVAILABLE"
    assert "encoded" in index["empty"]["reason"]


def test_a_server_without_metrics_serves(strict_server):
    with grpc_client.InferenceServerClient(strict_server.grpc) as client:
        files = strings([jpegs.photo_jpeg(30, 40)], batched=False)
        assert infer(client, "whole", {"encoded": files})["images"].shape == (3, 64, 64)
