"""Files and options that `endcap init` refuses, and parts of the error message."""

from __future__ import annotations

from onnx import TensorProto

from tests.support import family_networks as families
from tests.support import odd_networks as odd
from tests.support.broken_networks import (
    HEAD,
    Refusals,
    network,
    pipe,
    shapes,
    text,
    with_a_stride,
    with_labels,
    with_varying_rows,
    with_weights_elsewhere,
    without_external_file,
    without_input,
)

FILES: Refusals = {
    "no ONNX": (text(b"these are words"), [], ["is not an ONNX model", "do not decode"]),
    "empty": (text(b""), [], ["is not an ONNX model", "no graph"]),
    "not there": (lambda path: path, [], ["No such file"]),
    "a folder": (lambda path: path.mkdir() or path, [], ["is a folder"]),
    "a pipe": (pipe, [], ["is a pipe or a device"]),
    "no input": (without_input, [], ["has 0 inputs"]),
    "two inputs": (
        shapes(HEAD, inputs={"images": ["n", 3, 64, 64], "scale": ["n", 2]}),
        [],
        ["has 2 inputs", "scale FP32 [*, 2]"],
    ),
    "no image": (shapes(HEAD, inputs={"ids": ["n", 128]}), [], ["not a batch of images"]),
    "whole numbers": (
        shapes(HEAD, inputs={"images": ["n", 3, 64, 64]}, element=TensorProto.INT64),
        [],
        ["INT64", "FP32, FP16, UINT8, INT8"],
    ),
    "five channels": (
        shapes(HEAD, inputs={"images": ["n", 5, 64, 64]}),
        [],
        ["neither end", "fixed channels"],
    ),
    "four at once": (
        shapes(HEAD, inputs={"images": [4, 3, 64, 64]}),
        [],
        ["exactly 4 images", "dynamic batch"],
    ),
    "any size, and more": (
        network(families.end2end(size=("h", "w"))),
        [],
        ["needs 3 options", "--size 640", "--num-classes", "--preset"],
    ),
    "any size": (
        network(families.yolov8(size=("h", "w"))),
        [],
        ["any height and width", "--size 640"],
    ),
    "another size": (network(families.yolov8()), ["--size", "320"], ["--size is 320,320"]),
    "size of words": (network(families.yolov8()), ["--size", "big"], ["--size is 'big'"]),
    "weights missing": (without_external_file, [], ["weights.bin is not there", "put that file"]),
    "weights elsewhere": (with_weights_elsewhere, [], ["../weights.bin", "outside of its folder"]),
    "unknown operator": (odd.write_plugin, [], ["EfficientNMS_TRT", "--runtime tensorrt"]),
    "a size that does not fit the strides": (
        with_a_stride,
        ["--size", 63],
        ["cannot be run on an image of [3, 63, 63]", ", or a --size of multiples of 32"],
    ),
    "a varying number of rows": (with_varying_rows, [], ["as many rows of rows as it finds"]),
    "a batch that is mixed": (
        odd.write_mixing,
        [],
        ["mixes the images of a batch", "--max-batch 1"],
    ),
    "gray by statistics of colours": (
        shapes({"logits": ["n", 4]}, inputs={"x": ["n", 1, 28, 28]}),
        ["--head", "classification", "--preset", "torchvision"],
        ["gray", "--set mean="],
    ),
    "a crop that is no square": (
        network(families.classifier(size=(64, 96))),
        ["--head", "classification", "--preset", "torchvision"],
        ["crops a square", "--set fit=stretch"],
    ),
    "a size beyond all": (
        network(families.yolov8(size=("h", "w"))),
        ["--size", "2000000"],
        ["size", "2000000"],
    ),
    "int8 without a scale": (
        shapes(HEAD, inputs={"images": ["n", 3, 64, 64]}, element=TensorProto.INT8),
        ["--head", "yolov8"],
        ["INT8", "--set scale="],
    ),
}
OPTIONS: Refusals = {
    "a size for boxes in pixels": (
        network(families.yolov8()),
        ["--set", "input_size=64,64"],
        ["input_size changes nothing"],
    ),
    "the same twice": (
        network(families.yolov8()),
        ["--score-threshold", "0.5", "--set", "score_threshold=0.4"],
        ["score_threshold is given twice"],
    ),
    "the name of the README": (network(families.yolov8()), ["--name", "README.md"], ["README.md"]),
    "an unknown family": (
        network(families.yolov8()),
        ["--head", "yolo11"],
        ["did you mean 'yolov8'? Give one of"],
    ),
    "a family in --set": (network(families.yolov8()), ["--set", "head=end2end"], ["with --head"]),
    "classes in --set": (
        network(families.yolov8()),
        ["--set", "num_classes=9"],
        ["with --num-classes"],
    ),
    "an option that does nothing": (
        network(families.yolov8()),
        ["--top-k", 3],
        ["top_k changes nothing", "yolov8"],
    ),
    "a name that leads out": (network(families.yolov8()), ["--name", ".."], ["'..'"]),
    "labels that cannot be lines": (
        with_labels("cat\x07\ndog\nfish\n"),
        ["--labels", "labels.txt"],
        ["control characters, in line 1"],
    ),
    "columns of something else": (
        network(families.end2end()),
        ["--columns", "box,score"],
        ["columns is 'box,score'", "image,box,class,score"],
    ),
    "labels too few": (
        with_labels("cat\ndog\n"),
        ["--labels", "labels.txt"],
        ["has 2 lines", "3 classes"],
    ),
    "labels empty": (
        with_labels("cat\n\ndog\n"),
        ["--labels", "labels.txt"],
        ["has no name", "in line 2"],
    ),
    "classes not known": (
        network(families.end2end()),
        ["--preset", "ultralytics"],
        ["--num-classes", "--labels"],
    ),
    "classes and recipe not known": (
        network(families.end2end()),
        [],
        [
            "needs 2 options: (1) ",
            "--num-classes (80 for a network trained on COCO",
            "; (2) ",
            "--preset, for a network like this ultralytics, rtdetr, rfdetr or ssd",
        ],
    ),
    "classes of two numbers": (
        network(families.yolov8()),
        ["--num-classes", 9],
        ["--num-classes is 9", "has 3 classes"],
    ),
    "classifier without a recipe": (
        network(families.classifier()),
        ["--head", "classification"],
        [
            "--preset",
            "torchvision for any of torchvision's (inception is TensorFlow's, vgg Caffe's)",
        ],
    ),
    "detector without a recipe": (
        network(families.efficient_nms()),
        ["--num-classes", 6],
        ["--preset", "ultralytics, rtdetr, rfdetr or ssd"],
    ),
    "unknown preset": (
        network(families.yolov8()),
        ["--preset", "imagenet"],
        ["did you mean 'torchvision'?"],
    ),
    "unknown parameter": (
        network(families.yolov8()),
        ["--set", "conf=0.3"],
        ["--set conf: neither", "did you mean 'score_threshold'? They have size, "],
    ),
    "a resize of a classifier": (
        network(families.yolov8()),
        ["--set", "resize=232"],
        ["did you mean 'resize_shorter'?"],
    ),
    "a parameter that is an option": (
        network(families.yolov8()),
        ["--set", "imgsz=640"],
        ["did you mean --size?"],
    ),
    "impossible parameter": (
        network(families.yolov8()),
        ["--set", "pad_value=300"],
        ["pad_value", "0 to 255"],
    ),
    "no assignment": (network(families.yolov8()), ["--set", "upscale"], ["--set is 'upscale'"]),
    "another tensor": (
        network(families.yolov8()),
        ["--set", "layout=nhwc"],
        ["preprocess would make", "[64, 64, 3]"],
    ),
    "a name that is none": (network(families.yolov8()), ["--name", "my models"], ["'my models'"]),
}
