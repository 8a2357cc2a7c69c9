"""Recognises heads that give all boxes in one tensor: YOLO's families and RT-DETR's export.

Shapes: yolov8 [4 + C, A], yolov5 [A, 5 + C], end2end [K, 6], rtdetr [Q, 4 + C]. A grid detector
has one cell for each stride x stride pixels of the image, and so A follows from the image's size;
that tells the first two from everything else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from endcap.repository.boxes_and_scores import (
    Numbers,
    are_corners,
    box_unit,
    cover_image,
    have_sizes,
    score_activation,
)
from endcap.repository.decision import Decision
from endcap.repository.exporter_notes import ExporterNotes
from endcap.repository.head import Head
from endcap.repository.network_output import NetworkOutput

RTDETR_DECODER = "RTDETRDecoder"  # as Ultralytics' exporter names it

# Strides of the grids: three, with a coarser one (P6), with a finer one (P2), or both.
_STRIDES = ((8, 16, 32), (8, 16, 32, 64), (4, 8, 16, 32), (4, 8, 16, 32, 64))
_ANCHORS_PER_CELL = (1, 3)  # without and with anchor boxes
_FEWEST_QUERIES = 50
_MOST_QUERIES = 1000  # of a transformer, or of suppression inside the network
_MASKS = 32  # prototypes of Ultralytics' segmentation heads
_TASK_FAMILIES = {"segment": "yolov8_seg", "pose": "yolov8_pose", "obb": "yolov8_obb"}
_ULTRALYTICS = "ultralytics"


def propose_yolo(
    outputs: tuple[NetworkOutput, ...], size: tuple[int, int], notes: ExporterNotes
) -> Iterator[Head]:
    """Yields what the outputs of two dimensions may be, in the network's order."""
    if notes.task in _TASK_FAMILIES:
        family = _TASK_FAMILIES[notes.task]
        yield Head(family, {}, None, f"task {notes.task} in the metadata", is_sure=True)
        return
    masks = [output for output in outputs if len(output.dims) == 3 and output.dims[0] == _MASKS]
    for output in outputs:
        if len(output.dims) != 2 or not output.is_float:
            continue
        of_columns, of_rows = _grids(output.dims[1], size), _grids(output.dims[0], size)
        if masks and (of_columns or of_rows):
            family = "yolov8_seg" if of_columns else "yolov5_seg"
            reason = f"{output.name} {list(output.dims)} beside {masks[0]}, prototypes of masks"
            yield Head(family, {}, None, reason, is_sure=True)
            continue
        yield from _propose_rows(output, size, notes)
        yield from _propose_grids(output, size, notes)


def _propose_rows(
    output: NetworkOutput, size: tuple[int, int], notes: ExporterNotes
) -> Iterator[Head]:
    rows, columns = output.dims
    if _is_rtdetr(output, size, notes):
        reason = f"{output.name} [{rows}, 4 + {columns - 4}]: a row for each query"
        yield Head("rtdetr", {"head": output}, columns - 4, reason, is_sure=True)
    if columns == 6 and _looks_suppressed(output.values):
        reason = f"{output.name} [{rows}, 6]: each row a box, a score and a class"
        sure = rows <= _MOST_QUERIES and _grids(rows, size) is None
        boxes = None if output.values is None else output.values[:, :4]
        parameters = {"box_format": _format(boxes, notes), "box_unit": box_unit(boxes)}
        is_likely = rows <= _MOST_QUERIES
        yield Head("end2end", {"head": output}, None, reason, sure, parameters, is_likely=is_likely)


def _propose_grids(
    output: NetworkOutput, size: tuple[int, int], notes: ExporterNotes
) -> Iterator[Head]:
    rows, columns = output.dims
    named = len(notes.names) if notes.names else None
    if rows > 4:
        grids, classes = _grids(columns, size), rows - 4
        fits = grids is not None and grids.anchors == 1 and named in (None, classes)
        if grids is not None or rows < columns:
            yield from _grid_head("yolov8", output, classes, grids, size, is_sure=fits)
    if columns > 5:
        grids, classes = _grids(rows, size), columns - 5
        # One anchor a cell may also be a yolov8 head the other way round, of one class more.
        told = (None, classes) if grids is not None and grids.anchors > 1 else (classes,)
        if grids is not None or columns < rows:
            fits = grids is not None and named in told
            yield from _grid_head("yolov5", output, classes, grids, size, is_sure=fits)
    if columns > 4 and named != columns - 5:
        yield from _propose_transposed(output, _grids(rows, size), is_sure=named == columns - 4)


def _propose_transposed(
    output: NetworkOutput, grids: _Grids | None, *, is_sure: bool
) -> Iterator[Head]:
    """A yolov8 head the other way round, so that its exporter can be told."""
    rows, columns = output.dims
    is_decoded = output.values is None or have_sizes(output.values[:, :4])
    if grids is not None and grids.anchors == 1 and is_decoded:
        reason = f"{output.name} [{rows}, 4 + {columns - 4}]: {grids}, the other way round"
        yield Head("yolov8_transposed", {}, None, reason, is_sure)


@dataclass(frozen=True)
class _Grids:
    """Which grids have a number of anchors."""

    cells: int
    anchors: int  # in each cell
    strides: tuple[int, ...]

    def __str__(self) -> str:
        where = f"{self.cells} cells of strides {', '.join(map(str, self.strides))}"
        return where if self.anchors == 1 else f"{self.anchors} anchors in each of {where}"


def _grid_head(
    family: str,
    output: NetworkOutput,
    classes: int,
    grids: _Grids | None,
    size: tuple[int, int],
    *,
    is_sure: bool,
) -> Iterator[Head]:
    parts = f"4 + {classes}, {output.dims[1]}"
    values = output.values
    if family == "yolov5":
        parts = f"{output.dims[0]}, 5 + {classes}"
    elif values is not None:
        values = values.T
    boxes = None if values is None else values[:, :4]
    scores = None if values is None else values[:, 4:]
    doubts = []
    if boxes is None:
        doubts.append("it could not be tried")
    elif not have_sizes(boxes):
        return  # not decoded, and so nothing that a head could read
    elif not cover_image(boxes, size):
        doubts.append("the boxes of a trial run do not cover the image, as if not decoded")
    box_format = _grid_format(boxes)
    if box_format is None:
        doubts.append("its boxes may be corners as well as centres and sizes")
    activation = score_activation(scores)
    if activation is None:
        doubts.append("its scores are of several kinds, as with keypoints, masks or angles")
    reason = f"{output.name} [{parts}]: {grids or 'as many anchors as no usual grids have'}"
    found = {"box_format": box_format, "box_unit": box_unit(boxes), "activation": activation}
    yield Head(
        family=family,
        inputs={"head": output},
        num_classes=classes,
        reason="; but ".join([reason, *doubts]),
        is_sure=is_sure and not doubts,
        parameters={name: decision for name, decision in found.items() if decision is not None},
        # With anchor boxes, or with none and no objectness, it is what Ultralytics' trainers make.
        preset=_ULTRALYTICS if grids and (family == "yolov8" or grids.anchors > 1) else None,
        is_likely=grids is not None and activation is not None,
    )


def _grids(count: int, size: tuple[int, int]) -> _Grids | None:
    for strides in _STRIDES:
        cells = sum(-(-size[0] // stride) * -(-size[1] // stride) for stride in strides)
        for anchors in _ANCHORS_PER_CELL:
            if count == cells * anchors:
                return _Grids(cells, anchors, strides)
    return None


def _is_rtdetr(output: NetworkOutput, size: tuple[int, int], notes: ExporterNotes) -> bool:
    """Whether each row holds a box in fractions of the image and scores, of a set of queries."""
    rows, columns = output.dims
    if columns == 6:  # its decoder's own selection, which reads like any other
        return False
    if notes.head:
        return notes.head == RTDETR_DECODER
    if not 5 <= columns <= _MOST_QUERIES or not _FEWEST_QUERIES <= rows <= _MOST_QUERIES:
        return False
    if _grids(rows, size):
        return False
    values = output.values
    if values is None or not values[:, :4].any():
        return False
    return bool(((values >= 0) & (values <= 1)).all())


def _looks_suppressed(values: Numbers | None) -> bool:
    """Whether the fifth column may hold scores and the sixth class ids."""
    if values is None:
        return True
    scores, class_ids = values[:, 4], values[:, 5]
    is_score = bool(((scores >= 0) & (scores <= 1)).all())
    return is_score and bool(((class_ids >= 0) & (class_ids == np.round(class_ids))).all())


def _grid_format(boxes: Numbers | None) -> Decision | None:
    """Of boxes around the cells of grids; None where they may be corners, too."""
    if boxes is None:
        return Decision("cxcywh", "what this family gives; it could not be tried")
    if are_corners(boxes):
        return None
    return Decision("cxcywh", "boxes of a trial run cannot be corners: some are the wrong way")


def _format(boxes: Numbers | None, notes: ExporterNotes) -> Decision:
    """Of boxes after suppression, which are corners with most exporters."""
    if notes.head == RTDETR_DECODER:
        return Decision("cxcywh", f"the network's head is {RTDETR_DECODER}, by the metadata")
    if boxes is not None and not are_corners(boxes):
        return Decision("cxcywh", "boxes of a trial run cannot be corners: some are the wrong way")
    return Decision("xyxy", "what networks with suppression inside give")
