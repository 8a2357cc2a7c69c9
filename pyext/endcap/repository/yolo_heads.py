"""Recognises heads that give all boxes in one tensor: YOLO's families and RT-DETR's export.

Shapes: yolov8 [4 + C, A], yolov5 and yolox [A, 5 + C], end2end [K, 6], rtdetr [Q, 4 + C]. Heads
with more than boxes and scores are in `yolo_extras`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from endcap.repository.boxes_and_scores import (
    Numbers,
    are_corners,
    box_unit,
    have_sizes,
    score_activation,
)
from endcap.repository.decision import Decision
from endcap.repository.exporter_notes import ExporterNotes
from endcap.repository.grid_head import GridForm, read_grid_head
from endcap.repository.grids import Grids, find_grids
from endcap.repository.head import Head
from endcap.repository.hints import Hints
from endcap.repository.network_output import NetworkOutput
from endcap.repository.yolo_extras import has_extras, propose_extras, propose_task

RTDETR_DECODER = "RTDETRDecoder"  # as Ultralytics' exporter names it

_FEWEST_QUERIES = 50
_MOST_QUERIES = 1000  # of a transformer, or of suppression inside the network


def propose_yolo(outputs: tuple[NetworkOutput, ...], hints: Hints) -> Iterator[Head]:
    """Yield what the outputs of two dimensions may be, in the network's order."""
    if has_extras(hints.notes):
        yield from propose_task(outputs, hints)
        return
    for output in outputs:
        if len(output.dims) != 2 or not output.is_float:
            continue
        extras = tuple(propose_extras(output, outputs, hints))
        yield from extras
        if not any(head.is_sure for head in extras):
            yield from _propose_rows(output, hints)
            yield from _propose_grids(output, hints)


def _propose_rows(output: NetworkOutput, hints: Hints) -> Iterator[Head]:
    rows, columns = output.dims
    if columns == 6 and _looks_suppressed(output.values):
        reason = f"{output.name} [{rows}, 6]: each row a box, a score and a class"
        sure = rows <= _MOST_QUERIES and find_grids(rows, hints.size) is None
        boxes = None if output.values is None else output.values[:, :4]
        parameters = {"box_format": _format(boxes, hints.notes), "box_unit": box_unit(boxes)}
        is_likely = rows <= _MOST_QUERIES
        yield Head("end2end", {"head": output}, None, reason, sure, parameters, is_likely=is_likely)
    else:
        yield from _propose_queries(output, hints)


def _propose_queries(output: NetworkOutput, hints: Hints) -> Iterator[Head]:
    """A set of queries, each a box in fractions of the image and scores."""
    rows, columns = output.dims
    if columns < 5:
        return
    values = output.values
    boxes, scores = (None, None) if values is None else (values[:, :4], values[:, 4:])
    activation = score_activation(scores)
    if hints.notes.head:
        fits = hints.notes.head == RTDETR_DECODER
    else:
        fits = (
            columns <= _MOST_QUERIES
            and _FEWEST_QUERIES <= rows <= _MOST_QUERIES
            and find_grids(rows, hints.size) is None
            and boxes is not None
            and bool(boxes.any() and ((boxes >= 0) & (boxes <= 1)).all())
        )
    if not fits or activation is None:
        return
    unit = Decision("normalized", "what this family gives")
    parameters = {
        "joined": Decision("true", "boxes and scores are one output"),
        "box_unit": unit if boxes is None or not boxes.any() else box_unit(boxes),
        "activation": activation,
    }
    reason = f"{output.name} [{rows}, 4 + {columns - 4}]: a row for each query"
    inputs = {"head": output}
    yield Head("rtdetr", inputs, columns - 4, reason, True, parameters, preset="rtdetr")


def _propose_grids(output: NetworkOutput, hints: Hints) -> Iterator[Head]:
    rows, columns = output.dims
    named = len(hints.notes.names) if hints.notes.names else None
    if rows > 4:
        grids, classes = find_grids(columns, hints.size), rows - 4
        fits = grids is not None and grids.anchors == 1 and named in (None, classes)
        if grids is not None or rows < columns:
            form = GridForm(family="yolov8", classes=classes, grids=grids)
            yield from read_grid_head(output, form, hints.size, is_sure=fits)
    if columns > 5:
        grids, classes = find_grids(rows, hints.size), columns - 5
        # One anchor a cell may also be a yolov8 head the other way round, of one class more.
        told = (None, classes) if grids is not None and grids.anchors > 1 else (classes,)
        if grids is not None or columns < rows:
            fits = grids is not None and named in told
            form = GridForm(family="yolov5", classes=classes, grids=grids)
            yield from read_grid_head(output, form, hints.size, is_sure=fits)
        if grids is not None and grids.anchors == 1:
            yield from _propose_yolox(output, grids, fits_names=named in (None, classes))
    if columns > 4 and named != columns - 5:
        grids = find_grids(rows, hints.size)
        yield from _propose_transposed(output, grids, is_sure=named == columns - 4)


def _propose_yolox(output: NetworkOutput, grids: Grids, *, fits_names: bool) -> Iterator[Head]:
    """Boxes relative to the cells of the grids: logarithms of sizes, some of them negative."""
    rows, columns = output.dims
    values = output.values
    is_relative = values is not None and not have_sizes(values[:, :4])
    activation = score_activation(None if values is None else values[:, 4:])
    parameters = {}
    if activation is not None:
        parameters["activation"] = activation
    if grids.strides != (8, 16, 32):
        levels = ";".join(f"{stride}:{stride}x{stride}" for stride in grids.strides)
        parameters["anchor_grid"] = Decision(levels, f"the output has a row for each of {grids}")
    reason = f"{output.name} [{rows}, 5 + {columns - 5}]: {grids}, with boxes relative to them"
    are_scores = activation is not None and activation.value == "none"
    yield Head(
        family="yolox",
        inputs={"head": output},
        num_classes=columns - 5,
        reason=reason,
        is_sure=is_relative and are_scores and fits_names,
        parameters=parameters,
        is_likely=is_relative,
    )


def _propose_transposed(
    output: NetworkOutput, grids: Grids | None, *, is_sure: bool
) -> Iterator[Head]:
    """A yolov8 head the other way round, so that its exporter can be told."""
    rows, columns = output.dims
    is_decoded = output.values is None or have_sizes(output.values[:, :4])
    if grids is not None and grids.anchors == 1 and is_decoded:
        reason = f"{output.name} [{rows}, 4 + {columns - 4}]: {grids}, the other way round"
        yield Head("yolov8_transposed", {}, None, reason, is_sure)


def _looks_suppressed(values: Numbers | None) -> bool:
    """Whether the fifth column may hold scores and the sixth class ids."""
    if values is None:
        return True
    scores, class_ids = values[:, 4], values[:, 5]
    is_score = bool(((scores >= 0) & (scores <= 1)).all())
    return is_score and bool(((class_ids >= 0) & (class_ids == np.round(class_ids))).all())


def _format(boxes: Numbers | None, notes: ExporterNotes) -> Decision:
    """Of boxes after suppression, which are corners with most exporters."""
    if notes.head == RTDETR_DECODER:
        return Decision("cxcywh", f"the network's head is {RTDETR_DECODER}, by the metadata")
    if boxes is not None and not are_corners(boxes):
        return Decision("cxcywh", "boxes of a trial run cannot be corners: some are the wrong way")
    return Decision("xyxy", "what networks with suppression inside give")
