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
_MISSING_COLUMNS = (
    "nothing tells which of its last two columns is the score and which the class; give --columns "
    "image,box,score,class (YOLO-NAS has this order) or image,box,class,score (YOLOv7)"
)
PADDING = -1  # the class id of rows that exporters fill up with


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
    """Yield `end2end` for rows in the orders of other exporters, or in one that the user gives.

    Without such an order only rows of all images together are looked at.
    """
    for output in outputs:
        is_flat = len(output.shape) == 2
        if not output.is_float or len(output.shape) not in (2, 3) or not (hints.columns or is_flat):
            continue
        if is_flat and not are_rows(output):
            continue
        fitting = []
        for columns in _possible_columns(output, outputs, hints):
            edit = OutputEdit(adds_batch=is_flat, columns=columns)
            taken = edited_output(output, edit)
            if may_be_detections(taken.values):
                fitting.append(replace(taken, rows_vary=is_flat or output.rows_vary))
        if fitting:
            # The trial run gave no row, or none that tells scores from class ids.
            missing = _MISSING_COLUMNS if len(fitting) > 1 else ""
            yield _flat_head(output, fitting[0], hints, missing)


def _possible_columns(
    output: NetworkOutput, outputs: tuple[NetworkOutput, ...], hints: Hints
) -> list[tuple[int, ...]]:
    length = output.shape[-1]
    if hints.columns:
        return [hints.columns] if length == hints.row_length else []
    if length == 7:
        return [_FLAT_COLUMNS, _YOLOV7_COLUMNS]
    counts = [each for each in outputs if not each.is_float and each.shape == (1,)]
    return [_PADDLE_COLUMNS] if length == 6 and counts and len(outputs) == 2 else []


def propose_boxes_with_classes(outputs: tuple[NetworkOutput, ...], hints: Hints) -> Iterator[Head]:
    """Yield `end2end` for rows [K, 5] of a box and a score, next to class ids [K]: MMDetection's.

    Class ids may be real numbers.
    """
    for output in outputs:
        if not output.is_float or len(output.shape) not in (2, 3) or output.shape[-1] != 5:
            continue
        if len(output.shape) == 2 and not are_rows(output):
            continue
        columns = [each for each in outputs if each.shape == output.shape[:-1]]
        classes = [each for each in columns if each.data_type in ("INT32", "INT64")]
        classes = classes or [each for each in columns if are_class_ids(each)]
        if len(classes) != 1:
            continue
        edit = OutputEdit(adds_batch=len(output.shape) == 2, appends=classes[0].name)
        rows = edited_output(output, edit, classes[0])
        if may_be_detections(rows.values):
            rows = replace(rows, rows_vary=output.rows_vary or any(rows.is_dynamic[1:]))
            boxes = used_boxes(rows.values)
            reason = (
                f"{output.name} {list(output.shape)} and {classes[0].name}: a box, a score and a "
                "class for each detection"
            )
            parameters = {
                "box_format": read_box_format(boxes, hints.metadata.head),
                "box_unit": box_unit(boxes),
            }
            yield Head("end2end", {"head": rows}, None, reason, True, parameters)


def _flat_head(output: NetworkOutput, taken: NetworkOutput, hints: Hints, missing: str) -> Head:
    boxes = used_boxes(taken.values)
    order = ", ".join(map(str, taken.edit.columns))
    rows = "as many rows as there are detections" if taken.rows_vary else "a row for each detection"
    return Head(
        "end2end",
        {"head": taken},
        num_classes=None,
        reason=f"{output.name} {list(output.shape[-2:])}: {rows}, of which columns {order} are the "
        "box, the score and the class",
        is_sure=True,
        parameters={
            "box_format": read_box_format(boxes, hints.metadata.head),
            "box_unit": box_unit(boxes),
        },
        missing=missing,
    )


def propose_end2end(output: NetworkOutput, hints: Hints) -> Iterator[Head]:
    """Yield `end2end` for rows [K, 6] of a box, a score and a class id."""
    output = with_batch(output)
    rows, columns = output.dims
    if columns != 6 or not may_be_detections(output.values):
        return
    boxes = used_boxes(output.values)
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
    return are_fractions(scores[class_ids != PADDING]) and _are_whole(class_ids)


def are_class_ids(output: NetworkOutput) -> bool:
    """Return whether the numbers of an output may be class ids, PADDING among them."""
    values = output.values
    return values is not None and bool(values.size) and _are_whole(values)


def _are_whole(values: Numbers) -> bool:
    return bool(((values >= PADDING) & (values == np.round(values))).all())


def used_boxes(rows: Numbers | None) -> Numbers | None:
    """Return the boxes of rows with box, score and class that are not padding."""
    return None if rows is None else rows[rows[:, 5] != PADDING][:, :4]


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
