"""Heads of boxes and scores without grids: rtdetr (RT-DETR, RF-DETR, DETR) and ssd (and RetinaNet).

Shapes: boxes [N, 4], scores [N, columns], and, for some with anchors, those as [N, 4]; rtdetr also
as one output [N, 4 + C], and rtdetr_seg with masks [N, h, w]. RT-DETR and DETR call the boxes
pred_boxes, as transformers does; RF-DETR calls them dets, and the scores labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from endcap.repository.graph_edit import edited_output
from endcap.repository.grid_heads import find_grids
from endcap.repository.head_evidence import (
    Head,
    Hints,
    Numbers,
    are_corners,
    are_fractions,
    box_unit,
    cover_image,
    have_sizes,
    score_activation,
)
from endcap.repository.network_tensors import NetworkOutput, OutputEdit
from endcap.repository.onnx_file import RTDETR_DECODER
from endcap.repository.options import AS_GIVEN, Decision, decided_values

HIDDEN_STATE = "hidden_state"  # in names of transformers' outputs that are not results
_QUERY_BOXES_NAME = "pred_boxes"
_QUERY_FAMILIES = ("rtdetr", "rtdetr_seg")
# RF-DETR: what its exporter calls boxes, scores and keypoints; the scores of its weights for COCO.
_RFDETR_BOXES, _RFDETR_SCORES, _RFDETR_KEYPOINTS = "dets", "labels", "keypoints"
_COCO_IDS = 91
_LARGEST_EXCESS = 0.25  # of boxes from 0 to 1 that no sigmoid keeps there
_SCORE_NAMES = ("score", "logit", "cls", "class", "conf")  # what scores are called
_FEWEST_QUERIES = 50
_MOST_QUERIES = 1000
_MOST_JOINED_COLUMNS = 1000  # of a row with a box and a score for each class
_PLACES = {"none", "first", "last"}
# Of the boxes of noise, as many as this have their best score in the background column.
_LEAST_BACKGROUND_SHARE = 0.9
_SUM_TOLERANCE = 1e-2  # of rows after a softmax, in half precision
_ANCHOR_NAMES = ("anchor", "prior")  # what anchors are called
_YOLOV4_BOXES = {"anchors": "none", "box_format": "xyxy", "box_unit": "normalized"}
_EXAMPLE = "--set anchors=grid --set 'anchor_grid=8:16x16,32x32;16:64x64'"


def propose_pair(outputs: Sequence[NetworkOutput], hints: Hints) -> Iterator[Head]:
    """Yield what boxes and scores of as many rows may be, the likelier first."""
    heads = tuple(_propose_rfdetr(outputs, hints)) or _propose_by_shapes(outputs, hints)
    for head in heads:
        yield _with_masks(head, outputs, hints) if head.family == "rtdetr" else head


def _propose_rfdetr(outputs: Sequence[NetworkOutput], hints: Hints) -> Iterator[Head]:
    """Yield the head of RF-DETR, by the names that its exporter gives."""
    named = {output.name: output for output in outputs}
    boxes, scores = named.get(_RFDETR_BOXES), named.get(_RFDETR_SCORES)
    if boxes is None or scores is None or hints.wanted not in (None, *_QUERY_FAMILIES):
        return
    shapes_fit = len(scores.dims) == 2 and boxes.dims == (scores.dims[0], 4)
    if not (shapes_fit and boxes.is_float and scores.is_float):
        return
    reason = f"{scores.name} {list(scores.dims)} with {boxes.name}, as RF-DETR exports them"
    if _RFDETR_KEYPOINTS in named:
        yield Head("rfdetr_keypoints", {}, None, reason, is_sure=True)
    else:
        yield replace(_rfdetr(scores, boxes, reason, hints), preset="rfdetr")


def _with_masks(head: Head, outputs: Sequence[NetworkOutput], hints: Hints) -> Head:
    """Return a head of queries with the output that has a mask for each, if there is one."""
    rows = head.inputs["boxes"].dims[0]
    masks = [
        each
        for each in outputs
        if len(each.dims) == 3
        and each.dims[0] == rows
        and each.is_float
        and "mask" in each.name.lower()
    ]
    if len(masks) != 1 or hints.wanted == "rtdetr":
        return head
    _, height, width = masks[0].dims
    size = Decision(f"{height},{width}", f"the shape of {masks[0].name}")
    return replace(
        head,
        family="rtdetr_seg",
        inputs={**head.inputs, "masks": masks[0]},
        reason=f"{head.reason}, and {masks[0].name} {list(masks[0].dims)}",
        parameters={**head.parameters, "prototype_size": size},
    )


def _propose_by_shapes(outputs: Sequence[NetworkOutput], hints: Hints) -> Iterator[Head]:
    numbers = [each for each in outputs if each.is_float and HIDDEN_STATE not in each.name]
    planes = [_squeezed(output) for output in numbers]
    planes = _with_rows([output for output in planes if len(output.dims) == 2])
    boxes = [output for output in planes if output.dims[1] == 4 != output.dims[0]]
    scores = [
        output
        for output in planes
        if output not in boxes and any(output.dims[0] == each.dims[0] for each in boxes)
    ]
    if not scores and len(boxes) > 1:  # scores of four classes: names distinguish them, or values
        scores = [each for each in boxes if any(part in each.name.lower() for part in _SCORE_NAMES)]
        if not scores and len(boxes) == 2:
            scores = [each for each in boxes if not _may_be_queries(each)]
            scores = scores if len(scores) == 1 else []
        boxes = [each for each in boxes if each not in scores]
    for each in scores:
        with_rows = [box for box in boxes if box.dims[0] == each.dims[0]]
        if with_rows:
            yield from _propose_rows(each, with_rows, hints)


def _squeezed(output: NetworkOutput) -> NetworkOutput:
    """Return boxes [N, 1, 4] as [N, 4]: as YOLOv4's exporter gives them, one for all classes."""
    if len(output.dims) != 3 or output.dims[1:] != (1, 4) or not output.has_batch:
        return output
    return edited_output(output, OutputEdit(shape=(output.dims[0], 4)))


def _with_rows(planes: Sequence[NetworkOutput]) -> list[NetworkOutput]:
    """Return the outputs of a pair with a row for each box, transposed where they have columns.

    Boxes [4, N] with scores [C, N], or, as PP-YOLOE gives them, boxes [N, 4] with scores [C, N].
    """
    if any(each.dims[1] == 4 for each in planes):
        counts = {each.dims[0] for each in planes if each.dims[1] == 4}
        if any(each.dims[1] != 4 and each.dims[0] in counts for each in planes):
            return [*planes]
    else:
        counts = {each.dims[1] for each in planes if each.dims[0] == 4}
    transposition = OutputEdit(transposes=True)
    columns = [each for each in planes if each.dims[1] in counts and each.dims[1] != 4]
    if len(columns) != (1 if any(each.dims[1] == 4 for each in planes) else 2):
        return [*planes]
    return [
        edited_output(each, transposition) if each in columns and each.has_batch else each
        for each in planes
    ]


def _propose_rows(
    scores: NetworkOutput, boxes: Sequence[NetworkOutput], hints: Hints
) -> Iterator[Head]:
    listed = " and ".join(f"{each.name} {list(each.dims)}" for each in boxes)
    reason = f"{scores.name} {list(scores.dims)} with {listed}"
    of_queries = [each for each in boxes if _QUERY_BOXES_NAME in each.name]
    if not of_queries and len(boxes) == 1 and _are_of_queries(boxes[0], hints):
        of_queries = [*boxes]
    if of_queries or hints.wanted in _QUERY_FAMILIES:
        yield _queries(scores, (of_queries or boxes)[0], reason, hints)
    if not of_queries or hints.wanted == "ssd":
        yield _anchors(scores, boxes, reason, hints)


def _are_of_queries(boxes: NetworkOutput, hints: Hints) -> bool:
    """Return whether boxes are as many as queries, and centres and sizes in the image."""
    values, rows = boxes.values, boxes.dims[0]
    is_detector = hints.metadata.task == "detect"  # of transformers, by its config.json
    return (
        _FEWEST_QUERIES <= rows <= _MOST_QUERIES
        and find_grids(rows, hints.size) is None
        and hints.settings.get("anchors") is None
        and values is not None
        and _may_be_queries(boxes)
        and (is_detector or not are_corners(values))
    )


def _may_be_queries(boxes: NetworkOutput) -> bool:
    values = boxes.values
    if values is None or not values.any():
        return False
    return are_fractions(values) or _exceed_fractions(values)


def _exceed_fractions(boxes: Numbers) -> bool:
    """Return whether boxes are centres and sizes from 0 to 1 that leave that range a little.

    RF-DETR's do, as it moves a reference box; RT-DETR's and DETR's are of a sigmoid.
    """
    excess = max(float(-boxes.min()), float(boxes.max()) - 1)
    return not are_fractions(boxes) and have_sizes(boxes) and excess <= _LARGEST_EXCESS


def _rfdetr(scores: NetworkOutput, boxes: NetworkOutput, reason: str, hints: Hints) -> Head:
    """Return RF-DETR's head: every class of a query is a candidate, whatever its last score is."""
    columns, classes = scores.dims[1], hints.num_classes
    missing = ""
    given = hints.settings.get("background")
    if given in _PLACES:
        background = Decision(given, AS_GIVEN)
    elif classes == columns:
        background = Decision("none", f"{columns} scores for as many classes")
    elif classes == columns - 1:
        why = "one score more than classes, which fine-tuned RF-DETR has for no object"
        background = Decision("last", why)
    elif classes is None and columns == _COCO_IDS:
        why = (
            f"assumed: {columns} scores, as RF-DETR's weights for COCO have for its category ids "
            f"from 0 to {columns - 1}; with --num-classes {columns - 1} the last is for no object"
        )
        background = Decision("none", why)
    else:
        background = Decision("none", "")
        missing = _missing_rfdetr_classes(scores, classes)
    unit = Decision("normalized", "what this family gives")
    activation = Decision("sigmoid", "what RF-DETR's scores need")
    has_background = background.value != "none"
    return Head(
        "rtdetr",
        {"logits": scores, "boxes": boxes},
        None if missing else columns - has_background,
        reason,
        is_sure=True,
        parameters={"box_unit": unit, "background": background, "activation": activation},
        missing=missing,
    )


def _missing_rfdetr_classes(scores: NetworkOutput, classes: int | None) -> str:
    columns = scores.dims[1]
    choices = (
        f"--num-classes {columns - 1}, or --labels with as many lines, for a network fine-tuned by "
        f"RF-DETR, whose last score is for no object, or {columns} where each score is a class's"
    )
    if classes is None:
        what = f"the last of the {columns} scores of {scores.name} is"
        return f"nothing tells what {what}; give {choices}"
    coco = ""
    if columns == _COCO_IDS:
        coco = f" (as in its weights for COCO, whose category ids go from 0 to {columns - 1})"
    return (
        f"{scores.name} has {columns} scores for each box, and the classes are {classes}; give "
        f"{choices}{coco}"
    )


def _queries(scores: NetworkOutput, boxes: NetworkOutput, reason: str, hints: Hints) -> Head:
    if boxes.values is not None and _exceed_fractions(boxes.values):
        return _rfdetr(scores, boxes, reason, hints)
    read = read_pair_scores(scores, hints, background_place="last")
    unit = Decision("normalized", "what this family gives")
    if boxes.values is not None and boxes.values.any():
        unit = box_unit(boxes.values)
    parameters = {"box_unit": unit, **read.parameters}
    if read.has_background:
        parameters["multi_label"] = Decision("false", "as DETR's queries are one object or none")
    return Head(
        "rtdetr",
        {"logits": scores, "boxes": boxes},
        read.num_classes,
        reason,
        is_sure=True,
        parameters=parameters,
        missing=read.missing,
    )


def _anchors(
    scores: NetworkOutput, boxes: Sequence[NetworkOutput], reason: str, hints: Hints
) -> Head:
    read = read_pair_scores(scores, hints, background_place=None)
    placed = read_anchor_boxes(boxes, hints, has_background=read.has_background)
    inputs = {"boxes": placed.boxes, "scores": scores}
    parameters = {**read.parameters, **placed.parameters}
    recipe: dict[str, Decision] = {}
    if placed.boxes.edit.shape and decided_values(placed.parameters) == _YOLOV4_BOXES:
        parameters["multi_label"] = Decision("false", "YOLOv4's own code takes a box's best class")
        reason_of_fit = "YOLOv4's own code resizes images without keeping their aspect ratio"
        recipe["fit"] = Decision("stretch", reason_of_fit)
    if placed.anchors is not None:
        inputs["anchors"] = placed.anchors
    return Head(
        "ssd",
        inputs,
        read.num_classes,
        reason,
        is_sure=True,
        parameters=parameters,
        preset="ultralytics" if recipe else None,
        recipe=recipe,
        missing=read.missing or placed.missing,
    )


def are_anchors(outputs: Sequence[NetworkOutput], head: Head) -> bool:
    """Return whether outputs are anchors [A, 4] of an ssd head whose boxes are decoded."""
    (where, boxes) = (head.parameters.get("anchors"), head.inputs["boxes"])
    return (where is not None and where.value == "none") and all(
        each.dims == boxes.dims and any(part in each.name.lower() for part in _ANCHOR_NAMES)
        for each in outputs
    )


def propose_joined_queries(output: NetworkOutput, hints: Hints) -> Iterator[Head]:
    """Yield `rtdetr` for rows [Q, 4 + C] of queries: a box in fractions of the image and scores."""
    rows, columns = output.dims
    if columns < 5:
        return
    values = output.values
    boxes, scores = (None, None) if values is None else (values[:, :4], values[:, 4:])
    activation = score_activation(scores)
    if hints.metadata.head:
        fits = hints.metadata.head == RTDETR_DECODER
    else:
        fits = (
            columns <= _MOST_JOINED_COLUMNS
            and _FEWEST_QUERIES <= rows <= _MOST_QUERIES
            and find_grids(rows, hints.size) is None
            and boxes is not None
            and bool(boxes.any())
            and are_fractions(boxes)
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


@dataclass(frozen=True)
class PairScores:
    """What the columns of scores are.

    Attributes:
        parameters: Of postprocess.
        missing: As in `Head`.
    """

    num_classes: int | None
    has_background: bool
    parameters: Mapping[str, Decision] = field(default_factory=dict)
    missing: str = ""


def read_pair_scores(
    scores: NetworkOutput, hints: Hints, *, background_place: str | None
) -> PairScores:
    """Return what the columns are.

    Args:
        scores: The output.
        hints: What is known beside it.
        background_place: Where the family has the background column; None: by the values.
    """
    columns, classes = scores.dims[1], hints.num_classes
    given = hints.settings.get("background")
    if given in _PLACES:
        return _read(scores, Decision(given, AS_GIVEN))
    if columns == 1:
        return _read(scores, Decision("none", "one score for each box"))
    if classes == columns:
        return _read(scores, Decision("none", f"{columns} scores for as many classes"))
    if classes is not None and classes != columns - 1:
        missing = (
            f"{scores.name} has {columns} scores for each box, and the classes are {classes}; give "
            "--labels FILE or --num-classes with as many, or one less where a score is for no "
            "object"
        )
        return PairScores(None, has_background=False, missing=missing)
    if classes is None and _are_of_sigmoid(scores.values):
        reason = "scores of a trial run are from 0 to 1 and do not add up to 1"
        return _read(scores, Decision("none", reason))
    if classes is None and not _add_up(scores.values):
        missing = (
            f"nothing tells whether one of the {columns} scores of {scores.name} is for no object; "
            f"give --labels FILE, or --num-classes {columns - 1} (one is, as in DETR and SSD) or "
            f"{columns} (none is, as in RT-DETR and RetinaNet)"
        )
        return PairScores(None, has_background=False, missing=missing)
    reason = "one score more than classes" if classes else "scores of a trial run add up to 1"
    place = Decision(background_place, reason) if background_place else _place(scores.values)
    if place is None:
        missing = (
            f"nothing tells which of the {columns} scores of {scores.name} is for no object; give "
            "--set background=first or last"
        )
        return PairScores(columns - 1, has_background=True, missing=missing)
    return _read(scores, place)


def _read(scores: NetworkOutput, background: Decision) -> PairScores:
    has_background = background.value != "none"
    return PairScores(
        scores.dims[1] - has_background,
        has_background,
        {"background": background, "activation": _activation(scores.values, has_background)},
    )


def _activation(values: Numbers | None, has_background: bool) -> Decision:
    family = "softmax" if has_background else "sigmoid"
    if values is None or not values.any():
        return Decision(family, "what networks with such scores need; it could not be seen")
    low, high = float(values.min()), float(values.max())
    if are_fractions(values):
        return Decision("none", "scores of a trial run are from 0 to 1")
    return Decision(family, f"scores of a trial run are from {low:.1f} to {high:.1f}")


def _add_up(values: Numbers | None) -> bool:
    """Return whether a softmax was over each row, which leaves detectors a column for no object."""
    if values is None or values.min() < 0:
        return False
    return bool((abs(values.sum(axis=1) - 1) < _SUM_TOLERANCE).all())


def _are_of_sigmoid(values: Numbers | None) -> bool:
    """Return whether scores are from 0 to 1 and no softmax was over each row."""
    if values is None or not values.any() or not are_fractions(values):
        return False
    return not _add_up(values)


def _place(values: Numbers | None) -> Decision | None:
    """Return where most boxes of noise have their best score, if at an end: the background."""
    if values is None:
        return None
    best = values.argmax(axis=1)
    for place, column in (("first", 0), ("last", values.shape[1] - 1)):
        share = float(np.mean(best == column))
        if share >= _LEAST_BACKGROUND_SHARE and values.any():
            reason = f"the {place} score is the best of {share:.0%} of the boxes of noise"
            return Decision(place, reason)
    return None


@dataclass(frozen=True)
class AnchorBoxes:
    """What the outputs [N, 4] are.

    Attributes:
        anchors: None where they are no output.
        parameters: Of postprocess.
        missing: As in `Head`.
    """

    boxes: NetworkOutput
    anchors: NetworkOutput | None = None
    parameters: Mapping[str, Decision] = field(default_factory=dict)
    missing: str = ""


def read_anchor_boxes(
    outputs: Sequence[NetworkOutput], hints: Hints, *, has_background: bool
) -> AnchorBoxes:
    """Return which of the outputs [N, 4] are boxes, and how they are read.

    Args:
        outputs: All outputs [N, 4], N that of the scores.
        hints: What is known beside them.
        has_background: Whether scores have a background column, as SSD's and not RetinaNet's.
    """
    forms = {output.name: _form(output.values, hints.size) for output in outputs}
    given = hints.settings.get("anchors")
    named = [each for each in outputs if any(part in each.name.lower() for part in _ANCHOR_NAMES)]
    if len(named) == len(outputs):  # a name of boxes, and not of what they are relative to
        named = []
    unnamed = [output for output in outputs if output not in named]
    offsets = [output for output in unnamed if forms[output.name] is None]
    decoded = [output for output in unnamed if forms[output.name] is not None]
    if given == "grid":
        return AnchorBoxes((offsets or decoded)[0], None, _variances(has_background))
    if given == "none":
        boxes = (decoded or offsets)[0]
        return AnchorBoxes(boxes, None, forms[boxes.name] or {})
    anchors = named or (decoded if offsets else [])
    if len(anchors) == len(offsets) == 1:
        where = Decision("input", f"{anchors[0].name} are boxes all over the image")
        form = forms[anchors[0].name] or {}
        parameters = {"anchors": where, **_variances(has_background), **form}
        return AnchorBoxes(offsets[0], anchors[0], parameters)
    if len(decoded) == 1 and not offsets:
        where = Decision("none", "boxes of a trial run lie all over the image")
        return AnchorBoxes(decoded[0], None, {"anchors": where, **(forms[decoded[0].name] or {})})
    return AnchorBoxes(outputs[0], missing=_missing_anchors(outputs))


def _missing_anchors(outputs: Sequence[NetworkOutput]) -> str:
    listed = " and ".join(output.name for output in outputs)
    if len(outputs) > 1:
        return (
            f"nothing tells which of {listed} are its boxes and which their anchors; export it "
            "with one of the two called anchors"
        )
    return (
        f"{listed} look like offsets from anchors, which are no output; describe the anchors, for "
        f"example {_EXAMPLE}, export it with them as an output, or say --set anchors=none where "
        "its boxes are decoded"
    )


def _form(values: Numbers | None, size: tuple[int, int]) -> dict[str, Decision] | None:
    """Return format and unit of boxes all over the image; None for others, such as offsets."""
    if values is None or not values.any():
        return None
    if are_corners(values):
        centres = np.hstack([(values[:, :2] + values[:, 2:]) / 2, values[:, 2:]])
        name, reason = "xyxy", "no box of a trial run has its corners the wrong way"
    elif have_sizes(values):
        centres, name = values, "cxcywh"
        reason = "boxes of a trial run cannot be corners: some are the wrong way"
    else:
        return None
    if not cover_image(centres, size):
        return None
    return {"box_format": Decision(name, reason), "box_unit": box_unit(values)}


def _variances(has_background: bool) -> dict[str, Decision]:
    if has_background:
        return {"variances": Decision("0.1,0.1,0.2,0.2", "SSD's, as a score is for no object")}
    return {"variances": Decision("1,1,1,1", "RetinaNet's, as each score is a class's")}
