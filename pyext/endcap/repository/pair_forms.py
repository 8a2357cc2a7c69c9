"""Forms of outputs with boxes in one and scores in another: queries (RT-DETR, DETR) and anchors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from endcap.repository.graph_edit import edited_output
from endcap.repository.head_evidence import (
    FAMILY_DEFAULT,
    Head,
    Hints,
    Numbers,
    Outputs,
    add_up,
    are_corners,
    are_fractions,
    box_unit,
    find_background,
    have_sizes,
    pair_activation,
    placed_box_parameters,
)
from endcap.repository.network_tensors import NetworkOutput, OutputEdit
from endcap.repository.options import AS_GIVEN, Decision, decided_values
from endcap.repository.single_forms import QUERIES, find_grids

HIDDEN_STATE = "hidden_state"  # in names of transformers' outputs that are not results
_QUERY_BOXES_NAME = "pred_boxes"
_QUERY_FAMILIES = ("rtdetr", "rtdetr_seg")
# RF-DETR: what its exporter calls boxes and scores, and the scores of its weights for COCO.
_RFDETR_BOXES, _RFDETR_SCORES = "dets", "labels"
_COCO_IDS = 91
_MAX_EXCESS = 0.25  # of boxes from 0 to 1 that no sigmoid keeps there
_PAIR_SCORE_NAMES = ("score", "logit", "cls", "class", "conf")
_PLACES = {"none", "first", "last"}
_ANCHOR_NAMES = ("anchor", "prior")
_YOLOV4_BOXES = {"anchors": "none", "box_format": "xyxy", "box_unit": "normalized"}
_EXAMPLE = "--set anchors=grid --set 'anchor_grid=8:16x16,32x32;16:64x64'"


def read_pair(outputs: Outputs, hints: Hints) -> Iterator[Head]:
    """Read boxes [N, 4] and scores [N, columns]: queries, some with masks, or anchors."""
    heads = tuple(_read_rfdetr(outputs, hints)) or _read_pair_by_shapes(outputs, hints)
    for head in heads:
        yield _with_masks(head, outputs, hints) if head.family == "rtdetr" else head


def _read_rfdetr(outputs: Outputs, hints: Hints) -> Iterator[Head]:
    """Yield the head of RF-DETR, by the names that its exporter gives."""
    named = {output.name: output for output in outputs}
    boxes, scores = named.get(_RFDETR_BOXES), named.get(_RFDETR_SCORES)
    if boxes is None or scores is None or hints.options.head not in (None, *_QUERY_FAMILIES):
        return
    shapes_fit = len(scores.dims) == 2 and boxes.dims == (scores.dims[0], 4)
    if shapes_fit and boxes.is_float and scores.is_float:
        reason = f"{scores.name} {list(scores.dims)} with {boxes.name}, as RF-DETR exports them"
        yield replace(_queries(scores, boxes, reason, hints, is_rfdetr=True), preset="rfdetr")


def _with_masks(head: Head, outputs: Outputs, hints: Hints) -> Head:
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
    if len(masks) != 1 or hints.options.head == "rtdetr":
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


def _read_pair_by_shapes(outputs: Outputs, hints: Hints) -> Iterator[Head]:
    numbers = [each for each in outputs if each.is_float and HIDDEN_STATE not in each.name]
    planes = [_squeezed(output) for output in numbers]
    planes = [*_with_rows([output for output in planes if len(output.dims) == 2])]
    boxes = [output for output in planes if output.dims[1] == 4 != output.dims[0]]
    scores = [
        output
        for output in planes
        if output not in boxes and any(output.dims[0] == each.dims[0] for each in boxes)
    ]
    if not scores and len(boxes) > 1:  # scores of four classes: names distinguish them, or values
        scores = [
            each for each in boxes if any(part in each.name.lower() for part in _PAIR_SCORE_NAMES)
        ]
        if not scores and len(boxes) == 2:
            scores = [each for each in boxes if not _may_be_queries(each.values)]
            scores = scores if len(scores) == 1 else []
        boxes = [each for each in boxes if each not in scores]
    for each in scores:
        with_rows = [box for box in boxes if box.dims[0] == each.dims[0]]
        if with_rows:
            yield from _read_pair_with_rows(each, with_rows, hints)


def _squeezed(output: NetworkOutput) -> NetworkOutput:
    """Return boxes [N, 1, 4] as [N, 4]: as YOLOv4's exporter gives them, one for all classes."""
    if len(output.dims) != 3 or output.dims[1:] != (1, 4) or not output.has_batch:
        return output
    return edited_output(output, OutputEdit(shape=(output.dims[0], 4)))


def _with_rows(planes: Outputs) -> Outputs:
    """Return the outputs of a pair with a row for each box, transposed where they have columns.

    Boxes [4, N] with scores [C, N], or, as PP-YOLOE gives them, boxes [N, 4] with scores [C, N].
    """
    boxes = [each for each in planes if each.dims[1] == 4]
    if boxes:
        counts = {each.dims[0] for each in boxes}
        if any(each.dims[1] != 4 and each.dims[0] in counts for each in planes):
            return planes
    else:
        counts = {each.dims[1] for each in planes if each.dims[0] == 4}
    columns = [each for each in planes if each.dims[1] in counts and each.dims[1] != 4]
    if len(columns) != (1 if boxes else 2):
        return planes
    edit = OutputEdit(transposes=True)
    return [
        edited_output(each, edit) if each in columns and each.has_batch else each for each in planes
    ]


def _read_pair_with_rows(scores: NetworkOutput, boxes: Outputs, hints: Hints) -> Iterator[Head]:
    listed = " and ".join(f"{each.name} {list(each.dims)}" for each in boxes)
    reason = f"{scores.name} {list(scores.dims)} with {listed}"
    of_queries = [each for each in boxes if _QUERY_BOXES_NAME in each.name]
    if not of_queries and len(boxes) == 1 and _are_of_queries(boxes[0], hints):
        of_queries = [*boxes]
    if of_queries or hints.options.head in _QUERY_FAMILIES:
        yield _queries(scores, (of_queries or boxes)[0], reason, hints)
    if not of_queries or hints.options.head == "ssd":
        yield _anchors(scores, boxes, reason, hints)


def _are_of_queries(boxes: NetworkOutput, hints: Hints) -> bool:
    """Return whether boxes are as many as queries, and centres and sizes in the image."""
    is_detector = hints.metadata.task == "detect"  # of transformers, by its config.json
    return (
        boxes.dims[0] in QUERIES
        and find_grids(boxes.dims[0], hints.size) is None
        and "anchors" not in hints.options.settings
        and boxes.values is not None
        and _may_be_queries(boxes.values)
        and (is_detector or not are_corners(boxes.values))
    )


def _may_be_queries(boxes: Numbers | None) -> bool:
    if boxes is None or not boxes.any():
        return False
    return are_fractions(boxes) or _exceed_fractions(boxes)


def _exceed_fractions(boxes: Numbers) -> bool:
    """Return whether boxes are centres and sizes from 0 to 1 that leave that range a little.

    RF-DETR's do, as it moves a reference box; RT-DETR's and DETR's are of a sigmoid.
    """
    excess = max(float(-boxes.min()), float(boxes.max()) - 1)
    return not are_fractions(boxes) and have_sizes(boxes) and excess <= _MAX_EXCESS


def _queries(
    scores: NetworkOutput,
    boxes: NetworkOutput,
    reason: str,
    hints: Hints,
    *,
    is_rfdetr: bool = False,
) -> Head:
    values = boxes.values
    is_rfdetr |= values is not None and _exceed_fractions(values)
    read = _read_scores(scores, hints, "rfdetr" if is_rfdetr else "detr")
    unit = Decision("normalized", FAMILY_DEFAULT)
    if not is_rfdetr and values is not None and values.any():
        unit = box_unit(values)
    parameters = {"box_unit": unit, **read.parameters}
    if is_rfdetr:
        parameters["activation"] = Decision("sigmoid", "what RF-DETR's scores need")
    elif read.has_background:
        parameters["multi_label"] = Decision("false", "as DETR's queries are one object or none")
    return Head(
        "rtdetr",
        {"logits": scores, "boxes": boxes},
        read.num_classes,
        reason,
        parameters=parameters,
        missing=read.missing,
    )


@dataclass(frozen=True)
class _Scores:
    """What the columns of scores next to boxes are; `missing` as in `Head`."""

    num_classes: int | None = None
    has_background: bool = False
    parameters: Mapping[str, Decision] = field(default_factory=dict)
    missing: str = ""


def _read_scores(scores: NetworkOutput, hints: Hints, kind: str) -> _Scores:
    """Return what the columns are.

    Args:
        scores: The output.
        hints: What is known in addition to it.
        kind: rfdetr, detr (both with the background column last), or ssd.
    """
    columns, classes, values = scores.dims[1], hints.num_classes, scores.values
    given = hints.options.settings.get("background")
    is_softmax = classes is None and kind != "rfdetr" and add_up(values)
    background = None
    if given in _PLACES:
        background = Decision(given, AS_GIVEN)
    elif classes == columns:
        background = Decision("none", f"{columns} scores for as many classes")
    elif columns == 1:
        background = Decision("none", "one score for each box")
    elif classes == columns - 1 or is_softmax:
        reason = "one score more than classes" if classes else "scores of a trial run add up to 1"
        background = find_background(values) if kind == "ssd" else Decision("last", reason)
        if background is None:
            missing = (
                f"nothing tells which of the {columns} scores of {scores.name} is for no object; "
                "give --set background=first or last"
            )
            return _Scores(columns - 1, has_background=True, missing=missing)
    elif classes is None and kind == "rfdetr" and columns == _COCO_IDS:
        background = Decision(
            "none",
            f"assumed: {columns} scores, as RF-DETR's weights for COCO have for its category ids "
            f"from 0 to {columns - 1}; with --num-classes {columns - 1} the last is for no object",
        )
    elif classes is None and kind != "rfdetr" and _are_of_sigmoid(values):
        reason = "scores of a trial run are from 0 to 1 and do not add up to 1"
        background = Decision("none", reason)
    if background is None:
        return _Scores(missing=_missing_classes(scores, classes))
    has_background = background.value != "none"
    activation = pair_activation(values, has_background=has_background)
    return _Scores(
        columns - has_background,
        has_background,
        {"background": background, "activation": activation},
    )


def _are_of_sigmoid(scores: Numbers | None) -> bool:
    return scores is not None and bool(scores.any()) and are_fractions(scores)


def _missing_classes(scores: NetworkOutput, classes: int | None) -> str:
    columns = scores.dims[1]
    choices = (
        f"--labels FILE, or --num-classes {columns - 1} (one is for no object, as in DETR, SSD and "
        f"fine-tuned RF-DETR) or {columns} (none is, as in RT-DETR and RetinaNet)"
    )
    if classes is None:
        return (
            f"nothing tells whether one of the {columns} scores of {scores.name} is for no object; "
            f"give {choices}"
        )
    return (
        f"{scores.name} has {columns} scores for each box, and the classes are {classes}; give "
        f"{choices}"
    )


def _anchors(scores: NetworkOutput, boxes: Outputs, reason: str, hints: Hints) -> Head:
    read = _read_scores(scores, hints, "ssd")
    inputs, placed, missing = _read_anchor_boxes(boxes, hints, has_background=read.has_background)
    parameters = {**read.parameters, **placed}
    recipe: dict[str, Decision] = {}
    if inputs["boxes"].edit.shape and decided_values(placed) == _YOLOV4_BOXES:
        parameters["multi_label"] = Decision("false", "YOLOv4's own code takes a box's best class")
        reason_of_fit = "YOLOv4's own code resizes images without keeping their aspect ratio"
        recipe["fit"] = Decision("stretch", reason_of_fit)
    return Head(
        "ssd",
        {"boxes": inputs.pop("boxes"), "scores": scores, **inputs},
        read.num_classes,
        reason,
        parameters=parameters,
        preset="ultralytics" if recipe else None,
        recipe=recipe,
        missing=read.missing or missing,
    )


def _read_anchor_boxes(
    outputs: Outputs, hints: Hints, *, has_background: bool
) -> tuple[dict[str, NetworkOutput], Mapping[str, Decision], str]:
    """Return which outputs [N, 4] are boxes and anchors, how they are read, and what is missing.

    Args:
        outputs: All outputs [N, 4], N that of the scores.
        hints: What is known in addition to them.
        has_background: Whether scores have a background column, as SSD's and not RetinaNet's.
    """
    placed = {output.name: placed_box_parameters(output.values, hints.size) for output in outputs}
    given = hints.options.settings.get("anchors")
    named = [each for each in outputs if any(part in each.name.lower() for part in _ANCHOR_NAMES)]
    if len(named) == len(outputs):  # a name of boxes, and not of what they are relative to
        named = []
    unnamed = [output for output in outputs if output not in named]
    offsets = [output for output in unnamed if placed[output.name] is None]
    decoded = [output for output in unnamed if placed[output.name] is not None]
    variances = Decision("1,1,1,1", "RetinaNet's, as each score is a class's")
    if has_background:
        variances = Decision("0.1,0.1,0.2,0.2", "SSD's, as a score is for no object")
    if given == "grid":
        return {"boxes": (offsets or decoded)[0]}, {"variances": variances}, ""
    if given == "none":
        boxes = (decoded or offsets)[0]
        return {"boxes": boxes}, placed[boxes.name] or {}, ""
    anchors = named or (decoded if offsets else [])
    if len(anchors) == len(offsets) == 1:
        where = Decision("input", f"{anchors[0].name} are boxes all over the image")
        more = placed[anchors[0].name] or {}
        inputs = {"boxes": offsets[0], "anchors": anchors[0]}
        return inputs, {"anchors": where, "variances": variances, **more}, ""
    if len(decoded) == 1 and not offsets:
        where = Decision("none", "boxes of a trial run lie all over the image")
        return {"boxes": decoded[0]}, {"anchors": where, **(placed[decoded[0].name] or {})}, ""
    return {"boxes": outputs[0]}, {}, _missing_anchors(outputs)


def _missing_anchors(outputs: Outputs) -> str:
    listed = " and ".join(output.name for output in outputs)
    if len(outputs) > 1:
        return (
            f"nothing tells which of {listed} are its boxes and which their anchors; export it "
            "with one of the two called anchors"
        )
    return (
        f"{listed} look like offsets from anchors, which are not an output; describe the anchors, "
        f"for example {_EXAMPLE}, export it with them as an output, or say --set anchors=none "
        "where its boxes are decoded"
    )


def are_anchors(outputs: Outputs, head: Head) -> bool:
    """Return whether outputs are anchors [A, 4] of an ssd head whose boxes are decoded."""
    where, boxes = head.parameters.get("anchors"), head.inputs["boxes"]
    return (where is not None and where.value == "none") and all(
        each.dims == boxes.dims and any(part in each.name.lower() for part in _ANCHOR_NAMES)
        for each in outputs
    )
