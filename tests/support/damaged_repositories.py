"""Damages to networks and ensembles, and every damage to the shipped repository by its name."""

from __future__ import annotations

import re

from tests.support.damage import IMAGES, NO_CONFIG, WARMUP, Damage, added, parameter, remove

PREPROCESS = {
    "other_rois": Damage(
        model="preprocess_rois",
        edits=(("dims: [ -1, 4 ]", "dims: [ 4 ]"),),
        at="dims: [ 4 ]",
        says="input 'rois' is TYPE_FP32 [4] in the config",
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
    "other_size": Damage(
        model="preprocess",
        edits=added(parameter("size", 320)),
        at=IMAGES,
        says="output 'images' is TYPE_FP32 [3, 640, 640] in the config",
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
    "labels_of_boxes": Damage(
        model="postprocess",
        edits=added(parameter("labels_file", "labels.txt")),
        at='"labels_file"',
        says="labels_file was given with head=yolov8",
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
    "python_queue_cost": Damage(
        model="preprocess_python",
        edits=added(parameter("max_queue_cost", 40)),
        at='"max_queue_cost"',
        says="max_queue_cost is a parameter of the backend",
    ),
    "python_classes": Damage(
        model="postprocess_python",
        edits=(('string_value: "6"', 'string_value: "7"'),),
        at="dims: [ 10, 8400 ]",
        says="input 'head' is TYPE_FP32 [10, 8400] in the config",
    ),
}
SMALLER = "dims: [ 3, 320, 320 ]"
DETECTOR = {
    "no_model_file": Damage(
        model="detector_python",
        change=remove("1", "model.py"),
        at='backend: "python"',
        says="the model needs FOLDER/1/model.py",
        hangs=True,
    ),
    "absent_version": Damage(
        model="detector_python",
        edits=added("version_policy { specific { versions: [ 1, 3 ] } }"),
        at="version_policy",
        says="version_policy asks for version 3",
        severity="warning",
        loads=True,
    ),
    "no_version_of_the_policy": Damage(
        model="detector_python",
        edits=added("version_policy { specific { versions: [ 3 ] } }"),
        at="version_policy",
        says="version_policy asks for version 3",
    ),
    "label_filename": Damage(
        model="detector_python",
        edits=(("dims: [ 10, 8400 ]", 'dims: [ 10, 8400 ] label_filename: "names.txt"'),),
        at="label_filename",
        says="output head has the label_filename FOLDER/names.txt, which is not there",
    ),
    "no_warmup_file": Damage(
        model="detector_python",
        edits=added(
            WARMUP.format("images", 'data_type: TYPE_FP32 dims: 1 input_data_file: "one.jpg"')
        ),
        at="input_data_file",
        says="the warm-up one reads FOLDER/warmup/one.jpg",
    ),
    "no_environment": Damage(
        model="detector_python",
        edits=added(parameter("EXECUTION_ENV_PATH", "$$TRITON_MODEL_DIRECTORY/env.tar.gz")),
        at="EXECUTION_ENV_PATH",
        says="EXECUTION_ENV_PATH is FOLDER/env.tar.gz, which is not there",
    ),
    "no_dims": Damage(
        model="detector_python",
        edits=(("dims: [ 10, 8400 ]", ""),),
        at="{",
        says="output head has no dims",
    ),
    "network_dims": Damage(
        model="detector_python",
        edits=((IMAGES, SMALLER),),
        at=SMALLER,
        says="input images is declared as FP32 [3, 320, 320], and the network's is FP32 [3, 640, ",
        loads=True,
    ),
    "network_name": Damage(
        model="detector_python",
        edits=(('name: "head"', 'name: "output0"'),),
        at='name: "output0"',
        says="the network has no output output0; its outputs are head FP32 [10, 8400]",
        severity="warning",
        loads=True,
    ),
}
INDICES = 'output_map { key: "detection_indices" value: "detection_indices" }\n'
DETECT = {
    "absent_model": Damage(
        model="detect",
        edits=(('model_name: "detector"', 'model_name: "detectr"'),),
        at='model_name: "detectr"',
        says="step detectr calls a model that is not in the repository",
    ),
    "absent_step_version": Damage(
        model="detect",
        edits=(("model_version: -1 # the newest", "model_version: 3"),),
        at="model_version: 3",
        says="step preprocess asks for version 3 of preprocess, and Triton loads 1",
    ),
    "no_step_version": Damage(
        model="detect",
        edits=(("model_version: -1 # the newest", ""),),
        at="{",
        says="step preprocess asks for version 0, for want of a model_version, of preprocess",
    ),
    "input_key": Damage(
        model="detect",
        edits=(('input_map { key: "images"', 'input_map { key: "image"'),),
        at='key: "image"',
        says="step detector has no input image",
    ),
    "unmapped_input": Damage(
        model="detect",
        edits=(('      input_map { key: "head" value: "head" }\n', ""),),
        at='model_name: "postprocess"',
        says="step postprocess needs the input head",
    ),
    "not_produced": Damage(
        model="detect",
        edits=(
            ('input_map { key: "head" value: "head" }', 'input_map { key: "head" value: "heads" }'),
        ),
        at='value: "heads"',
        says="step postprocess takes heads, and nothing produces it",
    ),
    "output_not_produced": Damage(
        model="detect",
        edits=((INDICES, ""),),
        at='name: "detection_indices"',
        says="the ensemble gives detection_indices, and nothing produces it",
    ),
    "not_taken": Damage(
        model="detect",
        edits=(('      input_map { key: "status" value: "image_status" }\n', ""),),
        at='value: "image_status"',
        says="step preprocess produces image_status, and nothing takes it",
    ),
    "input_of_other_type": Damage(
        model="detect",
        edits=(("data_type: TYPE_STRING", "data_type: TYPE_UINT8"),),
        at='name: "encoded"',
        says="step preprocess takes encoded as STRING [1], and the ensemble's input encoded is ",
    ),
    "output_of_other_shape": Damage(
        model="detect",
        edits=(("dims: [ 300, 4 ]", "dims: [ 100, 4 ]"),),
        at='name: "detection_boxes"',
        says="the ensemble gives detection_boxes as FP32 [100, 4], and postprocess gives detect",
    ),
    "larger_batch": Damage(
        model="detect",
        edits=(("max_batch_size: 16", "max_batch_size: 32"),),
        at="max_batch_size: 32",
        says="the ensemble's max_batch_size is 32, and that of ",
    ),
    "warm_ensemble": Damage(
        model="detect",
        edits=(
            (
                'platform: "ensemble"',
                'platform: "ensemble"\n'
                + WARMUP.format("encoded", "data_type: TYPE_STRING dims: 1 zero_data: true"),
            ),
        ),
        at="model_warmup",
        says="Triton refuses model_warmup in an ensemble",
    ),
    "instances_of_ensemble": Damage(
        model="detect",
        edits=(('platform: "ensemble"', 'platform: "ensemble"\ninstance_group { count: 2 }'),),
        at="instance_group",
        says="Triton refuses instance_group in an ensemble",
    ),
    "no_platform": Damage(
        model="detect",
        edits=(('platform: "ensemble"', ""),),
        at="ensemble_scheduling {",
        says='the model has ensemble_scheduling, and platform: ""',
    ),
    "fewer_labels": Damage(
        model="detect",
        edits=(("circle,square", "circle"),),
        at="parameters {",
        says="labels has 5 names, and num_classes of postprocess is 6",
        severity="warning",
        loads=True,
    ),
}
TRACK = {
    "track_parameter": Damage(
        model="track",
        edits=(('"max_lost_frames"', '"max_lost_frame"'),),
        at="parameters {",
        says="'max_lost_frame' is not a",
    ),
    "candidates": Damage(
        model="track",
        edits=(("candidate_sequences: 1024", "candidate_sequences: 64"),),
        at="sequence_batching",
        says="max_candidate_sequences is 64, and max_sequences 1000",
        severity="warning",
        loads=True,
    ),
}
DAMAGES = {**TRACK, **PREPROCESS, **POSTPROCESS, **DETECTOR, **DETECT, **PYTHON}
