"""Forms of one output with all of a head: grids, queries, rows after suppression, and classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from endcap.repository.graph_edit import edited_output
from endcap.repository.head_evidence import (
    FAMILY_DEFAULT,
    NO_CORNERS,
    Head,
    Hints,
    Numbers,
    Outputs,
    are_corners,
    are_fractions,
    box_unit,
    cover_image,
    have_sizes,
    may_be_detections,
    score_activation,
)
from endcap.repository.network_tensors import NetworkOutput, OutputEdit
from endcap.repository.onnx_file import RTDETR_DECODER
from endcap.repository.options import Decision
from endcap.repository.suppressed_forms import ADDED_BATCH, rows_head
from endcap.triton.model_contract import postprocess_contract

QUERIES = range(50, 1001)  # of transformers
_MAX_FINAL_ROWS = 1000  # of networks with suppression inside
# Strides of the grids: three, with a coarser one (P6), with a finer one (P2), or both.
_STRIDES = ((8, 16, 32), (8, 16, 32, 64), (4, 8, 16, 32), (4, 8, 16, 32, 64))
_ANCHORS_PER_CELL = (1, 3)  # without and with anchor boxes
_MAX_JOINED_COLUMNS = 1000  # of a row with a box and a score for each class
_USUAL_MASKS = 32  # prototypes of Ultralytics' segmentation heads
_KEYPOINTS = ("num_keypoints", "keypoint_values")
_MAX_ANGLE = 2 * np.pi


@dataclass(frozen=True)
class Grids:
    """Grids that have a certain number of anchors: one cell for each stride x stride pixels."""

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


def are_grid_maps(outputs: Outputs, size: tuple[int, int]) -> bool:
    """Return whether outputs are maps [*, h, w] or [*, h, w, *] of the grids, one for each."""
    sides = sorted(each.dims[1:3] for each in outputs if each.is_float and len(each.dims) in (3, 4))
    return len(sides) == len(outputs) and any(
        sides == sorted(tuple(-(-side // stride) for side in size) for stride in strides)
        for strides in _STRIDES
    )


@dataclass(frozen=True)
class _Extras:
    """What stands behind the scores of a YOLO head, and with suppression inside behind the class.

    Attributes:
        suffix: Of the family, yolov8 or end2end.
        count: Rows or columns; where they end and the scores begin is in no shape.
        inputs: Of postprocess, in addition to the head.
        missing: As in `Head`; `count` is then not known.
    """

    suffix: str = ""
    count: int = 0
    inputs: Mapping[str, NetworkOutput] = field(default_factory=dict)
    parameters: Mapping[str, Decision] = field(default_factory=dict)
    missing: str = ""

    @property
    def family(self) -> str:
        """The family without suppression inside."""
        return f"yolov8{self.suffix}"


_NOTHING = _Extras()
_ANGLES = _Extras(
    "_obb",
    1,
    parameters={"rotated_nms": Decision("probiou_fast", "as Ultralytics suppresses rotated boxes")},
)


def _masks(outputs: Outputs, _: Hints) -> _Extras:
    prototypes = [each for each in outputs if len(each.dims) == 3 and each.is_float]
    if len(prototypes) != 1:
        missing = (
            f"{len(prototypes) or 'none'} of its outputs has the form of prototypes of masks, "
            "[M, height, width]; export it with its head and its prototypes and nothing else"
        )
        return _Extras("_seg", _USUAL_MASKS, missing=missing)
    count, height, width = prototypes[0].dims
    reason = f"the shape of {prototypes[0].name}"
    parameters = {
        "mask_coefficients": Decision(str(count), reason),
        "prototype_size": Decision(f"{height},{width}", reason),
    }
    return _Extras("_seg", count, {"protos": prototypes[0]}, parameters)


def _keypoints(_: Outputs, hints: Hints) -> _Extras:
    declared = dict(zip(_KEYPOINTS, hints.metadata.keypoints or (), strict=False))
    settings = hints.options.settings
    values = {name: str(value) for name, value in declared.items()}
    values |= {name: settings[name] for name in _KEYPOINTS if name in settings}
    if "num_keypoints" not in values:
        missing = (
            "its number of keypoints is unknown; give --head yolov8_pose --set "
            "num_keypoints=17, or another number, and --set keypoint_values=2 where a "
            "keypoint has x and y alone"
        )
        return _Extras("_pose", missing=missing)
    known = postprocess_contract({"head": "yolov8_pose", **values}).parameters
    reason = "kpt_shape in the metadata" if declared else "as many as were given"
    return _Extras(
        "_pose",
        int(known["num_keypoints"]) * int(known["keypoint_values"]),
        parameters={name: Decision(known[name], reason) for name in _KEYPOINTS},
    )


# By the task in the metadata.
_TASKS: Mapping[str, Callable[[Outputs, Hints], _Extras]] = {
    "segment": _masks,
    "pose": _keypoints,
    "obb": lambda outputs, hints: _ANGLES,
}


def read_single(outputs: Outputs, hints: Hints) -> Iterator[Head]:
    """Read one output with boxes, scores and maybe masks, keypoints or angles."""
    for output in outputs:
        if len(output.dims) != 2 or not output.is_float:
            continue
        if hints.metadata.task in _TASKS:
            yield from _read_task(output, outputs, hints)
            continue
        with_extras = tuple(_read_extras_by_values(output, outputs, hints))
        yield from with_extras
        if not any(head.is_sure for head in with_extras):
            yield from (*_read_rows(output, hints),) or _read_joined_queries(output, hints)
            yield from _read_grids(output, hints)


def _read_task(output: NetworkOutput, outputs: Outputs, hints: Hints) -> Iterator[Head]:
    """Yield the head of the task that the metadata names."""
    metadata, extras = hints.metadata, _TASKS[hints.metadata.task](outputs, hints)
    is_final = metadata.is_end2end or metadata.has_nms
    if is_final or find_grids(output.dims[1], hints.size) is None:
        heads = tuple(_read_rows_with_extras(output, extras, hints))
        yield from heads
        if heads or is_final:
            return
    classes = output.dims[0] - 4 - extras.count
    if metadata.names and len(metadata.names) != classes and not extras.missing:
        return
    yield from _grid_head(output, hints, extras=extras, is_declared=True)


def _read_extras_by_values(output: NetworkOutput, outputs: Outputs, hints: Hints) -> Iterator[Head]:
    """Yield what one output may be without metadata; nothing for most without extras."""
    if find_grids(output.dims[1], hints.size) is None:
        masks = [each for each in outputs if len(each.dims) == 3 and each.dims[0] == _USUAL_MASKS]
        if masks and find_grids(output.dims[0], hints.size):
            # Which no head reads, so that the error message names them.
            reason = f"{output.name} {list(output.dims)} next to {masks[0]}, prototypes of masks"
            yield Head("yolov5_seg", {}, None, reason)
        yield from _read_rows_with_counted_extras(output, outputs, hints)
        return
    for find in _TASKS.values():
        extras = find(outputs, hints)
        classes = output.dims[0] - 4 - extras.count
        if not (extras.missing or hints.num_classes in (None, classes)):
            continue
        if extras.family == hints.options.head or _shows(extras, output, hints):
            yield from _grid_head(output, hints, extras=extras)
            if extras.inputs:  # prototypes of masks tell what the rows behind the scores are
                return


def _shows(extras: _Extras, output: NetworkOutput, hints: Hints) -> bool:
    """Return whether the outputs look like a family that neither metadata nor user names."""
    if extras.suffix == "_seg":
        return any(prototypes.dims[0] == _USUAL_MASKS for prototypes in extras.inputs.values())
    if extras.suffix == "_pose" and "num_keypoints" in hints.options.settings:
        return True
    if output.values is None or output.dims[0] < 6:
        return False
    rows = output.values[4:]
    outside = ((rows < 0) | (rows > 1)).any(axis=1)
    if extras.suffix == "_obb":
        is_angle = bool((abs(rows[-1]) <= _MAX_ANGLE).all())
        return bool(outside[-1] and not outside[:-1].any() and is_angle)
    return bool(outside.sum() > 1 and not outside[0])


def _read_rows_with_counted_extras(
    output: NetworkOutput, outputs: Outputs, hints: Hints
) -> Iterator[Head]:
    """Yield `end2end_seg`, `end2end_pose` or `end2end_obb` without metadata.

    Prototypes of masks tell the first, seven columns the last; keypoints the user has to count.
    """
    columns, values = output.dims[1], output.values
    if columns < 7 or values is None or not values[:, 4].any():
        return
    extras = _masks(outputs, hints)
    if extras.missing:
        is_angle = columns == 7 and hints.options.head != "end2end_pose"
        extras = _ANGLES if is_angle else _keypoints(outputs, hints)
    yield from _read_rows_with_extras(output, extras, hints)


def _read_rows_with_extras(output: NetworkOutput, extras: _Extras, hints: Hints) -> Iterator[Head]:
    """Yield the head [K, 6 + more], or nothing where rows are not such detections."""
    output = output if output.has_batch else edited_output(output, ADDED_BATCH)
    rows, columns = output.dims
    more = columns - 6
    if more < 1 or rows > _MAX_FINAL_ROWS or not may_be_detections(output.values):
        return
    if not extras.missing and more != extras.count:
        return
    reason = f"{output.name} [{rows}, 6 + {more}]: each row a box, a score, a class, and more"
    head = rows_head(output, hints, reason)
    parameters = {**head.parameters, **extras.parameters}
    if extras is _ANGLES:  # whose boxes have centres and sizes, and are not suppressed
        parameters = {"box_unit": head.parameters["box_unit"]}
    yield replace(
        head,
        family=f"end2end{extras.suffix}",
        inputs={"head": output, **extras.inputs},
        parameters=parameters,
        missing=_missing_keypoints(more) if extras.missing else "",
    )


def _missing_keypoints(more: int) -> str:
    """Return how the user says how many keypoints that many columns are."""
    choices = [f"--set num_keypoints={more // 3}"] if more % 3 == 0 else []
    if more % 2 == 0:
        choices.append(f"--set num_keypoints={more // 2} --set keypoint_values=2")
    given = " or ".join(choices) or "its keypoints with two or three numbers each"
    return f"{more} columns behind the class may be keypoints; if so, give {given}"


def _read_rows(output: NetworkOutput, hints: Hints) -> Iterator[Head]:
    """Yield `end2end` for rows [K, 6] of a box, a score and a class id."""
    output = output if output.has_batch else edited_output(output, ADDED_BATCH)
    rows, columns = output.dims
    if columns != 6 or not may_be_detections(output.values):
        return
    reason = f"{output.name} [{rows}, 6]: each row a box, a score and a class"
    head = rows_head(output, hints, reason)
    is_likely = rows <= _MAX_FINAL_ROWS
    is_sure = is_likely and find_grids(rows, hints.size) is None
    yield replace(head, is_sure=is_sure, is_likely=is_likely)


def _read_joined_queries(output: NetworkOutput, hints: Hints) -> Iterator[Head]:
    """Yield `rtdetr` for rows [Q, 4 + C] of queries: a box in fractions of the image and scores."""
    rows, columns = output.dims
    if columns < 5:
        return
    values = output.values
    boxes, scores = (None, None) if values is None else (values[:, :4], values[:, 4:])
    activation = score_activation(scores)
    fits = hints.metadata.head == RTDETR_DECODER or (
        not hints.metadata.head
        and columns <= _MAX_JOINED_COLUMNS
        and rows in QUERIES
        and find_grids(rows, hints.size) is None
        and boxes is not None
        and bool(boxes.any())
        and are_fractions(boxes)
    )
    if not fits or activation is None:
        return
    unit = Decision("normalized", FAMILY_DEFAULT)
    parameters = {
        "joined": Decision("true", "boxes and scores are one output"),
        "box_unit": unit if boxes is None or not boxes.any() else box_unit(boxes),
        "activation": activation,
    }
    reason = f"{output.name} [{rows}, 4 + {columns - 4}]: a row for each query"
    yield Head(
        "rtdetr", {"head": output}, columns - 4, reason, parameters=parameters, preset="rtdetr"
    )


def _read_grids(output: NetworkOutput, hints: Hints) -> Iterator[Head]:
    """Yield `yolov8`, `yolov5` and `yolox` for one output, as far as it fits."""
    rows, columns = output.dims
    metadata = hints.metadata
    named = len(metadata.names) if metadata.names else None
    if rows > 4:
        grids, classes = find_grids(columns, hints.size), rows - 4
        # Of Ultralytics, all of whose detectors have this head.
        is_declared = metadata.is_ultralytics and metadata.task == "detect" and named == classes
        if grids is not None or rows < columns:
            is_sure = grids is not None and grids.anchors == 1 and named in (None, classes)
            yield from _grid_head(output, hints, is_sure=is_sure, is_declared=is_declared)
    grids = find_grids(rows, hints.size)
    has_cells = grids is not None and grids.anchors == 1
    if columns > 5:
        classes = columns - 5
        # One anchor a cell may also be a yolov8 head the other way round, of one class more.
        fitting = (None, classes) if grids is not None and not has_cells else (classes,)
        if grids is not None or columns < rows:
            is_sure = grids is not None and named in fitting
            yield from _grid_head(output, hints, family="yolov5", is_sure=is_sure)
        if grids is not None and has_cells:
            yield _yolox(output, grids, fits_names=named in (None, classes))
    if columns > 4 and named != columns - 5 and has_cells and output.has_batch:
        transposed = edited_output(output, OutputEdit(transposes=True))
        yield from _grid_head(transposed, hints, is_sure=named == columns - 4)


def _yolox(output: NetworkOutput, grids: Grids, *, fits_names: bool) -> Head:
    """Return a head whose boxes are relative to cells: logarithms of sizes, some negative."""
    rows, columns = output.dims
    values = output.values
    is_relative = values is not None and not have_sizes(values[:, :4])
    activation = score_activation(None if values is None else values[:, 4:])
    parameters = {} if activation is None else {"activation": activation}
    if grids.strides != (8, 16, 32):
        levels = ";".join(f"{stride}:{stride}x{stride}" for stride in grids.strides)
        parameters["anchor_grid"] = Decision(levels, f"the output has a row for each of {grids}")
    are_scores = activation is not None and activation.value == "none"
    return Head(
        "yolox",
        {"head": output},
        columns - 5,
        f"{output.name} [{rows}, 5 + {columns - 5}]: {grids}, with boxes relative to them",
        is_sure=is_relative and are_scores and fits_names,
        parameters=parameters,
        is_likely=is_relative,
    )


def _grid_head(
    output: NetworkOutput,
    hints: Hints,
    *,
    family: str = "",
    extras: _Extras = _NOTHING,
    is_declared: bool = False,
    is_sure: bool | None = None,
) -> Iterator[Head]:
    """Yield yolov8 [4 + C + extras, A] or yolov5 [A, 5 + C]; nothing if boxes are not decoded.

    Args:
        output: The head.
        hints: What is known in addition to it.
        family: yolov5; "" for yolov8 with the extras.
        extras: What stands behind the scores.
        is_declared: Whether the metadata names the family, so that the values need not show it.
        is_sure: None: where there is one anchor in each cell.
    """
    dims, family = output.dims, family or extras.family
    rows = None if output.values is None else output.values.T
    if family == "yolov5":  # the objectness counts as a score
        rows, classes, parts = output.values, dims[1] - 5, f"{dims[0]}, 5 + {dims[1] - 5}"
        grids, scored = find_grids(dims[0], hints.size), classes + 1
    else:
        classes = scored = dims[0] - 4 - extras.count
        grids = find_grids(dims[1], hints.size)
        parts = f"4 + {classes}{f' + {extras.count}' if extras.count else ''}, {dims[1]}"
    if classes < 1:
        return
    boxes, scores = (None, None) if rows is None else (rows[:, :4], rows[:, 4 : 4 + scored])
    if boxes is not None and not have_sizes(boxes):
        return
    measured = {
        "box_format": _grid_box_format(boxes, is_known=is_declared or extras is _ANGLES),
        "box_unit": box_unit(boxes),
        "activation": score_activation(scores),
    }
    known = {name: decision for name, decision in measured.items() if decision is not None}
    reason = f"{output.name} [{parts}]: {grids or 'as many anchors as no usual grids have'}"
    if output.edit.transposes:
        reason += ", transposed behind the network"
    doubts = []
    if boxes is None:
        doubts.append("it could not be tried")
    elif not cover_image(boxes, hints.size):
        doubts.append("the boxes of a trial run do not cover the image, as if not decoded")
    if "box_format" not in known:
        doubts.append("its boxes may be corners as well as centres and sizes")
    if "activation" not in known and not extras.missing:
        doubts.append("its scores are of several kinds, as with keypoints, masks or angles")
    if is_sure is None:
        is_sure = grids is not None and grids.anchors == 1 and not extras.missing
    # Ultralytics trains heads with anchor boxes (YOLOv5) and heads without objectness (YOLOv8);
    # others train those with an objectness and no anchor boxes.
    is_ultralytics = grids is not None and (grids.anchors > 1 or family != "yolov5")
    yield Head(
        family,
        {"head": output, **extras.inputs},
        classes,
        "; but ".join([reason, *doubts]),
        is_sure=is_declared or (is_sure and not doubts),
        parameters=known | dict(extras.parameters),
        preset="ultralytics" if is_ultralytics else None,
        is_likely=grids is not None and ("activation" in known or bool(extras.missing)),
        missing=extras.missing,
    )


def _grid_box_format(boxes: Numbers | None, *, is_known: bool) -> Decision | None:
    """Return the format of boxes around cells; None where they may be corners, too."""
    if is_known:
        return Decision("cxcywh", FAMILY_DEFAULT)
    if boxes is None:
        return Decision("cxcywh", f"{FAMILY_DEFAULT}; it could not be tried")
    return None if are_corners(boxes) else Decision("cxcywh", NO_CORNERS)


# Operators that leave numbers what they are, and those of a last layer without an activation.
_REARRANGING = {"Identity", "Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose"}
_LINEAR = {"Gemm", "MatMul", "Add", "Conv"}


def read_classifier(outputs: Outputs, hints: Hints) -> Iterator[Head]:
    """Read outputs with one number for each class.

    A row of numbers may as well be an embedding of the image: it is sure only where the user or
    the metadata give the number of classes or say that it is a classifier, or a softmax is over it.
    A single number is looked at where it is the only output, or the user says what it is.
    """
    classifies = hints.options.head == "classification" or hints.metadata.task == "classify"
    fitting = [each for each in outputs if _is_row(each) and not _are_of_boxes(each, outputs)]
    rows = [each for each in fitting if each.dims and each.dims[0] > 1]
    if rows or not (classifies or len(outputs) == 1):
        fitting = rows
    for each in fitting:
        output = each if each.dims else edited_output(each, OutputEdit(shape=(1,)))
        classes = output.dims[0]
        operator = _last_operator(hints.graph, output.name)
        is_sure = hints.num_classes == classes or (
            (classifies or operator == "Softmax")
            and hints.num_classes is None
            and len(fitting) == 1
        )
        meaning = "the score of one class" if classes == 1 else "a number for each class"
        if not is_sure:
            meaning += f", or {'an estimate' if classes == 1 else 'a description of the image'}"
        reason = f"{output.name} {list(output.dims)}: {meaning}"
        activation = _classifier_activation(operator, output)
        parameters = {} if activation is None else {"activation": activation}
        yield Head("classification", {"logits": output}, classes, reason, is_sure, parameters)


def _are_of_boxes(output: NetworkOutput, outputs: Outputs) -> bool:
    """Return whether there is a box for each number, or a box and a score."""
    return any(each.shape in ((*output.shape, 4), (*output.shape, 5)) for each in outputs)


def _is_row(output: NetworkOutput) -> bool:
    return output.is_float and output.dims[:1] != (0,) and all(one == 1 for one in output.dims[1:])


def _classifier_activation(operator: str, output: NetworkOutput) -> Decision | None:
    """Return what the numbers still need; None where neither graph nor trial run shows it."""
    if operator in ("Softmax", "Sigmoid"):
        return Decision("none", f"the network ends in {operator}")
    values, is_one = output.values, output.dims[0] == 1
    if is_one and operator in _LINEAR:
        return Decision("sigmoid", f"one number for one class, and the network ends in {operator}")
    if values is None:
        return None
    low, high = float(values.min()), float(values.max())
    if low < 0 or high > 1:
        needed = "sigmoid" if is_one else "softmax"
        reason = f"the network ends in {operator}; a trial run gave {low:.2f} to {high:.2f}"
        return Decision(needed, reason)
    if abs(float(values.sum()) - 1) < 1e-3 and not is_one:
        return Decision("none", "a trial run's scores are not negative and add up to 1")
    return None


def _last_operator(graph: Any, tensor: str) -> str:
    """Return the last operator that changes numbers on the way to an output."""
    producers = {name: node for node in graph.node for name in node.output}
    while (node := producers.get(tensor)) is not None:
        if node.op_type not in _REARRANGING:
            return str(node.op_type)
        tensor = node.input[0]
    return "its input"
