"""Refusals of endcap init: files that are no networks, their inputs, their batches."""

from __future__ import annotations

import family_networks as families
import odd_networks as odd
from broken_networks import (
    HEAD,
    Refusals,
    network,
    pipe,
    shapes,
    text,
    with_a_batch_that_is_none,
    with_varying_rows,
    with_weights_elsewhere,
    without_external_file,
    without_input,
)
from onnx import TensorProto

FILES: Refusals = {
    "no ONNX": (text(b"these are words"), [], ["is no ONNX model", "do not decode"]),
    "empty": (text(b""), [], ["is no ONNX model", "no graph"]),
    "not there": (lambda path: path, [], ["No such file"]),
    "a folder": (lambda path: path.mkdir() or path, [], ["is a folder"]),
    "a pipe": (pipe, [], ["is a pipe or a device"]),
    "no input": (without_input, [], ["has 0 inputs"]),
    "two inputs": (
        shapes(HEAD, inputs={"images": ["n", 3, 64, 64], "scale": ["n", 2]}),
        [],
        ["has 2 inputs", "scale FP32 [*, 2]"],
    ),
    "no image": (shapes(HEAD, inputs={"ids": ["n", 128]}), [], ["no batch of images"]),
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
    "a batch that is none": (
        with_a_batch_that_is_none,
        [],
        ["claims to take any number of images", "--max-batch 1"],
    ),
    "as many rows as are found": (with_varying_rows, [], ["as many rows of rows as it finds"]),
    "an engine is no way out of that": (
        with_a_batch_that_is_none,
        ["--runtime", "tensorrt"],
        ["claims to take any number of images"],
    ),
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
    "width by height": (
        network(families.yolov8(size=("h", "w"))),
        ["--size", "64x64"],
        ["height,width"],
    ),
    "a size beyond all": (
        network(families.yolov8(size=("h", "w"))),
        ["--size", "2000000"],
        ["size", "2000000"],
    ),
    "half of nothing": (text(b"words"), ["--fp16"], ["is no ONNX model"]),
    "int8 without a scale": (
        shapes(HEAD, inputs={"images": ["n", 3, 64, 64]}, element=TensorProto.INT8),
        ["--head", "yolov8"],
        ["INT8", "--set scale="],
    ),
}
