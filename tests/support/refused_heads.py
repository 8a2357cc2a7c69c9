"""Refusals of endcap init: outputs that no head reads, or that may be several."""

from __future__ import annotations

import family_networks as families
import numpy as np
import odd_networks as odd
from broken_networks import Refusals, network, shapes

HEADS: Refusals = {
    "undecoded grids": (
        shapes({"p3": ["n", 255, 8, 8], "p4": ["n", 255, 4, 4], "p5": ["n", 255, 2, 2]}),
        [],
        ["form of no head that is known", "boxes decoded"],
    ),
    "no usual grids": (
        shapes({"output0": ["n", 7, 1000]}),
        [],
        ["look like no head", "no usual grids", "or give --head"],
    ),
    "transposed or with objectness": (
        network(odd.transposed(families.yolov8(classes=4))),
        [],
        ["may be yolov5", "--head yolov5"],
    ),
    "boxes not decoded": (
        shapes({"output0": ["n", 7, 84]}),
        [],
        ["do not cover the image", "--head yolov8"],
    ),
    "another head than said": (
        network(families.yolov8()),
        ["--head", "end2end"],
        ["do not have the form of end2end", "they fit yolov8"],
    ),
    "a description of the image": (
        network(families.classifier()),
        ["--preset", "torchvision"],
        ["may be classification", "or a description of the image", "--head classification"],
    ),
    "two rows of numbers": (
        shapes({"features": ["n", 512], "logits": ["n", 10]}),
        [],
        [
            "features [512]",
            "logits [10]",
            "--head classification, and which output by --num-classes",
        ],
    ),
    "a classifier that does not say how": (
        network(families.Network({"p": families.Output(np.full(5, 0.4, np.float32))})),
        ["--head", "classification", "--preset", "torchvision"],
        ["--set activation=none, sigmoid or softmax"],
    ),
    "numbers of classes, whole": (
        network(families.Network({"p": families.Output(np.arange(5.0), dtype="int64")})),
        ["--head", "classification", "--preset", "torchvision"],
        ["do not have the form of classification"],
    ),
    "a detector's rows without a batch": (
        network(odd.without_batch(families.end2end(batch=1))),
        ["--runtime", "onnxruntime", "--num-classes", 5, "--preset", "ultralytics"],
        ["without a batch dimension", "--runtime python"],
    ),
    "TensorFlow's detector": (
        network(odd.tensorflow_detector()),
        [],
        ["tensorflow_detection", "y before x"],
    ),
    "anchors of a cell and objectness": (
        network(odd.transposed(families.yolov8(classes=4))),
        ["--head", "yolov5"],
        ["--preset"],
    ),
    "corners or centres": (
        network(odd.with_corners(families.yolov8())),
        [],
        ["may be corners as well as centres", "--head yolov8"],
    ),
    "corners or centres, of a head that is said": (
        network(odd.with_corners(families.yolov8())),
        ["--head", "yolov8"],
        ["--set box_format=xyxy or cxcywh"],
    ),
    "sizes as logarithms": (
        network(odd.undecoded(odd.transposed(families.yolov8(classes=4)))),
        ["--head", "yolov5"],
        ["do not have the form of yolov5"],
    ),
    "the other way round": (
        network(odd.named(odd.transposed(families.yolov8(classes=4)), 4)),
        [],
        ["yolov8_transposed", "the other way round"],
    ),
    "features of patches": (shapes({"patches": ["n", 197, 768]}), [], ["look like no head"]),
    "an output declared for one image": (
        network(odd.declared_for_one(families.yolov8())),
        ["--runtime", "onnxruntime"],
        ["declares its output output0 for one"],
    ),
    "ids of another type": (
        network(families.efficient_nms(ids="int64")),
        ["--num-classes", 6, "--preset", "ultralytics", "--runtime", "onnxruntime"],
        ["INT64", "--runtime python"],
    ),
}
