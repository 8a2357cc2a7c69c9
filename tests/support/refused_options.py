"""Refusals of endcap init: what the user says, and what the user has to say."""

from __future__ import annotations

import family_networks as families
from broken_networks import Refusals, network, with_labels, with_labels_in_a_pipe

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
    "an unknown family": (network(families.yolov8()), ["--head", "yolov9"], ["is no family"]),
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
    "a name of the folder itself": (network(families.yolov8()), ["--name", "."], ["'.'"]),
    "labels that cannot be lines": (
        with_labels("cat\x07\ndog\nfish\n"),
        ["--labels", "labels.txt"],
        ["control characters in line 1"],
    ),
    "labels too few": (
        with_labels("cat\ndog\n"),
        ["--labels", "labels.txt"],
        ["has 2 lines", "3 classes"],
    ),
    "labels empty": (
        with_labels("cat\n\ndog\n"),
        ["--labels", "labels.txt"],
        ["has an empty line"],
    ),
    "labels in a pipe": (
        with_labels_in_a_pipe,
        ["--labels", "labels.txt"],
        ["labels.txt is a pipe or a device"],
    ),
    "labels not there": (
        network(families.yolov8()),
        ["--labels", "nosuch.txt"],
        ["nosuch.txt cannot be read"],
    ),
    "classes not known": (
        network(families.end2end()),
        ["--preset", "ultralytics"],
        ["--num-classes", "--labels"],
    ),
    "classes of two numbers": (
        network(families.yolov8()),
        ["--num-classes", 9],
        ["--num-classes is 9", "has 3 classes"],
    ),
    "classifier without a recipe": (
        network(families.classifier()),
        ["--head", "classification"],
        ["--preset", "torchvision, inception or vgg"],
    ),
    "detector without a recipe": (
        network(families.efficient_nms()),
        ["--num-classes", 6],
        ["--preset", "ultralytics, rtdetr or ssd"],
    ),
    "unknown preset": (network(families.yolov8()), ["--preset", "yolo"], ["yolo", "ultralytics"]),
    "unknown parameter": (
        network(families.yolov8()),
        ["--set", "threshold=1"],
        ["--set threshold", "score_threshold"],
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
    "a release that is none": (
        network(families.yolov8()),
        ["--triton-version", "latest"],
        ["'latest'", "25.11"],
    ),
    "a name that is none": (network(families.yolov8()), ["--name", "my models"], ["'my models'"]),
}
