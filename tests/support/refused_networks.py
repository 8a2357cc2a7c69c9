"""Files, networks and options that `endcap init` refuses, and parts of the error message."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from tests.support import family_networks as families
from tests.support import odd_networks as odd
from tests.support.family_networks import Network, Output
from tests.support.init_runs import write_shapes
from tests.support.onnx_heads import network

HEAD = {"output0": ["batch", 7, 84]}
Maker = Callable[[Path], Path]


def text(content: bytes) -> Maker:
    def make(path: Path) -> Path:
        path.write_bytes(content)
        return path

    return make


def pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


def shapes(outputs: dict[str, list[Any]], **options: Any) -> Maker:
    return lambda path: write_shapes(path, outputs, **options)


def image(*shape: Any, **options: Any) -> Maker:
    return shapes(HEAD, inputs={"images": [*shape]}, **options)


def outputs(**arrays: Any) -> Maker:
    return Network({name: Output(np.asarray(array)) for name, array in arrays.items()}).write


def with_weights(location: str) -> Maker:
    def make(path: Path) -> Path:
        model = onnx.load(str(families.yolov8().write(path)))
        weights = model.graph.initializer[0]
        weights.ClearField("raw_data")
        weights.data_location = TensorProto.EXTERNAL
        weights.external_data.add(key="location", value=location)
        path.write_bytes(model.SerializeToString())
        return path

    return make


def graph(signature: str, nodes: str, **constants: Any) -> Maker:
    def make(path: Path) -> Path:
        onnx.save(network(signature, nodes, **constants), str(path))
        return path

    return make


without_input = graph("() => (float[1] zero)", "zero = Constant<value_floats=[0.0]>()")
# The places of the pixels over a half: NonZero's shape depends on the image.
with_varying_rows = graph(
    "(float[1,3,8,8] images) => (float[1,rows,4] rows)",
    "bright = Greater(images, half) places = NonZero(bright)"
    "transposed = Transpose<perm=[1, 0]>(places) batched = Unsqueeze(transposed, first)"
    "rows = Cast<to=1>(batched)",
    half=np.float32(0.5),
    first=np.array([0]),
)
# Takes any size, and enlarges what was halved: an odd side does not fit its own half.
with_a_stride = graph(
    "(float[1,3,h,w] images) => (float[1,3,h,w] output0)",
    "half = MaxPool<kernel_shape=[2, 2], strides=[2, 2]>(images)"
    'whole = Resize<mode="nearest">(half, , double) output0 = Add(images, whole)',
    double=np.float32([1, 1, 2, 2]),
)


def with_labels(lines: str) -> Maker:
    def make(path: Path) -> Path:
        (path.parent / "labels.txt").write_text(lines)
        return families.yolov8().write(path)

    return make


def end2end_rows(columns: int) -> Maker:
    """Rows [30, columns] of suppression inside, with more behind the class."""
    (output,) = families.end2end().outputs.values()
    more = np.linspace(-1, 60, 30 * (columns - 6), dtype=np.float32).reshape(30, -1)
    return outputs(output0=np.hstack([output.base, more]))


V8 = families.yolov8().write
CLASSES = "--head classification --preset torchvision"
FLAT = Network({"output": Output(np.zeros((0, 7)), batch=False)}, batch=1)
MASKS_OF_V5 = families.yolov5(classes=36).outputs | {"output1": families.seg().outputs["output1"]}
POSE_TASK = {"author": "Ultralytics", "stride": "32", "task": "pose"}
INT64, INT8 = TensorProto.INT64, TensorProto.INT8
# What makes the network, what is said to the command, and what its message holds.
REFUSED: dict[str, tuple[Maker, str, str]] = {
    # Files and inputs.
    "no ONNX": (text(b"these are words"), "", "is not an ONNX model|do not decode|tf2onnx"),
    "empty": (text(b""), "", "is not an ONNX model|no graph"),
    "not there": (lambda path: path, "", "No such file"),
    "a folder": (lambda path: path.mkdir() or path, "", "is not a regular file"),
    "a pipe": (pipe, "", "is not a regular file"),
    "weights missing": (with_weights("weights.bin"), "", "weights.bin is not there|put that file"),
    "weights elsewhere": (with_weights("../x"), "", "hidden or outside of its folder"),
    "no input": (without_input, "", "has 0 inputs"),
    "two inputs": (
        shapes(HEAD, inputs={"images": ["n", 3, 64, 64], "scale": ["n", 2]}),
        "",
        "has 2 inputs|scale FP32 [*, 2]",
    ),
    "no image": (shapes(HEAD, inputs={"ids": ["n", 128]}), "", "not a batch of images"),
    "whole numbers": (image("n", 3, 64, 64, element=INT64), "", "INT64|FP32, FP16, UINT8, INT8"),
    "five channels": (image("n", 5, 64, 64), "", "neither end|fixed channels"),
    "four at once": (image(4, 3, 64, 64), "", "exactly 4 images|dynamic batch"),
    "int8 without a scale": (image("n", 3, 64, 64, element=INT8), "--head yolov8", "--set scale="),
    "any size": (families.yolov8(size=("h", "w")).write, "", "any height and width|--size 640"),
    "any size, and more": (
        families.end2end(size=("h", "w")).write,
        "",
        "needs 3 options|--size 640|--num-classes|--preset",
    ),
    "a size beyond all": (families.yolov8(size=("h", "w")).write, "--size 2000000", "2000000"),
    "an odd size": (
        with_a_stride,
        "--size 63",
        "cannot be run on|, or a --size of multiples of 32",
    ),
    # What the trial run shows.
    "unknown operator": (odd.write_plugin, "", "EfficientNMS_TRT|--runtime tensorrt"),
    "a varying number of rows": (with_varying_rows, "", "as many rows of rows as it finds"),
    "a batch that is mixed": (odd.write_mixing, "", "mixes the images of a batch|--max-batch 1"),
    "NaN for noise": (
        outputs(output0=np.full((7, 84), np.nan, np.float32)),
        "",
        "gives NaN for noise (588 of the 588 numbers of output0)|half precision",
    ),
    # Heads.
    "undecoded grids": (
        shapes({"p3": ["n", 255, 8, 8], "p4": ["n", 255, 4, 4], "p5": ["n", 255, 2, 2]}),
        "",
        "form of no head that is known|boxes decoded",
    ),
    "features of patches": (shapes({"patches": ["n", 197, 768]}), "", "form of no head"),
    "boxes not decoded": (shapes(HEAD), "", "do not cover the image|--head yolov8"),
    "sizes as logarithms": (
        odd.undecoded(odd.transposed(families.yolov8(classes=4))).write,
        "--head yolov5",
        "do not have the form of yolov5",
    ),
    "transposed or with objectness": (
        odd.transposed(families.yolov8(classes=4)).write,
        "",
        "may be yolov5|--head yolov5",
    ),
    "corners or centres": (
        odd.with_corners(families.yolov8()).write,
        "--head yolov8",
        "--set box_format=xyxy or cxcywh",
    ),
    "TensorFlow's detector": (odd.tensorflow_detector().write, "", "TensorFlow|y before x"),
    "order of columns": (FLAT.write, "", "--columns|class,score (YOLOv7)|--num-classes|--preset"),
    "masks of yolov5": (Network(MASKS_OF_V5).write, "", "yolov5|but output1 would not be read"),
    "masks without prototypes": (
        shapes({"output0": ["n", 116, 84]}, metadata={"task": "segment"}),
        "",
        "yolov8_seg|one output [M, height, width]",
    ),
    "keypoints": (families.pose().write, "", "may be yolov8|yolov8_pose --set num_keypoints=17"),
    "keypoints of a task": (families.pose(metadata=POSE_TASK).write, "", "num_keypoints=17"),
    "keypoints of rows": (end2end_rows(57), "", "end2end_pose|6 + 51|--set num_keypoints=17"),
    "keypoints of no number": (
        families.pose().write,
        "--set num_keypoints=many",
        "num_keypoints is 'many'",
    ),
    "queries of unknown classes": (
        families.detr().write,
        "",
        "logits|--num-classes 4|DETR|or 5|--preset|rfdetr for RF-DETR, or torchvision",
    ),
    "RF-DETR of unknown classes": (
        families.rfdetr().write,
        "",
        "one of the 5 scores of labels|--num-classes 4|fine-tuned|or 5",
    ),
    "queries of other classes": (families.detr().write, "--num-classes 9", "the classes are 9"),
    "DETR without a recipe": (
        families.detr().write,
        "--num-classes 4",
        "--preset (likely: torchvision with --set fit=stretch",
    ),
    "offsets from unknown anchors": (
        families.ssd(anchors=False).write,
        "--num-classes 3 --preset ssd",
        "offsets from anchors|--set anchors=grid|8:16x16,32x32;16:64x64",
    ),
    "a score for no object somewhere": (
        shapes({"b": ["n", 8400, 4], "s": ["n", 8400, 81]}),
        "--num-classes 80 --preset ssd",
        "which of the 81 scores|--set background=first or last",
    ),
    "joined, and said not to be": (families.joined().write, "--set joined=false", "lacks 'logits'"),
    # Classifiers.
    "a description of the image": (
        families.classifier().write,
        "",
        "needs 2 options: (1) |or a description|--head classification|; (2) |--preset|torchvision",
    ),
    "two rows of numbers": (
        shapes({"features": ["n", 512], "logits": ["n", 10]}),
        "",
        "features [512]|logits [10]|--head classification, and which output by --num-classes",
    ),
    "no activation": (outputs(p=np.full(5, 0.4, np.float32)), CLASSES, "--set activation=none"),
    "gray by statistics of colours": (
        shapes({"logits": ["n", 4]}, inputs={"x": ["n", 1, 28, 28]}),
        CLASSES,
        "gray|--set mean=",
    ),
    "a crop that is no square": (
        families.classifier(size=(64, 96)).write,
        CLASSES,
        "crops a square|--set fit=stretch",
    ),
    "a map in a Python model": (
        families.semantic().write,
        "--head semantic --preset ultralytics --postprocess python",
        "a Python model cannot run head semantic|use the backend endcap_postprocess",
    ),
    "maps of other classes": (
        families.semantic().write,
        "--num-classes 19 --preset ultralytics",
        "and not of 19 classes|--head semantic",
    ),
    "what the output decides": (V8, "--set class_map=true", "the network's output decides it"),
    # Options.
    "another size": (V8, "--size 320", "--size is 320,320"),
    "size of words": (V8, "--size big", "--size is 'big'"),
    "given twice": (V8, "--set score_threshold=0.5 --set score_threshold=0.4", "is given twice"),
    "an unknown family": (V8, "--head yolo11", "did you mean 'yolov8'? Give one of"),
    "a family in --set": (V8, "--set head=end2end", "with --head"),
    "an option that does nothing": (V8, "--set top_k=3", "top_k changes nothing|yolov8"),
    "a name that leads out": (V8, "--name ..", "'..'"),
    "columns": (V8, "--columns box,score", "columns is 'box,score'|image,box,class,score"),
    "control characters": (with_labels("a\x07\nb\nc\n"), "--labels labels.txt", "in line 1"),
    "labels too few": (with_labels("a\nb\n"), "--labels labels.txt", "has 2 lines|3 classes"),
    "two numbers of classes": (V8, "--num-classes 9", "--num-classes is 9|has 3 classes"),
    "classes and recipe": (
        families.end2end().write,
        "",
        "(1) |--num-classes (80 for a network trained on COCO|; (2) |--preset (likely: ",
    ),
    "unknown preset": (V8, "--preset imagenet", "did you mean 'torchvision'?"),
    "unknown parameter": (V8, "--set conf=0.3", "did you mean 'score_threshold'? They have size, "),
    "a parameter that is an option": (V8, "--set imgsz=640", "did you mean --size?"),
    "another resize": (V8, "--set resize=232", "did you mean 'resize_shorter'?"),
    "impossible parameter": (V8, "--set pad_value=300", "pad_value|0 to 255"),
    "no assignment": (V8, "--set upscale", "--set is 'upscale'"),
    "another tensor": (V8, "--set layout=nhwc", "preprocess would make|[64, 64, 3]"),
}
