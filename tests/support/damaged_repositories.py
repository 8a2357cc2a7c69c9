"""Damages to networks and ensembles, and every damage to the shipped repository by its name."""

from __future__ import annotations

from tests.support.damage import IMAGES, NO_CONFIG, WARMUP, Damage, added, parameter, remove
from tests.support.damaged_stage_models import POSTPROCESS, PREPROCESS, PYTHON

SMALLER = "dims: [ 3, 320, 320 ]"
DETECTOR = {
    "no_model_file": Damage(
        model="detector_python",
        change=remove("1", "model.py"),
        at='backend: "python"',
        says="the model needs FOLDER/1/model.py",
        hangs=True,
    ),
    "other_model_file": Damage(
        model="detector_python",
        edits=added('default_model_filename: "net.py"'),
        at="default_model_filename",
        says="the model needs FOLDER/1/net.py",
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
    "zero_dim": Damage(
        model="detector_python",
        edits=(("dims: [ 10, 8400 ]", "dims: [ 10, 0 ]"),),
        at="dims: [ 10, 0 ]",
        says="output head has dims [10, 0]",
    ),
    "network_dims": Damage(
        model="detector_python",
        edits=((IMAGES, SMALLER),),
        at=SMALLER,
        says="input images is declared as FP32 [3, 320, 320], and the network's is FP32 [3, 640, ",
        loads=True,
    ),
    "network_type": Damage(
        model="detector_python",
        edits=(("boxed\n    data_type: TYPE_FP32", "boxed\n    data_type: TYPE_FP16"),),
        at="data_type: TYPE_FP16",
        says="input images is declared as FP16 [3, 640, 640], and the network's is FP32",
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
IMAGES_IN = 'input_map { key: "images" value: "images" }'
STATUS_OUTPUT = """,
  {
    name: "status"
    data_type: TYPE_INT32
    dims: [ 1 ]
  }"""
INDICES = 'output_map { key: "detection_indices" value: "detection_indices" }\n'
TO_STATUS = 'output_map { key: "status" value: "status" }'
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
    "output_key": Damage(
        model="detect",
        edits=(('output_map { key: "head"', 'output_map { key: "output0"'),),
        at='key: "output0"',
        says="step detector has no output output0",
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
    "produced_twice": Damage(
        model="detect",
        edits=(
            (TO_STATUS, TO_STATUS.replace('"status" }', '"num_detections" }')),
            (STATUS_OUTPUT, ""),
        ),
        at='key: "status" value: "num_detections"',
        says="step postprocess produces num_detections, which step postprocess produces in line",
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
    "steps_do_not_agree": Damage(
        model="detect",
        edits=(
            (IMAGES_IN, IMAGES_IN.replace('"images" }', '"geometry" }')),
            ('      output_map { key: "images" value: "images" }\n', ""),
        ),
        at='key: "images" value: "geometry"',
        says="step detector takes images as FP32 [3, 640, 640], and preprocess gives geometry FP32",
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
    "batching_ensemble": Damage(
        model="detect",
        edits=(('platform: "ensemble"', 'platform: "ensemble"\ndynamic_batching { }'),),
        at="ensemble_scheduling {",
        says=NO_CONFIG + 'Field "ensemble_scheduling" is specified along with',
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
    "broken_labels": Damage(
        model="detect",
        edits=(("circle,square", "[circle,square"),),
        at="parameters {",
        says="labels begins with [ and is no JSON list",
        severity="warning",
        loads=True,
    ),
}
DAMAGES = {**PREPROCESS, **POSTPROCESS, **DETECTOR, **DETECT, **PYTHON}
