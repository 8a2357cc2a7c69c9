"""Damages to the model that runs the network, in Triton's Python backend."""

from __future__ import annotations

from damage import IMAGES, WARMUP, Damage, added, parameter, remove

SMALLER = "dims: [ 3, 320, 320 ]"
ZEROS = "data_type: {} dims: [ 3, 640, 640 ] zero_data: true"
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
        says="output head has the label_filename names.txt, and FOLDER/names.txt is not there",
    ),
    "no_warmup_file": Damage(
        model="detector_python",
        edits=added(
            WARMUP.format("images", 'data_type: TYPE_FP32 dims: 1 input_data_file: "one.jpg"')
        ),
        at="input_data_file",
        says="the warm-up one reads FOLDER/warmup/one.jpg",
    ),
    "warmup_type": Damage(
        model="detector_python",
        edits=added(WARMUP.format("images", ZEROS.format("TYPE_UINT8"))),
        at="model_warmup",
        says="the warm-up one sends images as UINT8, and the model takes images FP32 [3, 640, 640]",
    ),
    "warmup_name": Damage(
        model="detector_python",
        edits=added(WARMUP.format("image", ZEROS.format("TYPE_FP32"))),
        at="model_warmup",
        says="the warm-up one sends image, and the model's inputs are images",
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
    "gpu": Damage(
        model="detector_python",
        edits=added("instance_group {\n  kind: KIND_GPU\n}"),
        at="kind: KIND_GPU",
        says="the model asks for a GPU, and this machine has none",
        severity="note",
    ),
}
