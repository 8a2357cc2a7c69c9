"""Recognises heads that give all boxes in one tensor: YOLO's families and RT-DETR's export.

Shapes: yolov8 [4 + C, A], yolov5 [A, 5 + C], end2end [K, 6], rtdetr [Q, 4 + C]. A grid detector
has one cell for each stride x stride pixels of the image, and so A follows from the image's size;
that tells the first two from everything else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from endcap.repository.exporter_notes import ExporterNotes
from endcap.repository.head import Finding, Head
from endcap.repository.network_output import NetworkOutput

# Strides of the grids: three, with a coarser one (P6), with a finer one (P2), or both.
_STRIDES = ((8, 16, 32), (8, 16, 32, 64), (4, 8, 16, 32), (4, 8, 16, 32, 64))
_ANCHORS_PER_CELL = (1, 3)  # without and with anchor boxes
_FEWEST_QUERIES = 50
_MOST_QUERIES = 1000  # of a transformer, or of suppression inside the network
RTDETR_DECODER = "RTDETRDecoder"  # as Ultralytics' exporter names it
_LARGEST_FRACTION = 2.0  # a box given as a fraction of the image, with room for what sticks out
_TASK_FAMILIES = {"segment": "yolov8_seg", "pose": "yolov8_pose", "obb": "yolov8_obb"}


def propose_yolo(
    outputs: tuple[NetworkOutput, ...], size: tuple[int, int], notes: ExporterNotes
) -> Iterator[Head]:
    """Yields what the outputs of two dimensions may be, in the network's order."""
    if notes.task in _TASK_FAMILIES:
        family = _TASK_FAMILIES[notes.task]
        yield Head(family, {}, None, f"task {notes.task} in the metadata", is_sure=True)
        return
    for output in outputs:
        if len(output.dims) == 2:
            yield from _propose(output, size, notes)


def _propose(output: NetworkOutput, size: tuple[int, int], notes: ExporterNotes) -> Iterator[Head]:
    rows, columns = output.dims
    if _is_rtdetr(output, size, notes):
        reason = f"{output.name} [{rows}, 4 + {columns - 4}]: a row for each query"
        yield Head("rtdetr", {"head": output}, columns - 4, reason, is_sure=True)
    if columns == 6 and _looks_suppressed(output):
        reason = f"{output.name} [{rows}, 6]: each row a box, a score and a class"
        sure = rows <= _MOST_QUERIES and _grids(rows, size) is None
        boxes = None if output.values is None else output.values[:, :4]
        parameters = {"box_format": _format(boxes, notes), "box_unit": _unit(boxes)}
        yield Head("end2end", {"head": output}, None, reason, sure, parameters)
    named = len(notes.names) if notes.names else None
    if rows > 4:
        grids, classes = _grids(columns, size), rows - 4
        if grids is not None or rows < columns:
            sure = grids is not None and grids.anchors == 1 and named in (None, classes)
            yield _grid_head("yolov8", output, classes, grids, size, sure)
    if columns > 5:
        grids, classes = _grids(rows, size), columns - 5
        if grids is not None or columns < rows:
            # One anchor a cell may also be a yolov8 head the other way round, of one class more.
            told = (classes,) if grids is None or grids.anchors == 1 else (None, classes)
            yield _grid_head(
                "yolov5", output, classes, grids, size, grids is not None and named in told
            )


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
    is_sure: bool,
) -> Head:
    shape = f"[4 + {classes}, {output.dims[1]}]"
    values = output.values
    if family == "yolov5":
        shape = f"[{output.dims[0]}, 5 + {classes}]"
    elif values is not None:
        values = values.T
    boxes = None if values is None else values[:, :4]
    scores = None if values is None else values[:, 4:]
    reason = f"{output.name} {shape}: {grids or 'as many anchors as no usual grids have'}"
    if boxes is not None and not _covers_image(boxes, size):
        is_sure = False
        reason += "; but the boxes of a trial run do not cover the image, as if not decoded"
    parameters = {"box_unit": _unit(boxes), "activation": _activation(scores)}
    return Head(family, {"head": output}, classes, reason, is_sure, parameters)


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
    if columns < 5 or not _FEWEST_QUERIES <= rows <= _MOST_QUERIES or _grids(rows, size):
        return False
    values = output.values
    if values is None or not values[:, :4].any():
        return False
    return bool(((values >= 0) & (values <= 1)).all())


def _looks_suppressed(output: NetworkOutput) -> bool:
    """Whether the fifth column may hold scores and the sixth class ids."""
    if output.values is None:
        return True
    scores, class_ids = output.values[:, 4], output.values[:, 5]
    is_score = bool(((scores >= 0) & (scores <= 1)).all())
    return is_score and bool(((class_ids >= 0) & (class_ids == np.round(class_ids))).all())


def _format(boxes: NDArray[np.float64] | None, notes: ExporterNotes) -> Finding:
    """Of boxes after suppression, which are corners with most exporters."""
    if notes.head == RTDETR_DECODER:
        return Finding("cxcywh", f"the network's head is {RTDETR_DECODER}, by the metadata")
    if boxes is not None and (boxes[:, 2:] < boxes[:, :2]).any():
        return Finding("cxcywh", "boxes of a trial run cannot be corners: some are the wrong way")
    return Finding("xyxy", "what networks with suppression inside give")


def _unit(boxes: NDArray[np.float64] | None) -> Finding:
    if boxes is None:
        return Finding("pixel", "assumed, as it could not be tried")
    if not boxes.any():
        return Finding("pixel", "assumed, as nothing is found in noise")
    largest = float(np.abs(boxes).max())
    if largest <= _LARGEST_FRACTION:
        return Finding("normalized", f"no box of a trial run exceeds {largest:.2f}")
    return Finding("pixel", f"boxes of a trial run reach {largest:.0f}")


def _activation(scores: NDArray[np.float64] | None) -> Finding:
    if scores is None:
        return Finding("none", "assumed, as it could not be tried")
    low, high = float(scores.min()), float(scores.max())
    if low >= 0 and high <= 1:
        return Finding("none", "scores of a trial run are from 0 to 1")
    return Finding("sigmoid", f"scores of a trial run are from {low:.1f} to {high:.1f}")


def _covers_image(boxes: NDArray[np.float64], size: tuple[int, int]) -> bool:
    """Whether the boxes' centres lie all over the image, as those of grids do."""
    width = size[1] if np.abs(boxes).max() > _LARGEST_FRACTION else 1
    return float(np.ptp(boxes[:, 0])) > width / 2
