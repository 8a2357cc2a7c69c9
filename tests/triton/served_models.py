"""The models of the shared server, and the same parameters for the Python package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.support import sample_heads
from tests.triton.model_folders import (
    ON_CPU,
    batching,
    tensor,
    write_ensemble,
    write_postprocess,
    write_preprocess,
)

# Small tensors: what is tested does not depend on the size.
SIZE = (96, 128)
PREPROCESS = {"preset": "ultralytics", "size": SIZE}
PREPROCESS_TEXT = {"preset": "ultralytics", "size": "96,128"}

NUM_CLASSES = 3
ANCHORS = 50
MAX_DETECTIONS = 20
POSTPROCESS = {"head": "yolov8", "num_classes": NUM_CLASSES, "max_detections": MAX_DETECTIONS}

LABELS = ["cat", "dog", "", "bird", "whale"]  # one class has no name
TREE = ["animal/dog/beagle", "animal/dog/husky", "animal/cat", "plant", "plant/tree/oak"]
TOP_K = 3
CLASSIFICATION = {"head": "classification", "num_classes": len(LABELS), "top_k": TOP_K}
# Several labels for an image.
MULTI_LABEL = {"activation": "sigmoid", "multi_label": "true", "score_threshold": 0.5}

ENCODED = tensor("encoded", "TYPE_STRING", [1])
ROIS = tensor("rois", "TYPE_FP32", [-1, 4])
SIDE_INPUTS = [tensor("geometry", "TYPE_FP32", [8]), tensor("status", "TYPE_INT32", [1])]
MASKS = {"mask_coefficients": 8, "prototype_size": "40,80", "input_size": "160,320"}


@dataclass(frozen=True)
class Head:
    """A model of a head's layout.

    Attributes:
        parameters: Of the model.
        make: Makes one image's tensors from a seed.
        outputs: The layout's own outputs, and the fields of `endcap.Detections` for them.
    """

    parameters: dict[str, Any]
    make: Any
    outputs: dict[str, str] = field(default_factory=dict)

    def tensors(self, count: int) -> dict[str, np.ndarray]:
        made = [self.make(seed) for seed in range(count)]
        made = [each if isinstance(each, dict) else {"head": each} for each in made]
        return {name: np.stack([each[name] for each in made]) for name in made[0]}


def _detections(seed: int) -> dict[str, np.ndarray]:
    """With the type of class ids that a config gets where it declares none."""
    parts = sample_heads.detections_outputs(seed)
    return {**parts, "classes": parts["classes"].astype(np.int32)}


def _seg(seed: int) -> Any:
    return sample_heads.seg_outputs(seed, anchors=70, num_classes=2, size=(40, 80))


_TWO = {"num_classes": 2, "max_detections": 40}
HEADS = {
    "seg": Head({"head": "yolov8_seg", **_TWO, **MASKS}, _seg, {"mask_size": "mask_size"}),
    "seg_input": Head(
        {"head": "yolov8_seg", **_TWO, **MASKS, "mask_resolution": "input"},
        _seg,
        {"mask_size": "mask_size", "detection_masks": "packed_masks"},
    ),
    "pose": Head(
        {"head": "yolov8_pose", **_TWO, "num_keypoints": 5},
        partial(sample_heads.pose_head, anchors=70, num_classes=2, keypoints=5),
        {"detection_keypoints": "keypoints"},
    ),
    "obb": Head(
        {"head": "yolov8_obb", **_TWO, "rotated_nms": "probiou"},
        partial(sample_heads.obb_head, anchors=70, num_classes=2),
        {"detection_angles": "angles"},
    ),
    "ssd": Head(
        {"head": "ssd", **_TWO, "iou_threshold": "0.5"},
        partial(sample_heads.ssd_outputs, anchors=90, columns=3),
    ),
    # Where the counts and the rows of boxes are inputs.
    "efficient_nms": Head(
        {"head": "efficient_nms", "num_classes": 7, "max_detections": 40},
        sample_heads.FAMILIES["efficient_nms"].make,
    ),
    "detections": Head({"head": "detections", "num_classes": 7, "max_detections": 40}, _detections),
}

# Without the ensemble and its first step.
NAMES = (
    *("pre", "pre_blank", "pre_damaged", "pre_single", "pre_bytes", "pre_bytes_single"),
    *("pre_queue", "pre_subset", "pre_uint8", "pre_reloaded", "rois", "rois_blank"),
    *("rois_few_bytes", "rois_bytes", "rois_names_only", "post", "post_single", "post_half"),
    *("post_truncating", "post_dropping", *HEADS),
    *("classes", "classes_unnamed", "classes_of_a_tree", "several_classes", "boxes_to_images"),
)


def write_all(repository: Path, variant: str, *, suffix: str = "") -> None:
    """Writes the models.

    Args:
        repository: Where to.
        variant: One of model_folders.VARIANTS, which all of the models take.
        suffix: Of their names.
    """

    def write(stage: Any, name: str, parameters: Mapping[str, object], **options: Any) -> None:
        stage(repository, name + suffix, variant=variant, parameters=parameters, **options)

    def preprocess(name: str, **options: Any) -> None:
        given = {**PREPROCESS_TEXT, **options.pop("parameters", {})}
        write(write_preprocess, name, given, **options)

    def postprocess(name: str, parameters: Mapping[str, object], **options: Any) -> None:
        write(write_postprocess, name, parameters, **{"max_batch_size": 8, **options})

    _write_preprocess_models(preprocess)
    postprocess("post", POSTPROCESS, more=batching(1000))
    postprocess("post_single", POSTPROCESS, max_batch_size=0)
    postprocess(
        "post_half",
        POSTPROCESS,
        inputs=[tensor("head", "TYPE_FP16", [4 + NUM_CLASSES, ANCHORS]), *SIDE_INPUTS],
    )
    postprocess("post_truncating", {**POSTPROCESS, "max_candidates": 10})
    postprocess("post_dropping", {**POSTPROCESS, "on_nan": "drop"})
    for name, head in HEADS.items():
        postprocess(name, head.parameters, more=batching(1000))
    _write_classifiers(postprocess)
    if variant == "compiled":  # models of the Python backend take no regions
        _write_models_with_regions(preprocess)
        _write_ensembles(repository, variant)


def _write_preprocess_models(write: Any) -> None:
    write("pre", max_batch_size=32, more=batching(100_000))
    write("pre_blank", max_batch_size=8, parameters={"on_error": "blank"})
    write("pre_damaged", max_batch_size=8, parameters={"damaged": "accept"})
    write("pre_single")
    write("pre_bytes", max_batch_size=4, inputs=[tensor("encoded", "TYPE_UINT8", [-1])])
    write("pre_bytes_single", inputs=[tensor("encoded", "TYPE_UINT8", [-1])])
    # Without dynamic batching requests wait for the one thread, behind the one that it works on.
    one = "instance_group { count: 1 kind: KIND_CPU }"
    write("pre_queue", max_batch_size=16, parameters={"threads": 1}, more=one)
    gray = {"dtype": "uint8", "layout": "nhwc", "color": "gray"}
    geometry = [tensor("geometry", "TYPE_FP32", [8])]
    write("pre_subset", max_batch_size=8, outputs=geometry, parameters=gray)
    write("pre_uint8", max_batch_size=8, parameters=gray)
    write("pre_reloaded", max_batch_size=8)


def _write_models_with_regions(write: Any) -> None:
    write("rois", inputs=[ENCODED, ROIS], more=ON_CPU)
    blank = {"on_error": "blank"}
    write("rois_blank", inputs=[ENCODED, ROIS], parameters=blank, more=ON_CPU)
    few = {"max_roi_bytes": "1000"}
    write("rois_few_bytes", inputs=[ENCODED, ROIS], parameters=few, more=ON_CPU)
    plain = [tensor("encoded", "TYPE_UINT8", [-1]), ROIS]
    write("rois_bytes", inputs=plain, parameters={"size": "32,32"}, more=ON_CPU)
    names = ['{ name: "rois" }', '{ name: "encoded" }']
    write("rois_names_only", inputs=names, parameters={"dtype": "uint8"}, more=ON_CPU)


def _write_classifiers(write: Any) -> None:
    labels = {"labels.txt": "\n".join(LABELS) + "\n"}
    tree = {"tree.txt": "\n".join(TREE) + "\n"}
    separated = {"labels_file": "tree.txt", "labels_separator": "/"}
    write("classes", {**CLASSIFICATION, "labels_file": "labels.txt"}, files=labels)
    write("classes_unnamed", CLASSIFICATION)
    write("classes_of_a_tree", {**CLASSIFICATION, **separated}, files=tree)
    write("several_classes", {**CLASSIFICATION, **MULTI_LABEL, **separated}, files=tree)


def _write_ensembles(repository: Path, variant: str) -> None:
    """Of a detector's boxes and their regions: rows that do not count are zeros."""
    boxes = {"head": "end2end", "max_detections": MAX_DETECTIONS}
    write_postprocess(repository, "boxes", variant=variant, parameters=boxes)
    images = tensor("images", "TYPE_FP32", [-1, 3, *SIZE])
    outputs = {"images": "images", "status": "status"}
    write_ensemble(
        repository,
        "boxes_to_images",
        inputs=[ENCODED, tensor("head", "TYPE_FP32", [-1, 6])],
        outputs=[images, tensor("status", "TYPE_INT32", [-1])],
        steps=[
            ("boxes", {"head": "head"}, {"detection_boxes": "found"}),
            ("rois_blank", {"encoded": "encoded", "rois": "found"}, outputs),
        ],
    )
