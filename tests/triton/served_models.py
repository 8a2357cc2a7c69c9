"""The models of the shared server, and the same parameters for the Python package."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tests.triton.class_models import write_class_models
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
CLASSIFICATION = {"head": "classification", "num_classes": len(LABELS), "top_k": 3}

ENCODED = tensor("encoded", "TYPE_STRING", [1])
ROIS = tensor("rois", "TYPE_FP32", [-1, 4])
SIDE_INPUTS = [tensor("geometry", "TYPE_FP32", [8]), tensor("status", "TYPE_INT32", [1])]


def write_all(repository: Path, variant: str) -> None:
    """`variant`: one of model_folders.VARIANTS, which all of the models take."""
    write_class_models(repository, variant)
    _write_preprocess_models(repository, variant)
    _write_postprocess_models(repository, variant)
    _write_rois_models(repository, variant)


def _write_preprocess_models(repository: Path, variant: str) -> None:
    def write(name: str, *, parameters: dict[str, object] | None = None, **options: object) -> None:
        given = {**PREPROCESS_TEXT, **(parameters or {})}
        write_preprocess(repository, name, variant=variant, parameters=given, **options)

    write("pre", max_batch_size=32, more=batching(100_000))
    write("pre_blank", max_batch_size=8, parameters={"on_error": "blank"})
    write("pre_damaged", max_batch_size=8, parameters={"damaged": "accept"})
    write("pre_single")
    write(
        "pre_open_dims",
        max_batch_size=8,
        outputs=[
            tensor("images", "TYPE_FP32", [3, -1, -1]),
            tensor("geometry", "TYPE_FP32", [-1]),
        ],
    )
    write("pre_bytes", max_batch_size=4, inputs=[tensor("encoded", "TYPE_UINT8", [-1])])
    write("pre_bytes_single", inputs=[tensor("encoded", "TYPE_UINT8", [-1])])
    # Without dynamic batching requests wait for the one thread, behind the one that it works on.
    write(
        "pre_queue",
        max_batch_size=16,
        parameters={"threads": 1},
        more="instance_group { count: 1 kind: KIND_CPU }",
    )
    write(
        "pre_subset",
        max_batch_size=8,
        outputs=[tensor("geometry", "TYPE_FP32", [8])],
        parameters={"dtype": "uint8", "layout": "nhwc", "color": "gray"},
    )
    write(
        "pre_uint8",
        max_batch_size=8,
        parameters={"dtype": "uint8", "layout": "nhwc", "color": "gray"},
    )
    if variant == "compiled":
        write("pre_reloaded", max_batch_size=8)
    write_preprocess(repository, "pre_defaults", variant=variant, max_batch_size=2)


def _write_postprocess_models(repository: Path, variant: str) -> None:
    write = partial(write_postprocess, repository, variant=variant)
    write("post", max_batch_size=8, parameters=POSTPROCESS, more=batching(1000))
    write("post_single", parameters=POSTPROCESS)
    write(
        "post_half",
        max_batch_size=8,
        parameters=POSTPROCESS,
        inputs=[tensor("head", "TYPE_FP16", [4 + NUM_CLASSES, ANCHORS]), *SIDE_INPUTS],
    )
    write(
        "post_open_dims",
        max_batch_size=8,
        parameters=POSTPROCESS,
        inputs=[tensor("head", "TYPE_FP32", [-1, ANCHORS]), *SIDE_INPUTS],
        outputs=[tensor("detection_boxes", "TYPE_FP32", [-1, 4])],
    )
    write("post_truncating", max_batch_size=8, parameters={**POSTPROCESS, "max_candidates": 10})
    write("post_dropping", max_batch_size=8, parameters={**POSTPROCESS, "on_nan": "drop"})
    write(
        "classes",
        max_batch_size=8,
        parameters={**CLASSIFICATION, "labels_file": "labels.txt"},
        files={"labels.txt": "\n".join(LABELS) + "\n"},
    )
    write("classes_unnamed", max_batch_size=8, parameters=CLASSIFICATION)


def _write_rois_models(repository: Path, variant: str) -> None:
    def write(name: str, *, inputs: list[str], **parameters: object) -> None:
        given = {**PREPROCESS_TEXT, **parameters}
        write_preprocess(
            repository, name, variant=variant, parameters=given, inputs=inputs, more=ON_CPU
        )

    write("rois", inputs=[ENCODED, ROIS])
    write("rois_blank", inputs=[ENCODED, ROIS], on_error="blank")
    write("rois_few_bytes", inputs=[ENCODED, ROIS], max_roi_bytes="1000")
    write("rois_bytes", inputs=[tensor("encoded", "TYPE_UINT8", [-1]), ROIS], size="32,32")
    write("rois_names_only", inputs=['{ name: "rois" }', '{ name: "encoded" }'], dtype="uint8")
    # Boxes of a detector, then their regions; rows that do not count are zeros.
    boxes = {"head": "end2end", "max_detections": MAX_DETECTIONS}
    write_postprocess(repository, "boxes", variant=variant, parameters=boxes)
    images = tensor("images", "TYPE_FP32", [-1, 3, *SIZE])
    write_ensemble(
        repository,
        "boxes_to_images",
        inputs=[ENCODED, tensor("head", "TYPE_FP32", [-1, 6])],
        outputs=[images, tensor("status", "TYPE_INT32", [-1])],
        steps=[
            ("boxes", {"head": "head"}, {"detection_boxes": "found"}),
            (
                "rois_blank",
                {"encoded": "encoded", "rois": "found"},
                {"images": "images", "status": "status"},
            ),
        ],
    )
