"""Configs that cannot be carried out, and what the server must say about each.

tests/cpp/contract_test.cc has the other parameters and tensors.
"""

from __future__ import annotations

from tests.triton.model_folders import ON_CPU, tensor

CLASSES = {"head": "classification", "num_classes": 3, "top_k": 2}


def separated(lines: str) -> dict[str, object]:
    """A classifier whose labels are paths."""
    parameters = {**CLASSES, "labels_file": "l.txt", "labels_separator": "/"}
    return {"parameters": parameters, "files": {"l.txt": lines}}


# name: (what to write, what the message says)
BAD_PREPROCESS = {
    "unknown_parameter": (
        {"parameters": {"sise": "640"}},
        ["'sise'", "there are threads,", " preset, size"],
    ),
    "not_in_this_build": ({"parameters": {"jpeg_decoder": "hybrid"}}, ["jpeg_decoder", "CUDA"]),
    "nvjpeg_and_exact": ({"parameters": {"jpeg_decoder": "nvjpeg"}}, ["jpeg_decoder"]),
    "images_of_other_size": (
        {"outputs": [tensor("images", "TYPE_FP32", [3, 320, 320])]},
        ["'images'", "[3, 320, 320]", "[3, 640, 640]"],
    ),
}
BAD_POSTPROCESS = {
    "no_head": ({}, ["'head'", "is missing", "yolov8"]),
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
    "path_with_a_hole": (separated("a\nb//c\nd\n"), ["l.txt' line 2 is 'b//c'", "empty part"]),
    "empty_path": (separated("a\n\nc\n"), ["l.txt' line 2 is ''", "empty part"]),
}
# This one has no batch dimension.
BAD_ROIS = {
    "rois_without_encoded": (
        {"inputs": [tensor("rois", "TYPE_FP32", [-1, 4])], "more": ON_CPU},
        ["input 'encoded'", "is missing"],
    ),
}
BAD = {**BAD_PREPROCESS, **BAD_POSTPROCESS, **BAD_ROIS}
