"""Damages to networks and ensembles, and every damage to the shipped repository by its name.

What parameters and tensors a backend refuses is in tests/cpp/contract_test.cc: here is one of each
place that a finding can have.
"""

from __future__ import annotations

import re
from typing import Any

from tests.support.damage import IMAGES, NO_CONFIG, WARMUP, Damage, added, parameter, remove


def swapped(model: str, says: str, old: str, new: str, **more: Any) -> Damage:
    """A text of the config is another one, in whose line the finding is."""
    return Damage(model, says, new, ((old, new),), **more)


def extended(model: str, says: str, line: str, **more: Any) -> Damage:
    """The config has another line, which the finding names."""
    return Damage(model, says, line, added(line), **more)


ROIS = """, {
    name: "rois"
    data_type: TYPE_FP32
    dims: [ -1, 4 ]
  }
]

output ["""
SMALLER = "dims: [ 3, 320, 320 ]"
INDICES = 'output_map { key: "detection_indices" value: "detection_indices" }\n'
DAMAGES = {
    "unknown_field": extended(
        "preprocess",
        NO_CONFIG + 'Message type "inference.ModelConfig" has no field named "colour"',
        "colour: 3",
    ),
    "other_name": Damage(
        "preprocess",
        "the model is named prepare, and its folder ",
        'name: "prepare"',
        (('backend: "endcap_preprocess"', 'backend: "endcap_preprocess"\n#'),),
        change=lambda folder: (folder / "config.pbtxt").write_text(
            re.sub(r"^name: .*", 'name: "prepare"', (folder / "config.pbtxt").read_text(), flags=8)
        ),
    ),
    "no_backend": Damage(
        "preprocess",
        "the model names no backend",
        "# First hop",
        (('backend: "endcap_preprocess"', ""),),
    ),
    "no_version": Damage("preprocess", "the model has no version folder", None, change=remove("1")),
    "unknown_parameter": extended(
        "preprocess", "'sise' is not a parameter of this backend", parameter("sise", 640)
    ),
    "impossible_value": extended("preprocess", "pad_value is '300'", parameter("pad_value", 300)),
    "unknown_preset": Damage(
        "preprocess",
        "preset is 'yolo99'",
        "parameters {",
        (('string_value: "ultralytics"', 'string_value: "yolo99"'),),
    ),
    "other_size": Damage(
        "preprocess",
        "output 'images' is TYPE_FP32 [3, 640, 640] in the config",
        IMAGES,
        added(parameter("size", 320)),
    ),
    "classes_do_not_fit": Damage(
        "postprocess",
        "input 'head' is TYPE_FP32 [10, 8400] in the config",
        "dims: [ 10, 8400 ]",
        (('string_value: "6"', 'string_value: "80"'),),
    ),
    "iou_threshold": extended(
        "postprocess", "iou_threshold is '1.5'", parameter("iou_threshold", 1.5)
    ),
    "dali_optional": Damage(
        "preprocess_dali",
        "optional is neither true nor false",
        "parameters {",
        (('string_value: "true"', 'string_value: "maybe"'),),
    ),
    "dali_rois": Damage(
        "preprocess_dali",
        "the model has an input rois, and Python models take whole images",
        'name: "rois"',
        (("\n]\n\noutput [", ROIS),),
    ),
    "python_semantic": Damage(
        "postprocess_python",
        "a Python model cannot run head semantic",
        "parameters {",
        (('string_value: "yolov8"', 'string_value: "semantic"'),),
    ),
    "no_model_file": Damage(
        "detector_python",
        "the model needs FOLDER/1/model.py",
        'backend: "python"',
        change=remove("1", "model.py"),
        hangs=True,
    ),
    "absent_version": extended(
        "detector_python",
        "version_policy asks for version 3",
        "version_policy { specific { versions: [ 1, 3 ] } }",
        severity="warning",
        loads=True,
    ),
    "no_version_of_the_policy": extended(
        "detector_python",
        "version_policy asks for version 3",
        "version_policy { specific { versions: [ 3 ] } }",
    ),
    "label_filename": swapped(
        "detector_python",
        "output head has the label_filename FOLDER/names.txt, which is not there",
        "dims: [ 10, 8400 ]",
        'dims: [ 10, 8400 ] label_filename: "names.txt"',
    ),
    "no_warmup_file": extended(
        "detector_python",
        "the warm-up one reads FOLDER/warmup/one.jpg",
        WARMUP.format("images", 'data_type: TYPE_FP32 dims: 1 input_data_file: "one.jpg"'),
    ),
    "no_environment": extended(
        "detector_python",
        "EXECUTION_ENV_PATH is FOLDER/env.tar.gz, which is not there",
        parameter("EXECUTION_ENV_PATH", "$$TRITON_MODEL_DIRECTORY/env.tar.gz"),
    ),
    "network_dims": swapped(
        "detector_python",
        "input images is declared as FP32 [3, 320, 320], and the network's is FP32 [3, 640, ",
        IMAGES,
        SMALLER,
        loads=True,
    ),
    "network_name": swapped(
        "detector_python",
        "the network has no output output0; its outputs are head FP32 [10, 8400]",
        'name: "head"',
        'name: "output0"',
        severity="warning",
        loads=True,
    ),
    "absent_model": swapped(
        "detect",
        "step detectr calls a model that is not in the repository",
        'model_name: "detector"',
        'model_name: "detectr"',
    ),
    "absent_step_version": swapped(
        "detect",
        "step preprocess asks for version 3 of preprocess, and Triton loads 1",
        "model_version: -1 # the newest",
        "model_version: 3",
    ),
    "no_step_version": Damage(
        "detect",
        "step preprocess asks for version 0, for want of a model_version, of preprocess",
        "{",
        (("model_version: -1 # the newest", ""),),
    ),
    "unmapped_input": Damage(
        "detect",
        "step postprocess needs the input head",
        'model_name: "postprocess"',
        (('      input_map { key: "head" value: "head" }\n', ""),),
    ),
    "not_produced": swapped(
        "detect",
        "step postprocess takes heads, and nothing produces it",
        'input_map { key: "head" value: "head" }',
        'input_map { key: "head" value: "heads" }',
    ),
    "output_not_produced": Damage(
        "detect",
        "the ensemble gives detection_indices, and nothing produces it",
        'name: "detection_indices"',
        ((INDICES, ""),),
    ),
    "output_of_other_shape": Damage(
        "detect",
        "the ensemble gives detection_boxes as FP32 [100, 4], and postprocess gives detect",
        'name: "detection_boxes"',
        (("dims: [ 300, 4 ]", "dims: [ 100, 4 ]"),),
    ),
    "larger_batch": swapped(
        "detect",
        "the ensemble's max_batch_size is 32, and that of ",
        "max_batch_size: 16",
        "max_batch_size: 32",
    ),
    "fewer_labels": Damage(
        "detect",
        "labels has 5 names, and num_classes of postprocess is 6",
        "parameters {",
        (("circle,square", "circle"),),
        severity="warning",
        loads=True,
    ),
    "candidates": Damage(
        "track",
        "max_candidate_sequences is 64, and max_sequences 1000",
        "sequence_batching",
        (("candidate_sequences: 1024", "candidate_sequences: 64"),),
        severity="warning",
        loads=True,
    ),
}
