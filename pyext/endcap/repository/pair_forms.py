"""Forms of outputs with boxes in one and scores in another: queries (RT-DETR, DETR) and anchors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

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
ANCHOR_NAMES = ("anchor", "prior")
_QUERY_BOXES_NAME = "pred_boxes"
_QUERY_FAMILIES = ("rtdetr", "rtdetr_seg")
_RFDETR_NAMES = ("labels", "dets")  # of scores and boxes, by RF-DETR's exporter
_COCO_IDS = 91  # scores of RF-DETR's weights for COCO
_MAX_EXCESS = 0.25  # of boxes from 0 to 1 that no sigmoid keeps there
_SCORE_NAMES = ("score", "logit", "cls", "class", "conf", "labels")
_YOLOV4_BOXES = {"box_format": "xyxy", "box_unit": "normalized"}
_EXAMPLE = "--set anchors=grid --set 'anchor_grid=8:16x16,32x32;16:64x64'"


def read_pair(outputs: Outputs, hints: Hints) -> Iterator[Head]:
    """Read boxes [N, 4] and scores [N, columns]: queries, some with masks, or anchors."""
    planes = []
    for output in outputs:
        plane = output
        if output.has_batch and output.dims[1:] == (1, 4):  # YOLOv4's, one for all classes
            plane = output.edited(OutputEdit(shape=(output.dims[0], 4)))
        if plane.is_float and len(plane.dims) == 2 and HIDDEN_STATE not in plane.name:
            planes.append(plane)
    planes = _with_rows(planes)
    boxes = [output for output in planes if output.dims[1] == 4 != output.dims[0]]
    counts = {each.dims[0] for each in boxes}
    scores = [each for each in planes if each.dims[1] != 4 and each.dims[0] in counts]
    if not scores and len(boxes) > 1:  # scores of four classes: names distinguish them, or values
        scores = [each for each in boxes if any(part in each.name.lower() for part in _SCORE_NAMES)]
        if not scores and len(boxes) == 2:
            scores = [each for each in boxes if not _may_be_queries(each.values)]
            scores = scores if len(scores) == 1 else []
        boxes = [each for each in boxes if each not in scores]
    for each in scores:
        if with_rows := [box for box in boxes if box.dims[0] == each.dims[0]]:
            yield from _read_pair_with_rows(each, with_rows, outputs, hints)


def _with_rows(planes: list[NetworkOutput]) -> list[NetworkOutput]:
    """Return the outputs of a pair with a row for each box, transposed where they have columns.

    Boxes [4, N] with scores [C, N], or, as PP-YOLOE gives them, boxes [N, 4] with scores [C, N].
    """
    boxes = [each for each in planes if each.dims[1] == 4]
    counts = {each.dims[0] for each in boxes}
    if any(each.dims[1] != 4 and each.dims[0] in counts for each in planes):
        return planes
    if not boxes:
        counts = {each.dims[1] for each in planes if each.dims[0] == 4}
    columns = [each for each in planes if each.dims[1] in counts and each.dims[1] != 4]
    if len(columns) != (1 if boxes else 2) or not all(each.has_batch for each in columns):
        return planes
    edit = OutputEdit(transposes=True)
    return [each.edited(edit) if each.dims[1] in counts else each for each in planes]


def _read_pair_with_rows(
    scores: NetworkOutput, boxes: Outputs, outputs: Outputs, hints: Hints
) -> Iterator[Head]:
    listed = " and ".join(f"{each.name} {list(each.dims)}" for each in boxes)
    reason = f"{scores.name} {list(scores.dims)} with {listed}"
    wanted = hints.options.head
    is_rfdetr = (scores.name, boxes[0].name) == _RFDETR_NAMES and wanted in (None, *_QUERY_FAMILIES)
    of_queries = [each for each in boxes if is_rfdetr or _QUERY_BOXES_NAME in each.name]
    if not of_queries and len(boxes) == 1 and _are_of_queries(boxes[0], hints):
        of_queries = [*boxes]
    if of_queries or wanted in _QUERY_FAMILIES:
        head = _queries(scores, (of_queries or boxes)[0], reason, hints, is_rfdetr=is_rfdetr)
        yield _with_masks(head, outputs, hints)
    if not of_queries or wanted == "ssd":
        yield _anchors(scores, boxes, reason, hints)


def _are_of_queries(boxes: NetworkOutput, hints: Hints) -> bool:
    """Return whether boxes are as many as queries, and centres and sizes in the image."""
    is_detector = hints.metadata.task == "detect"  # of transformers, by its config.json
    return (
        boxes.dims[0] in QUERIES
        and find_grids(boxes.dims[0], hints.size) is None
        and "anchors" not in hints.options.settings
        and _may_be_queries(boxes.values)
        and (is_detector or not are_corners(boxes.values))
    )


def _may_be_queries(boxes: Numbers) -> bool:
    return bool(boxes.any()) and (are_fractions(boxes) or _exceed_fractions(boxes))


def _exceed_fractions(boxes: Numbers) -> bool:
    """Return whether boxes are centres and sizes from 0 to 1 that leave that range a little.

    RF-DETR's do, as it moves a reference box; RT-DETR's and DETR's are of a sigmoid.
    """
    excess = max(float(-boxes.min()), float(boxes.max()) - 1)
    return not are_fractions(boxes) and have_sizes(boxes) and excess <= _MAX_EXCESS


def _queries(
    scores: NetworkOutput, boxes: NetworkOutput, reason: str, hints: Hints, *, is_rfdetr: bool
) -> Head:
    preset = "rfdetr" if is_rfdetr else None
    is_rfdetr |= _exceed_fractions(boxes.values)
    classes, read, missing = _read_columns(scores, hints, "rfdetr" if is_rfdetr else "detr")
    unit = Decision("normalized", FAMILY_DEFAULT)
    if not is_rfdetr and boxes.values.any():
        unit = box_unit(boxes.values)
    parameters = {"box_unit": unit, **read}
    if is_rfdetr:
        parameters["activation"] = Decision("sigmoid", "what RF-DETR's scores need")
    elif read and read["background"].value != "none":
        parameters["multi_label"] = Decision("false", "as DETR's queries are one object or none")
    inputs = {"logits": scores, "boxes": boxes}
    return Head(
        "rtdetr", inputs, classes, reason, parameters=parameters, preset=preset, missing=missing
    )


def _with_masks(head: Head, outputs: Outputs, hints: Hints) -> Head:
    """Return a head of queries with the output that has a mask for each, if there is one."""
    masks = [
        each
        for each in outputs
        if len(each.dims) == 3
        and each.dims[0] == head.inputs["boxes"].dims[0]
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


def _read_columns(
    scores: NetworkOutput, hints: Hints, kind: str
) -> tuple[int | None, dict[str, Decision], str]:
    """Return the number of classes, parameters of the columns, and what is missing.

    The column for no object is the last one of the kinds rfdetr and detr, and at either end of ssd.
    """
    columns, classes, values = scores.dims[1], hints.num_classes, scores.values
    given, adds_up = hints.options.settings.get("background"), add_up(values)
    background = None
    if given in ("none", "first", "last"):
        background = Decision(given, AS_GIVEN)
    elif classes == columns or columns == 1:
        background = Decision("none", f"{columns} scores for as many classes")
    elif classes == columns - 1 or (classes is None and kind != "rfdetr" and adds_up):
        reason = "one score more than classes" if classes else "scores of a trial run add up to 1"
        background = find_background(values) if kind == "ssd" else Decision("last", reason)
        if background is None:
            missing = (
                f"nothing tells which of the {columns} scores of {scores.name} is for no object; "
                "give --set background=first or last"
            )
            return columns - 1, {}, missing
    elif classes is None and kind == "rfdetr" and columns == _COCO_IDS:
        background = Decision(
            "none",
            f"assumed: {columns} scores, as RF-DETR's weights for COCO have for its category ids; "
            f"with --num-classes {columns - 1} the last is for no object",
        )
    elif classes is None and kind != "rfdetr" and values.any() and are_fractions(values):
        reason = "scores of a trial run are from 0 to 1 and do not add up to 1"
        background = Decision("none", reason)
    if background is not None:
        has_background = background.value != "none"
        activation = pair_activation(values, has_background=has_background)
        parameters = {"background": background, "activation": activation}
        return columns - has_background, parameters, ""
    unclear = f"nothing tells whether one of the {columns} scores of {scores.name} is for no object"
    if classes is not None:
        unclear = f"{scores.name} has {columns} scores for each box, and the classes are {classes}"
    missing = (
        f"{unclear}; give --labels FILE, or --num-classes {columns - 1} (one is for no object, as "
        f"in DETR, SSD and fine-tuned RF-DETR) or {columns} (none is, as in RT-DETR and RetinaNet)"
    )
    return None, {}, missing


def _anchors(scores: NetworkOutput, outputs: Outputs, reason: str, hints: Hints) -> Head:
    """Return an ssd head of boxes that are decoded, or offsets from anchors, maybe an output."""
    classes, parameters, missing = _read_columns(scores, hints, "ssd")
    variances = Decision("0.1,0.1,0.2,0.2", "SSD's, as a score is for no object")
    if parameters and parameters["background"].value == "none":
        variances = Decision("1,1,1,1", "RetinaNet's, as each score is a class's")
    placed = {each.name: placed_box_parameters(each.values, hints.size) for each in outputs}
    anchors = [each for each in outputs if any(part in each.name.lower() for part in ANCHOR_NAMES)]
    if len(anchors) in (0, len(outputs)):  # a name of boxes, and not of what they are relative to
        anchors = [each for each in outputs if placed[each.name]] if len(outputs) == 2 else []
    boxes = [each for each in outputs if each not in anchors] or [*outputs]
    given, inputs = hints.options.settings.get("anchors"), {"boxes": boxes[0], "scores": scores}
    decoded = placed[boxes[0].name]
    if given == "grid":
        parameters["variances"] = variances
    elif given == "none" or (len(boxes) == 1 and decoded):
        where = "boxes of a trial run lie all over the image"
        parameters |= {"anchors": Decision("none", where), **(decoded or {})}
    elif len(boxes) == len(anchors) == 1:
        where = f"{anchors[0].name} are boxes all over the image"
        parameters |= {"anchors": Decision("input", where), "variances": variances}
        parameters |= placed[anchors[0].name] or {}
        inputs["anchors"] = anchors[0]
    elif not missing:
        listed = " and ".join(output.name for output in outputs)
        missing = (
            f"{listed} look like offsets from anchors; describe these, for example {_EXAMPLE}, "
            "export it with one more output called anchors, or say --set anchors=none where its "
            "boxes are decoded"
        )
    head = Head("ssd", inputs, classes, reason, parameters=parameters, missing=missing)
    if (
        not boxes[0].edit.shape
        or {**_YOLOV4_BOXES, **decided_values(decoded or {})} != _YOLOV4_BOXES
    ):
        return head
    parameters["multi_label"] = Decision("false", "YOLOv4's own code takes a box's best class")
    fit = Decision("stretch", "YOLOv4's own code resizes images without keeping their aspect ratio")
    return replace(head, parameters=parameters, preset="ultralytics", recipe={"fit": fit})
