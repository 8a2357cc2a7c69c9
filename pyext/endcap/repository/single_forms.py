"""Forms of one output with all of a head: grids, queries, rows after suppression, and classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from endcap.repository.finished_forms import rows_head
from endcap.repository.head_evidence import (
    FAMILY_DEFAULT,
    NO_CORNERS,
    Head,
    Hints,
    Outputs,
    are_corners,
    are_fractions,
    box_unit,
    cover_image,
    have_sizes,
    may_be_detections,
    score_activation,
)
from endcap.repository.metadata import RTDETR_DECODER
from endcap.repository.network_tensors import NetworkOutput, OutputEdit
from endcap.repository.options import Decision, with_reason
from endcap.triton.model_contract import postprocess_contract

QUERIES = range(50, 1001)  # of transformers
_MAX_FINAL_ROWS = 1000  # of networks with suppression inside
# Strides of the grids: three, with a coarser one (P6), with a finer one (P2), or both.
_STRIDES = ((8, 16, 32), (8, 16, 32, 64), (4, 8, 16, 32), (4, 8, 16, 32, 64))
_ANCHORS_PER_CELL = (1, 3)  # without and with anchor boxes
_MAX_JOINED_COLUMNS = 1000  # of a row with a box and a score for each class
_USUAL_MASKS = 32  # prototypes of Ultralytics' segmentation heads
_KEYPOINTS = ("num_keypoints", "keypoint_values")
_TASKS = {"segment": "seg", "pose": "pose", "obb": "obb"}  # the suffixes of families
_POSE_OPTIONS = (
    "--head yolov8_pose --set num_keypoints=17, or another number, and --set keypoint_values=2 "
    "where a keypoint has x and y alone"
)
_YOLOX_RECIPE = {"color": "bgr", "scale": "1", "pad_align": "top_left"}


class Grids(NamedTuple):
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
    sides = sorted(each.dims[1:3] for each in outputs)
    return any(
        sides == sorted(tuple(-(-side // stride) for side in size) for stride in strides)
        for strides in _STRIDES
    )


@dataclass(frozen=True)
class _Extras:
    """What stands behind the scores of a YOLO head, or behind the class of finished rows."""

    kind: str = ""  # the suffix of the family: seg, pose, obb; "" for nothing
    count: int = 0  # rows or columns; where they end and the scores begin is in no shape
    inputs: Mapping[str, NetworkOutput] = field(default_factory=dict)  # in addition to the head
    parameters: Mapping[str, Decision] = field(default_factory=dict)
    missing: str = ""  # as in Head; `count` is then not known


def _read_extras(kind: str, outputs: Outputs, hints: Hints) -> _Extras:
    if kind == "seg":
        prototypes = [each for each in outputs if len(each.dims) == 3 and each.is_float]
        if len(prototypes) != 1:
            missing = "it needs one output [M, height, width], prototypes of masks"
            return _Extras(kind, missing=missing)
        count, height, width = prototypes[0].dims
        values = {"mask_coefficients": str(count), "prototype_size": f"{height},{width}"}
        parameters = with_reason(values, f"the shape of {prototypes[0].name}")
        return _Extras(kind, count, {"protos": prototypes[0]}, parameters)
    if kind == "obb":
        suppression = Decision("probiou_fast", "as Ultralytics suppresses rotated boxes")
        return _Extras(kind, 1, parameters={"rotated_nms": suppression})
    if kind == "":
        return _Extras()
    values = dict(zip(_KEYPOINTS, map(str, hints.metadata.keypoints or ()), strict=False))
    values |= {name: value for name, value in hints.options.settings.items() if name in _KEYPOINTS}
    if "num_keypoints" not in values:
        return _Extras(kind, missing=f"its number of keypoints is unknown; give {_POSE_OPTIONS}")
    known = postprocess_contract({"head": "yolov8_pose", **values}).parameters
    reason = "kpt_shape in the metadata" if hints.metadata.keypoints else "as many as were given"
    count = int(known["num_keypoints"]) * int(known["keypoint_values"])
    return _Extras(kind, count, {}, {name: Decision(known[name], reason) for name in _KEYPOINTS})


def read_single(outputs: Outputs, hints: Hints) -> Iterator[Head]:
    """Read one output with boxes, scores and maybe masks, keypoints or angles."""
    for output in outputs:
        if len(output.dims) == 2 and output.is_float and output.values.size:
            rows = tuple(_read_rows(output, outputs, hints))
            yield from rows or _read_joined_queries(output, hints)
            if not (rows and hints.metadata.task in _TASKS):
                yield from _read_grids(output, outputs, hints)


def _read_rows(output: NetworkOutput, outputs: Outputs, hints: Hints) -> Iterator[Head]:
    """Yield `end2end` for rows [K, 6 + more] of a box, a score, a class id, and more.

    Prototypes of masks tell masks, one column an angle; keypoints the user has to count.
    """
    output = output.with_batch()
    (rows, columns), metadata = output.dims, hints.metadata
    if columns < 6 or rows > _MAX_FINAL_ROWS or not may_be_detections(output.values):
        return
    extras, more = _Extras(), columns - 6
    if more:
        is_declared = metadata.is_end2end or metadata.has_nms
        if not is_declared and (find_grids(columns, hints.size) or not output.values[:, 4].any()):
            return
        extras = _read_extras("seg", outputs, hints)
        if extras.count != more:
            has_angle = more == 1 and hints.options.head != "end2end_pose"
            extras = _read_extras("obb" if has_angle else "pose", outputs, hints)
        if not extras.missing and extras.count != more:
            return
    parts, end = (f"6 + {more}", ", a class, and more") if more else ("6", " and a class")
    reason = f"{output.name} [{rows}, {parts}]: a box, a score{end} in a row"
    head = rows_head(output, hints, reason)
    parameters, missing = {**head.parameters, **extras.parameters}, extras.missing
    if extras.kind == "obb":  # whose boxes have centres and sizes, and are not suppressed
        parameters = {"box_unit": head.parameters["box_unit"]}
    if missing:
        missing = f"{more} columns behind the class may be keypoints, and {missing}"
    yield replace(
        head,
        family="_".join(filter(None, ("end2end", extras.kind))),
        inputs={"head": output, **extras.inputs},
        parameters=parameters,
        missing=missing,
        is_sure=bool(more) or find_grids(rows, hints.size) is None,
    )


def _read_joined_queries(output: NetworkOutput, hints: Hints) -> Iterator[Head]:
    """Yield `rtdetr` for rows [Q, 4 + C] of queries: a box in fractions of the image and scores."""
    rows, columns = output.dims
    if columns < 5:
        return
    boxes, activation = output.values[:, :4], score_activation(output.values[:, 4:])
    fits = hints.metadata.head == RTDETR_DECODER or (
        not hints.metadata.head
        and columns <= _MAX_JOINED_COLUMNS
        and rows in QUERIES
        and find_grids(rows, hints.size) is None
        and bool(boxes.any())
        and are_fractions(boxes)
    )
    if fits and activation is not None:
        parameters = {
            "joined": Decision("true", "boxes and scores are one output"),
            "box_unit": box_unit(boxes) if boxes.any() else Decision("normalized", FAMILY_DEFAULT),
            "activation": activation,
        }
        reason = f"{output.name} [{rows}, 4 + {columns - 4}]: a row for each query"
        inputs = {"head": output}
        yield Head("rtdetr", inputs, columns - 4, reason, parameters=parameters, preset="rtdetr")


def _read_grids(output: NetworkOutput, outputs: Outputs, hints: Hints) -> Iterator[Head]:
    """Yield heads [4 + C + more, A] and [A, 5 + C], of grids."""
    metadata, (rows, columns) = hints.metadata, output.dims
    if metadata.task in _TASKS:
        if not (metadata.is_end2end or metadata.has_nms):
            kind = _TASKS[metadata.task]
            yield from _grid_head(output, hints, _read_extras(kind, outputs, hints))
        return
    shown = {
        "": True,
        "seg": _read_extras("seg", outputs, hints).count == _USUAL_MASKS,
        "pose": "num_keypoints" in hints.options.settings,
        "obb": False,
    }
    for kind, is_shown in shown.items():
        if is_shown or hints.options.head == f"yolov8_{kind}":
            yield from _grid_head(output, hints, _read_extras(kind, outputs, hints))
    yield from _grid_head(output, hints, _Extras(), has_objectness=True)
    named = len(metadata.names) if metadata.names else None
    grids = find_grids(rows, hints.size)
    if grids is None or grids.anchors != 1:
        return
    if columns > 5 and not have_sizes(output.values[:, :4]):
        yield _yolox(output, grids, fits_names=named in (None, columns - 5))
    if columns > 4 and named != columns - 5 and output.has_batch:
        transposed = output.edited(OutputEdit(transposes=True))
        yield from _grid_head(transposed, hints, _Extras(), is_sure=named == columns - 4)


def _yolox(output: NetworkOutput, grids: Grids, *, fits_names: bool) -> Head:
    """Return a head whose boxes are relative to cells: logarithms of sizes, some negative."""
    rows, columns = output.dims
    activation = score_activation(output.values[:, 4:])
    parameters = {} if activation is None else {"activation": activation}
    if grids.strides != (8, 16, 32):
        levels = ";".join(f"{stride}:{stride}x{stride}" for stride in grids.strides)
        parameters["anchor_grid"] = Decision(levels, f"the output has a row for each of {grids}")
    reason = "as YOLOX's own code prepares images, since its version 0.2"
    return Head(
        "yolox",
        {"head": output},
        columns - 5,
        f"{output.name} [{rows}, 5 + {columns - 5}]: {grids}, with boxes relative to them",
        is_sure=activation is not None and activation.value == "none" and fits_names,
        parameters=parameters,
        preset="ultralytics",
        recipe=with_reason(_YOLOX_RECIPE, reason),
    )


def _grid_head(
    output: NetworkOutput,
    hints: Hints,
    extras: _Extras,
    *,
    has_objectness: bool = False,
    is_sure: bool = True,
) -> Iterator[Head]:
    """Yield yolov8 [4 + C + extras, A] or yolov5 [A, 5 + C]; nothing if boxes are not decoded."""
    metadata, kind = hints.metadata, extras.kind
    family = "yolov5" if has_objectness else "_".join(filter(None, ("yolov8", kind)))
    table = output.values if has_objectness else output.values.T
    anchors, columns = table.shape
    classes = columns - 4 - has_objectness - extras.count
    boxes, scores = table[:, :4], table[:, 4 : columns - extras.count]
    grids = find_grids(anchors, hints.size)
    named = len(metadata.names) if metadata.names else None
    if kind:
        is_declared = _TASKS.get(metadata.task) == kind
        if is_declared and named not in (None, classes) and not extras.missing:
            return
    else:  # of Ultralytics, all of whose detectors have this head
        is_declared = metadata.is_ultralytics and metadata.task == "detect" and named == classes
        is_declared &= not has_objectness
    is_usual = grids is not None or is_declared or hints.options.head == family
    if classes < 1 or not is_usual or not have_sizes(boxes):
        return
    has_cells = grids is not None and grids.anchors == 1
    if has_objectness:
        # One anchor a cell may also be a yolov8 head the other way round, of one class more.
        is_sure = named == classes or (named is None and grids is not None and not has_cells)
    else:
        is_sure = is_sure and has_cells and (bool(kind) or named in (None, classes))
    parameters, doubts = {}, []
    if not cover_image(boxes, hints.size):
        doubts.append("the boxes of a trial run do not cover the image, as if not decoded")
    if is_declared or kind == "obb":
        parameters["box_format"] = Decision("cxcywh", FAMILY_DEFAULT)
    elif are_corners(boxes):
        doubts.append("its boxes may be corners as well as centres and sizes")
    else:
        parameters["box_format"] = Decision("cxcywh", NO_CORNERS)
    parameters["box_unit"] = box_unit(boxes)
    activation = None if extras.missing else score_activation(scores)
    if activation is not None:
        parameters["activation"] = activation
    else:
        doubts.append(
            "its scores are of several kinds, as with masks (give --head yolov8_seg), angles "
            f"(yolov8_obb) or keypoints ({_POSE_OPTIONS})"
        )
    parts = f"4 + {classes}{f' + {extras.count}' if extras.count else ''}, {anchors}"
    if has_objectness:
        parts = f"{anchors}, 5 + {classes}"
    reason = f"{output.name} [{parts}]: {grids or 'as many anchors as no usual grids have'}"
    if output.edit.transposes:
        reason += ", transposed behind the network"
    # Ultralytics trains heads with anchor boxes (YOLOv5) and heads without objectness (YOLOv8);
    # others train those with an objectness and no anchor boxes.
    is_ultralytics = grids is not None and not (has_objectness and has_cells)
    yield Head(
        family,
        {"head": output, **extras.inputs},
        classes,
        "; but ".join([reason, *doubts]),
        is_sure=is_declared or (is_sure and not doubts),
        parameters={**parameters, **extras.parameters},
        preset="ultralytics" if is_ultralytics else None,
        missing=extras.missing,
    )


# Operators that leave numbers what they are, and those of a last layer without an activation.
_REARRANGING = {"Identity", "Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose"}
_LINEAR = {"Gemm", "MatMul", "Add", "Conv"}


def read_classifier(outputs: Outputs, hints: Hints) -> Iterator[Head]:
    """Read outputs with one number for each class.

    A row of numbers may as well be an embedding of the image: it is sure only where the user or
    the metadata give the number of classes or say that it is a classifier, or a softmax is over it.
    A single number is looked at where it is the only output, or the user says what it is, and none
    of which there is a box for each.
    """
    classifies = hints.options.head == "classification" or hints.metadata.task == "classify"
    fitting = [
        each
        for each in outputs
        if each.is_float
        and each.dims[:1] != (0,)
        and all(one == 1 for one in each.dims[1:])
        and not any(one.shape in ((*each.shape, 4), (*each.shape, 5)) for one in outputs)
    ]
    rows = [each for each in fitting if each.dims and each.dims[0] > 1]
    if rows or not (classifies or len(outputs) == 1):
        fitting = rows
    for each in fitting:
        output = each if each.dims else each.edited(OutputEdit(shape=(1,)))
        classes, operator = output.dims[0], _last_operator(hints.graph, output.name)
        is_only = hints.num_classes is None and len(fitting) == 1
        is_sure = hints.num_classes == classes or (
            is_only and (classifies or operator == "Softmax")
        )
        meaning = "the score of one class" if classes == 1 else "a number for each class"
        if not is_sure:
            meaning += f", or {'an estimate' if classes == 1 else 'a description of the image'}"
        reason = f"{output.name} {list(output.dims)}: {meaning}"
        activation = _classifier_activation(operator, output)
        parameters = {} if activation is None else {"activation": activation}
        yield Head("classification", {"logits": output}, classes, reason, is_sure, parameters)


def _classifier_activation(operator: str, output: NetworkOutput) -> Decision | None:
    """Return what the numbers still need; None where neither graph nor trial run shows it."""
    if operator in ("Softmax", "Sigmoid"):
        return Decision("none", f"the network ends in {operator}")
    values, is_one = output.values, output.dims[0] == 1
    if is_one and operator in _LINEAR:
        return Decision("sigmoid", f"one number for one class, and the network ends in {operator}")
    low, high = float(values.min()), float(values.max())
    if low < 0 or high > 1:
        reason = f"the network ends in {operator}; a trial run gave {low:.2f} to {high:.2f}"
        return Decision("sigmoid" if is_one else "softmax", reason)
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
