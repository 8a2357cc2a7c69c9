"""Configs that cannot be carried out, and what the server must say about each."""

from __future__ import annotations

from model_folders import ON_CPU, tensor

HEAD = tensor("head", "TYPE_FP32", [84, 8400])
ENCODED = tensor("encoded", "TYPE_STRING", [1])
ROIS = tensor("rois", "TYPE_FP32", [-1, 4])
YOLO = {"head": "yolov8"}
CLASSES = {"head": "classification", "num_classes": 3, "top_k": 2}


def labelled(name: str, data_type: str) -> dict[str, object]:
    """A classifier whose output of this name has a file of labels."""
    output = tensor(name, data_type, [2], more='label_filename: "l.txt"')
    return {"parameters": CLASSES, "outputs": [output], "files": {"l.txt": "a\nb\nc\n"}}


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
    "impossible_size": ({"parameters": {"size": "0,640"}}, ["size"]),
    "impossible_pad": ({"parameters": {"pad_value": 300}}, ["pad_value", "255"]),
    "not_a_number": ({"parameters": {"max_bytes": "many"}}, ["max_bytes", "many"]),
    "unknown_enum": ({"parameters": {"fit": "squeeze"}}, ["fit", "squeeze", "letterbox"]),
    "unknown_preset": ({"parameters": {"preset": "yolo99"}}, ["yolo99", "ultralytics"]),
    "not_in_this_build": ({"parameters": {"jpeg_decoder": "hybrid"}}, ["jpeg_decoder", "CUDA"]),
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
    "batches_of_rois": (
        {"inputs": [ENCODED, ROIS], "more": ON_CPU},
        ["max_batch_size is 4", "'rois'", "give max_batch_size: 0"],
    ),
    "unknown_output": (
        {"outputs": [tensor("image", "TYPE_FP32", [3, 640, 640])]},
        ["'image'", "images, geometry, status"],
    ),
}
BAD_POSTPROCESS = {
    "unknown_head": ({"parameters": {"head": "yolov77"}}, ["yolov77", "yolov8"]),
    "unknown_post_parameter": (
        {"parameters": {"iou": 0.5}},
        ["'iou'", "there are threads, labels_file, labels_separator, head"],
    ),
    "no_head": ({}, ["'head'", "is missing", "yolov8"]),
    "impossible_iou": ({"parameters": {**YOLO, "iou_threshold": 1.5}}, ["iou_threshold", "1.5"]),
    "impossible_classes": ({"parameters": {**YOLO, "num_classes": 0}}, ["num_classes", "0"]),
    "classes_do_not_fit": (
        {"parameters": {"head": "yolov8", "num_classes": 3}, "inputs": [HEAD]},
        ["'head'", "[84, 8400]", "head=yolov8 or num_classes=3", "[7, -1]"],
    ),
    "other_family_fits": (
        {"parameters": {"head": "yolov5", "num_classes": 80}, "inputs": [HEAD]},
        ["'head'", "head=yolov5 or num_classes=80", "[-1, 85]"],
    ),
    "head_is_missing": (
        {"parameters": YOLO, "inputs": [tensor("geometry", "TYPE_FP32", [8])]},
        ["input 'head'", "is missing"],
    ),
    "head_of_integers": (
        {"parameters": YOLO, "inputs": [tensor("head", "TYPE_INT32", [84, 8400])]},
        ["'head'", "TYPE_INT32", "TYPE_FP32 [84, -1] or TYPE_FP16 [84, -1]"],
    ),
    "short_geometry": (
        {"parameters": YOLO, "inputs": [HEAD, tensor("geometry", "TYPE_FP32", [4])]},
        ["'geometry'", "[4]", "[8]"],
    ),
    "fewer_rows": (
        {"parameters": YOLO, "outputs": [tensor("detection_scores", "TYPE_FP32", [100])]},
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
        {"parameters": {**YOLO, "labels_file": "l.txt"}, "files": {"l.txt": "a\n"}},
        ["labels_file", "head=yolov8"],
    ),
    "separator_without_a_file": (
        {"parameters": {**CLASSES, "labels_separator": "/"}},
        ["labels_separator was given without labels_file"],
    ),
    "empty_separator": (
        {
            "parameters": {**CLASSES, "labels_file": "l.txt", "labels_separator": ""},
            "files": {"l.txt": "a\nb\nc\n"},
        },
        ["labels_separator is empty"],
    ),
    "path_with_a_hole": (separated("a\nb//c\nd\n"), ["l.txt' line 2 is 'b//c'", "empty part"]),
    "path_with_a_leading_separator": (
        separated("a\nb/c\n/d\n"),
        ["l.txt' line 3 is '/d'", "empty part"],
    ),
    "path_with_a_trailing_separator": (
        separated("a/\nb\nc\n"),
        ["l.txt' line 1 is 'a/'", "empty part"],
    ),
    "empty_path": (separated("a\n\nc\n"), ["l.txt' line 2 is ''", "empty part"]),
    "paths_without_a_separator": (
        {
            "parameters": {**CLASSES, "labels_file": "l.txt"},
            "outputs": [tensor("class_paths", "TYPE_STRING", [2])],
            "files": {"l.txt": "a/b\nc/d\ne/f\n"},
        },
        ["'class_paths'", "class_labels"],
    ),
    "several_labels_of_a_softmax": (
        {"parameters": {**CLASSES, "multi_label": "true"}},
        ["multi_label is true", "activation softmax", "activation=sigmoid"],
    ),
    "labels_of_sorted_scores": (
        labelled("class_scores", "TYPE_FP32"),
        ["'class_scores'", "label_filename", "'class_probabilities'"],
    ),
    "labels_of_sorted_ids": (
        labelled("class_ids", "TYPE_INT32"),
        ["'class_ids'", "label_filename", "'class_probabilities'"],
    ),
    "fewer_probabilities": (
        {
            "parameters": CLASSES,
            "outputs": [tensor("class_probabilities", "TYPE_FP32", [2])],
        },
        ["'class_probabilities'", "[2]", "[3]", "num_classes=3"],
    ),
}
# These have no batch dimension.
BAD_ROIS = {
    "rois_without_encoded": (
        {"inputs": [ROIS], "more": ON_CPU},
        ["input 'encoded'", "is missing"],
    ),
    "rois_of_other_shape": (
        {"inputs": [ENCODED, tensor("rois", "TYPE_FP32", [4])], "more": ON_CPU},
        ["'rois'", "[4]", "TYPE_FP32 [-1, 4]"],
    ),
    "rois_of_integers": (
        {"inputs": [ENCODED, tensor("rois", "TYPE_INT32", [-1, 4])], "more": ON_CPU},
        ["'rois'", "TYPE_INT32", "TYPE_FP32 [-1, 4]"],
    ),
    "images_of_one_roi": (
        {
            "inputs": [ENCODED, ROIS],
            "more": ON_CPU,
            "outputs": [tensor("images", "TYPE_FP32", [3, 640, 640])],
        },
        ["'images'", "[3, 640, 640]", "[-1, 3, 640, 640]"],
    ),
    "no_rois_at_all": (
        {"inputs": [ENCODED, ROIS], "more": ON_CPU, "parameters": {"max_rois": 0}},
        ["max_rois", "0"],
    ),
    "no_bytes_of_rois": (
        {"inputs": [ENCODED, ROIS], "more": ON_CPU, "parameters": {"max_roi_bytes": 0}},
        ["max_roi_bytes", "0"],
    ),
}
# Of the compiled backend alone.
BAD_QUEUE_COST = {
    "negative_queue_cost": (
        {"parameters": {"max_queue_cost": -1}},
        ["max_queue_cost is '-1'", "milliseconds"],
    ),
    "queue_cost_with_unit": (
        {"parameters": {"max_queue_cost": "20ms"}},
        ["max_queue_cost", "20ms"],
    ),
    "queue_cost_not_a_number": (
        {"parameters": {"max_queue_cost": "nan"}},
        ["max_queue_cost", "nan"],
    ),
    "queue_cost_too_large": (
        {"parameters": {"max_queue_cost": "1e9"}},
        ["max_queue_cost", "3600000"],
    ),
}
BAD = {**BAD_PREPROCESS, **BAD_POSTPROCESS, **BAD_ROIS}
