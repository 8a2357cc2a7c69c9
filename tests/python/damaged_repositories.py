"""Copies of the shipped repository, each with one thing wrong, and what has to be said of it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from doc_pages import ROOT

SHIPPED = ROOT / "model_repository"


@dataclass(frozen=True, kw_only=True)
class Damage:
    """One model of the copy is edited, or changed by a function of its folder.

    edits: texts of its config.pbtxt, each there once, and what they become.
    at: what stands in the line of the finding; None where it has no line.
    says: how the problem begins; FOLDER stands for the model's folder.
    loads: whether a server loads the model all the same.
    hangs: whether a server's start never ends with it.
    """

    model: str
    says: str
    at: str | None = None
    edits: tuple[tuple[str, str], ...] = ()
    change: Callable[[Path], object] = lambda folder: None
    severity: str = "error"
    loads: bool = False
    hangs: bool = False

    def apply(self, folder: Path) -> None:
        config = folder / "config.pbtxt"
        text = config.read_text(encoding="utf-8")
        for old, new in self.edits:
            assert text.count(old) == 1, f"{old!r} is {text.count(old)} times in {self.model}"
            text = text.replace(old, new)
        config.write_text(text, encoding="utf-8")
        self.change(folder)


def copy_model(model: str, repository: Path, *, name: str | None = None) -> Path:
    """Copies one model of the shipped repository, under another name if one is given."""
    folder = repository / (name or model)
    ignored = shutil.ignore_patterns("samples")
    shutil.copytree(SHIPPED / model, folder, ignore=ignored)
    config = folder / "config.pbtxt"
    text = re.sub(r"^name: .*$", f'name: "{folder.name}"', config.read_text(), flags=re.MULTILINE)
    config.write_text(text)
    return folder


def parameter(name: str, value: object) -> str:
    return f'parameters {{ key: "{name}" value {{ string_value: "{value}" }} }}'


def added(line: str) -> tuple[tuple[str, str], ...]:
    """The edit that adds a line behind that of max_batch_size."""
    return (("max_batch_size: 16", f"max_batch_size: 16\n{line}"),)


def remove(*path: str) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        target = folder.joinpath(*path)
        shutil.rmtree(target) if target.is_dir() else target.unlink()

    return change


NO_CONFIG = "this is no model configuration that Triton knows: "
IMAGES = "dims: [ 3, 640, 640 ]"
SMALLER = "dims: [ 3, 320, 320 ]"
GEOMETRY = 'name: "geometry" # from preprocess\n    data_type: TYPE_FP32\n    dims: [ 8 ]'
WARMUP = 'model_warmup {{ name: "one" batch_size: 1 inputs {{ key: "{}" value {{ {} }} }} }}'
ZEROS = "data_type: {} dims: [ 3, 640, 640 ] zero_data: true"

PREPROCESS = {
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
        says="the model tells no backend",
    ),
    "no_version": Damage(
        model="preprocess", change=remove("1"), says="the model has no version folder"
    ),
    "unknown_parameter": Damage(
        model="preprocess",
        edits=added(parameter("sise", 640)),
        at='"sise"',
        says="'sise' is not a preprocess parameter",
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
    "other_size": Damage(
        model="preprocess",
        edits=added(parameter("size", 320)),
        at=IMAGES,
        says="output images is declared as FP32 [3, 640, 640], and this model's is FP32 [3, 320, ",
    ),
    "other_type": Damage(
        model="preprocess",
        edits=added(parameter("dtype", "uint8")),
        at="data_type: TYPE_FP32",
        says="output images is declared as FP32 [3, 640, 640], and this model's is UINT8 ",
    ),
    "encoded_of_floats": Damage(
        model="preprocess",
        edits=(("data_type: TYPE_STRING", "data_type: TYPE_FP32"),),
        at="data_type: TYPE_FP32 # one element",
        says="input encoded is declared as FP32 [1], and this model's is STRING [1] or UINT8 [*]",
    ),
    "misnamed_output": Damage(
        model="preprocess",
        edits=(('name: "geometry"', 'name: "geometri"'),),
        at='name: "geometri"',
        says="output geometri is none of endcap_preprocess",
    ),
    "preferred_batch": Damage(
        model="preprocess",
        edits=(("dynamic_batching {", "dynamic_batching {\n  preferred_batch_size: [ 8, 32 ]"),),
        at="preferred_batch_size",
        says="preferred_batch_size is [8, 32], and max_batch_size 16",
    ),
    "parameter_twice": Damage(
        model="preprocess",
        edits=added(parameter("preset", "vgg")),
        at="parameters {",
        says="parameter preset is given a second time",
        severity="warning",
        loads=True,
    ),
}
POSTPROCESS = {
    "no_head": Damage(
        model="postprocess",
        edits=(('key: "head"', 'key: "threads"'), ('string_value: "yolov8"', 'string_value: "1"')),
        at='backend: "endcap_postprocess"',
        says="parameter head is missing",
    ),
    "classes_do_not_fit": Damage(
        model="postprocess",
        edits=(('string_value: "6"', 'string_value: "80"'),),
        at="dims: [ 10, 8400 ]",
        says="input head is declared as FP32 [10, 8400], and this model's is FP32 [84, *] or FP16",
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
        says="input geometry is declared as FP32 [4], and this model's is FP32 [8]",
    ),
    "misnamed_input": Damage(
        model="postprocess",
        edits=(('name: "head"', 'name: "heads"'),),
        at='name: "heads"',
        says="input heads is none of endcap_postprocess",
    ),
    "fewer_rows": Damage(
        model="postprocess",
        edits=(("dims: [ 300, 4 ]", "dims: [ 100, 4 ]"),),
        at="dims: [ 100, 4 ]",
        says="output detection_boxes is declared as FP32 [100, 4], and this model's is FP32 [300",
    ),
    "labels_of_boxes": Damage(
        model="postprocess",
        edits=added(parameter("labels_file", "labels.txt")),
        at='"labels_file"',
        says="labels_file is given with head=yolov8",
    ),
    "negative_batch": Damage(
        model="postprocess",
        edits=(("max_batch_size: 16", "max_batch_size: -16"),),
        at="max_batch_size: -16",
        says="max_batch_size is -16",
    ),
}
DETECTOR = {
    "no_model_file": Damage(
        model="detector",
        change=remove("1", "model.py"),
        at='backend: "python"',
        says="the model needs FOLDER/1/model.py",
        hangs=True,
    ),
    "other_model_file": Damage(
        model="detector",
        edits=added('default_model_filename: "net.py"'),
        at="default_model_filename",
        says="the model needs FOLDER/1/net.py",
        hangs=True,
    ),
    "absent_version": Damage(
        model="detector",
        edits=added("version_policy { specific { versions: [ 1, 3 ] } }"),
        at="version_policy",
        says="version_policy asks for version 3",
        loads=True,
    ),
    "label_filename": Damage(
        model="detector",
        edits=(("dims: [ 10, 8400 ]", 'dims: [ 10, 8400 ] label_filename: "names.txt"'),),
        at="label_filename",
        says="output head has the label_filename names.txt, and FOLDER/names.txt is not there",
    ),
    "no_warmup_file": Damage(
        model="detector",
        edits=added(
            WARMUP.format("images", 'data_type: TYPE_FP32 dims: 1 input_data_file: "one.jpg"')
        ),
        at="input_data_file",
        says="the warm-up one reads FOLDER/warmup/one.jpg",
    ),
    "warmup_type": Damage(
        model="detector",
        edits=added(WARMUP.format("images", ZEROS.format("TYPE_UINT8"))),
        at="model_warmup",
        says="the warm-up one sends images as UINT8, and the model takes images FP32 [3, 640, 640]",
    ),
    "warmup_name": Damage(
        model="detector",
        edits=added(WARMUP.format("image", ZEROS.format("TYPE_FP32"))),
        at="model_warmup",
        says="the warm-up one sends image, and the model's inputs are images",
    ),
    "no_environment": Damage(
        model="detector",
        edits=added(parameter("EXECUTION_ENV_PATH", "$$TRITON_MODEL_DIRECTORY/env.tar.gz")),
        at="EXECUTION_ENV_PATH",
        says="EXECUTION_ENV_PATH is FOLDER/env.tar.gz, which is not there",
    ),
    "no_dims": Damage(
        model="detector",
        edits=(("dims: [ 10, 8400 ]", ""),),
        at="{",
        says="output head has no dims",
    ),
    "zero_dim": Damage(
        model="detector",
        edits=(("dims: [ 10, 8400 ]", "dims: [ 10, 0 ]"),),
        at="dims: [ 10, 0 ]",
        says="output head has dims [10, 0]",
    ),
    "network_dims": Damage(
        model="detector",
        edits=((IMAGES, SMALLER),),
        at=SMALLER,
        says="input images is declared as FP32 [3, 320, 320], and the network's is FP32 [3, 640, ",
        loads=True,
    ),
    "network_type": Damage(
        model="detector",
        edits=(("class\n    data_type: TYPE_FP32", "class\n    data_type: TYPE_FP16"),),
        at="data_type: TYPE_FP16",
        says="output head is declared as FP16 [10, 8400], and the network's is FP32 [10, 8400]",
        loads=True,
    ),
    "network_name": Damage(
        model="detector",
        edits=(('name: "head"', 'name: "output0"'),),
        at='name: "output0"',
        says="the network has no output output0; its outputs are head FP32 [10, 8400]",
        severity="warning",
        loads=True,
    ),
    "gpu": Damage(
        model="detector",
        edits=added("instance_group {\n  kind: KIND_GPU\n}"),
        at="kind: KIND_GPU",
        says="the model asks for a GPU, and this machine has none",
        severity="note",
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
DAMAGES = {**PREPROCESS, **POSTPROCESS, **DETECTOR, **DETECT}
