"""Heads of networks with NMS inside: end2end [K, 6], and TensorRT's EfficientNMS outputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from endcap.repository.graph_edit import edited_output
from endcap.repository.grid_heads import find_grids
from endcap.repository.head_evidence import (
    MOST_FINAL_ROWS,
    Head,
    Hints,
    Numbers,
    are_corners,
    are_fractions,
    box_unit,
)
from endcap.repository.network_tensors import NetworkOutput, OutputEdit
from endcap.repository.onnx_file import RTDETR_DECODER
from endcap.repository.options import Decision

# Names of the outputs of TensorRT's EfficientNMS and BatchedNMS plugins, and of exports like them.
_EFFICIENT_NMS_NAMES = {
    "num_detections": ("num_dets", "num_detections", "num_det", "det_nums", "num_predictions"),
    "boxes": ("det_boxes", "detection_boxes", "nmsed_boxes", "boxes", "pred_boxes"),
    "scores": ("det_scores", "detection_scores", "nmsed_scores", "scores", "pred_scores"),
    "classes": (
        *("det_classes", "detection_classes", "nmsed_classes", "classes", "det_labels"),
        "pred_classes",
    ),
}
# Rows of other orders without a batch dimension, and the columns that make rows of end2end: of
# PaddleDetection (class, score, box), of YOLO-NAS (image, box, score, class) and of YOLOv7 (image,
# box, class, score).
_PADDLE_COLUMNS = (2, 3, 4, 5, 1, 0)
_FLAT_COLUMNS = (1, 2, 3, 4, 5, 6)
_YOLOV7_COLUMNS = (1, 2, 3, 4, 6, 5)


def propose_efficient_nms(outputs: tuple[NetworkOutput, ...]) -> Iterator[Head]:
    """Yield `efficient_nms` where four outputs have the names and the shapes of the plugin's.

    TensorFlow's detectors use the same names; they count in floats, and put y before x.
    """
    by_name = {output.name.lower(): output for output in outputs}
    inputs: dict[str, NetworkOutput] = {}
    for part, names in _EFFICIENT_NMS_NAMES.items():
        named = next((by_name[name] for name in names if name in by_name), None)
        if named is None:
            return
        inputs[part] = named
    listed = ", ".join(output.name for output in inputs.values())
    if inputs["num_detections"].is_float:
        reason = f"{listed}: a count of type {inputs['num_detections'].data_type}, y before x"
        yield Head("tensorflow_detection", {}, None, reason, is_sure=True)
        return
    rows = inputs["boxes"].dims[:1]
    shapes = {
        "boxes": [(*rows, 4)],
        "scores": [rows],
        "classes": [rows],
        "num_detections": [(), (1,)],
    }
    if not rows or any(inputs[part].dims not in shapes[part] for part in shapes):
        return
    parameters = {"box_unit": box_unit(inputs["boxes"].values)}
    yield Head("efficient_nms", inputs, None, f"{listed}: suppressed inside", True, parameters)


def propose_flat_rows(outputs: tuple[NetworkOutput, ...], hints: Hints) -> Iterator[Head]:
    """Yield `end2end` for rows of all images together, in the orders of other exporters."""
    for output in outputs:
        if not output.is_float or len(output.shape) != 2 or output.shape[1] not in (6, 7):
            continue
        if not are_rows(output):
            continue
        rows = edited_output(output, OutputEdit(adds_batch=True))
        counts = [each for each in outputs if not each.is_float and each.shape == (1,)]
        if output.shape[1] == 6:
            found = [_PADDLE_COLUMNS] if counts and len(outputs) == 2 else []
        else:
            found = [_FLAT_COLUMNS, _YOLOV7_COLUMNS]
        for columns in found:
            edit = OutputEdit(adds_batch=True, columns=columns)
            taken = edited_output(output, edit)
            if may_be_detections(taken.values):
                yield from _flat_head(rows, replace(taken, rows_vary=True), hints)


def propose_boxes_with_classes(outputs: tuple[NetworkOutput, ...], hints: Hints) -> Iterator[Head]:
    """Yield `end2end` for rows [K, 5] of a box and a score, beside class ids [K]: MMDeploy's."""
    for output in outputs:
        if not output.is_float or len(output.shape) not in (2, 3) or output.shape[-1] != 5:
            continue
        if len(output.shape) == 2 and not are_rows(output):
            continue
        classes = [
            each
            for each in outputs
            if each.shape == output.shape[:-1] and each.data_type in ("INT32", "INT64")
        ]
        if len(classes) != 1:
            continue
        edit = OutputEdit(adds_batch=len(output.shape) == 2, appends=classes[0].name)
        rows = edited_output(output, edit, classes[0])
        if may_be_detections(rows.values):
            rows = replace(rows, rows_vary=output.rows_vary or any(rows.is_dynamic[1:]))
            boxes = rows.values[:, :4] if rows.values is not None and rows.values.size else None
            reason = (
                f"{output.name} {list(output.shape)} and {classes[0].name}: a box, a score and a "
                "class for each detection"
            )
            parameters = {
                "box_format": read_box_format(boxes, hints.metadata.head),
                "box_unit": box_unit(boxes),
            }
            yield Head("end2end", {"head": rows}, None, reason, True, parameters)


def _flat_head(output: NetworkOutput, taken: NetworkOutput, hints: Hints) -> Iterator[Head]:
    boxes = taken.values[:, :4] if taken.values is not None and taken.values.size else None
    order = ", ".join(map(str, taken.edit.columns))
    yield Head(
        "end2end",
        {"head": taken},
        num_classes=None,
        reason=f"{output.name} {list(output.dims)}: as many rows as there are detections, of which "
        f"columns {order} are the box, the score and the class",
        is_sure=True,
        parameters={
            "box_format": read_box_format(boxes, hints.metadata.head),
            "box_unit": box_unit(boxes),
        },
    )


def propose_end2end(output: NetworkOutput, hints: Hints) -> Iterator[Head]:
    """Yield `end2end` for rows [K, 6] of a box, a score and a class id."""
    output = with_batch(output)
    rows, columns = output.dims
    if columns != 6 or not may_be_detections(output.values):
        return
    boxes = None if output.values is None else output.values[:, :4]
    is_likely = rows <= MOST_FINAL_ROWS
    yield Head(
        "end2end",
        {"head": output},
        num_classes=None,
        reason=f"{output.name} [{rows}, 6]: each row a box, a score and a class",
        is_sure=is_likely and find_grids(rows, hints.size) is None,
        parameters={
            "box_format": read_box_format(boxes, hints.metadata.head),
            "box_unit": box_unit(boxes),
        },
        is_likely=is_likely,
    )


def are_rows(output: NetworkOutput) -> bool:
    """Return whether two dimensions are rows of detections, and not the scores of one image."""
    return output.shape[0] != 1 or output.rows_vary


def with_batch(output: NetworkOutput) -> NetworkOutput:
    """Return rows of detections with a batch dimension, which a graph edit adds where none is."""
    return output if output.has_batch else edited_output(output, OutputEdit(adds_batch=True))


def may_be_detections(values: Numbers | None) -> bool:
    """Return whether the fifth column may hold scores and the sixth class ids."""
    if values is None:
        return True
    scores, class_ids = values[:, 4], values[:, 5]
    return are_fractions(scores) and bool(
        ((class_ids >= 0) & (class_ids == np.round(class_ids))).all()
    )


def read_box_format(boxes: Numbers | None, head: str = "") -> Decision:
    """Return the format of boxes after NMS, which are corners with most exporters.

    Args:
        boxes: Of a trial run.
        head: The network's last module, by the metadata.
    """
    if head == RTDETR_DECODER:
        return Decision("cxcywh", f"the network's head is {RTDETR_DECODER}, by the metadata")
    if boxes is not None and not are_corners(boxes):
        return Decision("cxcywh", "boxes of a trial run cannot be corners: some are the wrong way")
    return Decision("xyxy", "what networks with suppression inside give")
