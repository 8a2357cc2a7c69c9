"""Heads with one box for each anchor of grids: yolov8 [4 + C, A], yolov5 and yolox [A, 5 + C].

A grid has one cell for each stride x stride pixels of the image, so the number of anchors follows
from the image's size, which distinguishes these heads from all others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from endcap.repository.graph_edit import edited_output
from endcap.repository.head_evidence import (
    Head,
    Hints,
    Numbers,
    are_corners,
    box_unit,
    cover_image,
    have_sizes,
    score_activation,
)
from endcap.repository.network_tensors import NetworkOutput, OutputEdit
from endcap.repository.options import Decision

# Strides of the grids: three, with a coarser one (P6), with a finer one (P2), or both.
_STRIDES = ((8, 16, 32), (8, 16, 32, 64), (4, 8, 16, 32), (4, 8, 16, 32, 64))
_ANCHORS_PER_CELL = (1, 3)  # without and with anchor boxes


@dataclass(frozen=True)
class Grids:
    """Grids that have a certain number of anchors."""

    cells: int
    anchors: int  # in each cell
    strides: tuple[int, ...]

    def __str__(self) -> str:
        """Return such as `8400 cells of strides 8, 16, 32`."""
        where = f"{self.cells} cells of strides {', '.join(map(str, self.strides))}"
        return where if self.anchors == 1 else f"{self.anchors} anchors in each of {where}"


def find_grids(count: int, size: tuple[int, int]) -> Grids | None:
    """Return the grids with `count` anchors in an image of height and width; None if none has."""
    for strides in _STRIDES:
        cells = sum(-(-size[0] // stride) * -(-size[1] // stride) for stride in strides)
        for anchors in _ANCHORS_PER_CELL:
            if count == cells * anchors:
                return Grids(cells, anchors, strides)
    return None


def are_grid_maps(outputs: Sequence[NetworkOutput], size: tuple[int, int]) -> bool:
    """Return whether outputs are maps [*, h, w] or [*, h, w, *] of the grids, one for each."""
    sides = sorted(each.dims[1:3] for each in outputs if each.is_float and len(each.dims) in (3, 4))
    return len(sides) == len(outputs) and any(
        sides == sorted(tuple(-(-side // stride) for side in size) for stride in strides)
        for strides in _STRIDES
    )


def propose_grids(output: NetworkOutput, hints: Hints) -> Iterator[Head]:
    """Yield `yolov8`, `yolov5` and `yolox` for one output, as far as it fits."""
    rows, columns = output.dims
    named = len(hints.metadata.names) if hints.metadata.names else None
    if rows > 4:
        grids, classes = find_grids(columns, hints.size), rows - 4
        fits = grids is not None and grids.anchors == 1 and named in (None, classes)
        metadata = hints.metadata  # of Ultralytics, all of whose detectors have this head
        is_declared = metadata.is_ultralytics and metadata.task == "detect" and named == classes
        if grids is not None or rows < columns:
            form = GridForm(family="yolov8", classes=classes, grids=grids, is_declared=is_declared)
            yield from read_grid_head(output, form, hints.size, is_sure=fits or is_declared)
    if columns > 5:
        grids, classes = find_grids(rows, hints.size), columns - 5
        # One anchor a cell may also be a yolov8 head the other way round, of one class more.
        fitting = (None, classes) if grids is not None and grids.anchors > 1 else (classes,)
        if grids is not None or columns < rows:
            fits = grids is not None and named in fitting
            form = GridForm(family="yolov5", classes=classes, grids=grids)
            yield from read_grid_head(output, form, hints.size, is_sure=fits)
        if grids is not None and grids.anchors == 1:
            yield from _propose_yolox(output, grids, fits_names=named in (None, classes))
    if columns > 4 and named != columns - 5:
        grids = find_grids(rows, hints.size)
        yield from _propose_transposed(output, grids, hints, is_sure=named == columns - 4)


def _propose_yolox(output: NetworkOutput, grids: Grids, *, fits_names: bool) -> Iterator[Head]:
    """Yield a head whose boxes are relative to cells: logarithms of sizes, some negative."""
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
    output: NetworkOutput, grids: Grids | None, hints: Hints, *, is_sure: bool
) -> Iterator[Head]:
    """Yield a yolov8 head with a row for each anchor, which a graph edit transposes."""
    if grids is None or grids.anchors != 1 or not output.has_batch:
        return
    transposed = edited_output(output, OutputEdit(transposes=True))
    form = GridForm(family="yolov8", classes=output.dims[1] - 4, grids=grids)
    yield from read_grid_head(transposed, form, hints.size, is_sure=is_sure)


@dataclass(frozen=True, kw_only=True)
class GridForm:
    """How a tensor is to be read.

    Attributes:
        classes: Numbers of an anchor that are scores.
        extras: Numbers behind them, for masks, keypoints or the angle.
        inputs: Of postprocess, beside the tensor.
        parameters: Of postprocess, beside those that the values show.
        is_declared: Whether the metadata names the family, so that the values need not show it.
        missing: As in `Head`.
    """

    family: str
    classes: int = 0
    grids: Grids | None = None
    extras: int = 0
    inputs: Mapping[str, NetworkOutput] = field(default_factory=dict)
    parameters: Mapping[str, Decision] = field(default_factory=dict)
    is_declared: bool = False
    missing: str = ""


def read_grid_head(
    output: NetworkOutput, form: GridForm, size: tuple[int, int], *, is_sure: bool
) -> Iterator[Head]:
    """Yield the head, or nothing where its boxes are not decoded."""
    boxes, scores = _boxes_and_scores(output, form)
    if boxes is not None and not have_sizes(boxes):
        return
    box_format = _format(boxes, form)
    activation = score_activation(scores)
    doubts = [*_doubts(boxes, size)]
    if box_format is None:
        doubts.append("its boxes may be corners as well as centres and sizes")
    if activation is None and not form.missing:
        doubts.append("its scores are of several kinds, as with keypoints, masks or angles")
    measured = {"box_format": box_format, "box_unit": box_unit(boxes), "activation": activation}
    known = {name: decision for name, decision in measured.items() if decision is not None}
    where = form.grids or "as many anchors as no usual grids have"
    reason = f"{output.name} [{_parts(output, form)}]: {where}"
    if output.edit.transposes:
        reason += ", transposed behind the network"
    # Ultralytics trains heads with anchor boxes (YOLOv5) and heads without objectness (YOLOv8);
    # others train those with an objectness and no anchor boxes.
    has_anchor_boxes = form.grids is not None and form.grids.anchors > 1
    is_ultralytics = form.grids is not None and (has_anchor_boxes or form.family != "yolov5")
    yield Head(
        family=form.family,
        inputs={"head": output, **form.inputs},
        num_classes=form.classes,
        reason="; but ".join([reason, *doubts]),
        is_sure=is_sure and (form.is_declared or not doubts),
        parameters=known | dict(form.parameters),
        preset="ultralytics" if is_ultralytics else None,
        is_likely=form.grids is not None and (activation is not None or bool(form.missing)),
        missing=form.missing,
    )


def _boxes_and_scores(
    output: NetworkOutput, form: GridForm
) -> tuple[Numbers | None, Numbers | None]:
    """Return the boxes and scores of each anchor; the objectness counts as a score."""
    if output.values is None:
        return None, None
    if form.family == "yolov5":
        return output.values[:, :4], output.values[:, 4:]
    rows = output.values.T
    return rows[:, :4], rows[:, 4 : 4 + form.classes]


def _parts(output: NetworkOutput, form: GridForm) -> str:
    if form.family == "yolov5":
        return f"{output.dims[0]}, 5 + {form.classes}"
    extras = f" + {form.extras}" if form.extras else ""
    return f"4 + {form.classes}{extras}, {output.dims[1]}"


def _doubts(boxes: Numbers | None, size: tuple[int, int]) -> Iterator[str]:
    if boxes is None:
        yield "it could not be tried"
    elif not cover_image(boxes, size):
        yield "the boxes of a trial run do not cover the image, as if not decoded"


def _format(boxes: Numbers | None, form: GridForm) -> Decision | None:
    """Return the format of boxes around cells; None where they may be corners, too."""
    if form.is_declared or form.family == "yolov8_obb":
        return Decision("cxcywh", "what this family gives")
    if boxes is None:
        return Decision("cxcywh", "what this family gives; it could not be tried")
    if are_corners(boxes):
        return None
    return Decision("cxcywh", "boxes of a trial run cannot be corners: some are the wrong way")
