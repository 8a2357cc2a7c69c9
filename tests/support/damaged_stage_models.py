"""Damages to models of endcap's stages, compiled and in Python."""

from __future__ import annotations

import re

from tests.support.damage import IMAGES, NO_CONFIG, Damage, added, parameter, remove

GEOMETRY = 'name: "geometry" # from preprocess\n    data_type: TYPE_FP32\n    dims: [ 8 ]'
PREPROCESS = {
    "batched_rois": Damage(
        model="preprocess_rois",
        edits=(("max_batch_size: 0", "max_batch_size: 4"),),
        at="max_batch_size: 4",
        says="max_batch_size is 4 in a config with input 'rois'",
    ),
    "other_rois": Damage(
        model="preprocess_rois",
        edits=(("dims: [ -1, 4 ]", "dims: [ 4 ]"),),
        at="dims: [ 4 ]",
        says="input 'rois' is TYPE_FP32 [4] in the config",
    ),
    "colon": Damage(
        model="preprocess",
        edits=(("max_batch_size: 16", "max_batch_size 16"),),
        at="max_batch_size 16",
        says=NO_CONFIG + "'max_batch_size 16': Expected",
    ),
    "unknown_field": Damage(
        model="preprocess",
        edits=added("colour: 3"),
        at="colour: 3",
        says=NO_CONFIG + 'Message type "inference.ModelConfig" has no field named "colour"',
    ),
    "two_schedulers": Damage(
        model="preprocess",
        edits=added("sequence_batching { }"),
        at="dynamic_batching {",
        says=NO_CONFIG + 'Field "dynamic_batching" is specified along with',
    ),
    "other_name": Damage(
        model="preprocess",
        edits=(('backend: "endcap_preprocess"', 'backend: "endcap_preprocess"\n#'),),
        change=lambda folder: (folder / "config.pbtxt").write_text(
            re.sub(r"^name: .*", 'name: "prepare"', (folder / "config.pbtxt").read_text(), flags=8)
        ),
        at='name: "prepare"',
        says="the model is named prepare, and its folder ",
    ),
    "no_backend": Damage(
        model="preprocess",
        edits=(('backend: "endcap_preprocess"', ""),),
        at="# First hop",
        says="the model names no backend",
    ),
    "no_version": Damage(
        model="preprocess", change=remove("1"), says="the model has no version folder"
    ),
    "unknown_parameter": Damage(
        model="preprocess",
        edits=added(parameter("sise", 640)),
        at='"sise"',
        says="'sise' is not a parameter of this backend",
    ),
    "impossible_value": Damage(
        model="preprocess",
        edits=added(parameter("pad_value", 300)),
        at='"pad_value"',
        says="pad_value is '300'",
    ),
    "unknown_preset": Damage(
        model="preprocess",
        edits=(('string_value: "ultralytics"', 'string_value: "yolo99"'),),
        at="parameters {",
        says="preset is 'yolo99'",
    ),
    "threads": Damage(
        model="preprocess",
        edits=added(parameter("threads", -1)),
        at='"threads"',
        says="threads is '-1'",
    ),
    "queue_cost": Damage(
        model="preprocess",
        edits=added(parameter("max_queue_cost", "20ms")),
        at='"max_queue_cost"',
        says="max_queue_cost is '20ms'",
    ),
    "other_size": Damage(
        model="preprocess",
        edits=added(parameter("size", 320)),
        at=IMAGES,
        says="output 'images' is TYPE_FP32 [3, 640, 640] in the config",
    ),
    "other_type": Damage(
        model="preprocess",
        edits=added(parameter("dtype", "uint8")),
        at="data_type: TYPE_FP32",
        says="output 'images' is TYPE_FP32 [3, 640, 640] in the config",
    ),
    "encoded_of_floats": Damage(
        model="preprocess",
        edits=(("data_type: TYPE_STRING", "data_type: TYPE_FP32"),),
        at="data_type: TYPE_FP32 # one element",
        says="input 'encoded' is TYPE_FP32 [1] in the config",
    ),
    "misnamed_output": Damage(
        model="preprocess",
        edits=(('name: "geometry"', 'name: "geometri"'),),
        at='name: "geometri"',
        says="the config has an output 'geometri'",
    ),
    "preferred_batch": Damage(
        model="preprocess",
        edits=(("dynamic_batching {", "dynamic_batching {\n  preferred_batch_size: [ 8, 32 ]"),),
        at="preferred_batch_size",
        says="preferred_batch_size is [8, 32], and max_batch_size 16",
    ),
}
POSTPROCESS = {
    "no_head": Damage(
        model="postprocess",
        edits=(('key: "head"', 'key: "threads"'), ('string_value: "yolov8"', 'string_value: "1"')),
        at='backend: "endcap_postprocess"',
        says="parameter 'head' is missing",
    ),
    "classes_do_not_fit": Damage(
        model="postprocess",
        edits=(('string_value: "6"', 'string_value: "80"'),),
        at="dims: [ 10, 8400 ]",
        says="input 'head' is TYPE_FP32 [10, 8400] in the config",
    ),
    "iou_threshold": Damage(
        model="postprocess",
        edits=added(parameter("iou_threshold", 1.5)),
        at='"iou_threshold"',
        says="iou_threshold is '1.5'",
    ),
    "short_geometry": Damage(
        model="postprocess",
        edits=((GEOMETRY, GEOMETRY.replace("8", "4")),),
        at="dims: [ 4 ]",
        says="input 'geometry' is TYPE_FP32 [4] in the config",
    ),
    "misnamed_input": Damage(
        model="postprocess",
        edits=(('name: "head"', 'name: "heads"'),),
        at='name: "heads"',
        says="the config has an input 'heads'",
    ),
    "fewer_rows": Damage(
        model="postprocess",
        edits=(("dims: [ 300, 4 ]", "dims: [ 100, 4 ]"),),
        at="dims: [ 100, 4 ]",
        says="output 'detection_boxes' is TYPE_FP32 [100, 4] in the config",
    ),
    "labels_of_boxes": Damage(
        model="postprocess",
        edits=added(parameter("labels_file", "labels.txt")),
        at='"labels_file"',
        says="labels_file was given with head=yolov8",
    ),
    "separator_without_labels": Damage(
        model="postprocess",
        edits=added(parameter("labels_separator", "/")),
        at='"labels_separator"',
        says="labels_separator was given without labels_file",
    ),
    "negative_batch": Damage(
        model="postprocess",
        edits=(("max_batch_size: 16", "max_batch_size: -16"),),
        at="max_batch_size: -16",
        says="max_batch_size is -16",
    ),
}
ROIS = """, {
    name: "rois"
    data_type: TYPE_FP32
    dims: [ -1, 4 ]
  }
]

output ["""
PYTHON = {
    "dali_parameter": Damage(
        model="preprocess_dali",
        edits=added(parameter("sise", 640)),
        at='"sise"',
        says="'sise' is ",
    ),
    "dali_optional": Damage(
        model="preprocess_dali",
        edits=(('string_value: "true"', 'string_value: "maybe"'),),
        at="parameters {",
        says="optional is neither true nor false",
    ),
    "dali_rois": Damage(
        model="preprocess_dali",
        edits=(("\n]\n\noutput [", ROIS),),
        at='name: "rois"',
        says="the model has an input rois, and its DALI pipeline takes whole images",
    ),
    "python_parameter": Damage(
        model="preprocess_python",
        edits=added(parameter("sise", 640)),
        at='"sise"',
        says="'sise' is ",
    ),
    "python_size": Damage(
        model="preprocess_python",
        edits=(("dims: [ 3, 640, 640 ]", "dims: [ 3, 320, 320 ]"),),
        at="dims: [ 3, 320, 320 ]",
        says="output 'images' is TYPE_FP32 [3, 320, 320] in the config",
    ),
    "python_queue_cost": Damage(
        model="preprocess_python",
        edits=added(parameter("max_queue_cost", 40)),
        at='"max_queue_cost"',
        says="max_queue_cost is a parameter of the backend",
    ),
    "python_threads": Damage(
        model="preprocess_python",
        edits=added(parameter("threads", "many")),
        at='"threads"',
        says="threads is 'many'",
    ),
    "python_classes": Damage(
        model="postprocess_python",
        edits=(('string_value: "6"', 'string_value: "7"'),),
        at="dims: [ 10, 8400 ]",
        says="input 'head' is TYPE_FP32 [10, 8400] in the config",
    ),
    "python_rows": Damage(
        model="postprocess_python",
        edits=(("dims: [ 300, 4 ]", "dims: [ 100, 4 ]"),),
        at="dims: [ 100, 4 ]",
        says="output 'detection_boxes' is TYPE_FP32 [100, 4] in the config",
    ),
}
