"""Damages to the Python models that run endcap's stages."""

from __future__ import annotations

from damage import Damage, added, parameter

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
        says="input rois is none of ",
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
        says="output images is declared as FP32 [3, 320, 320], and this model's is FP32 [3, 640",
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
        says="input head is declared as FP32 [10, 8400], and this model's is FP32 [11, *]",
    ),
    "python_rows": Damage(
        model="postprocess_python",
        edits=(("dims: [ 300, 4 ]", "dims: [ 100, 4 ]"),),
        at="dims: [ 100, 4 ]",
        says="output detection_boxes is declared as FP32 [100, 4], and this model's is FP32 [300",
    ),
}
