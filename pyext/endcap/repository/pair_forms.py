"""Forms of outputs with boxes in one and scores in another: queries (RT-DETR, DETR) and anchors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

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
_SUM_TOLERANCE = 1e-2  # of rows after a softmax, in half precision
# Of the boxes of noise, as many as this have their best score in the background column.
_MIN_BACKGROUND_SHARE = 0.9
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
        (first, *_) = of_queries or boxes
        yield _queries(scores, first, outputs, reason, hints, is_rfdetr=is_rfdetr)
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
    scores: NetworkOutput,
    boxes: NetworkOutput,
    outputs: Outputs,
    reason: str,
    hints: Hints,
    *,
    is_rfdetr: bool,
) -> Head:
    """Return a head of queries, with the output that has a mask for each, if there is one."""
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
    family, inputs = "rtdetr", {"logits": scores, "boxes": boxes}
    masks = [
        each
        for each in outputs
        if each.is_float and len(each.dims) == 3 and each.dims[0] == boxes.dims[0]
        if "mask" in each.name.lower()
    ]
    if len(masks) == 1 and hints.options.head != "rtdetr":
        family, inputs["masks"] = "rtdetr_seg", masks[0]
        count, height, width = masks[0].dims
        size = Decision(f"{height},{width}", f"the shape of {masks[0].name}")
        parameters["prototype_size"] = size
        reason += f", and {masks[0].name} {[count, height, width]}"
    return Head(
        family, inputs, classes, reason, parameters=parameters, preset=preset, missing=missing
    )


def _read_columns(
    scores: NetworkOutput, hints: Hints, kind: str
) -> tuple[int | None, dict[str, Decision], str]:
    """Return the number of classes, parameters of the columns, and what is missing.

    The column for no object is the last one of the kinds rfdetr and detr, and at either end of ssd.
    """
    columns, classes, values = scores.dims[1], hints.num_classes, scores.values
    given = hints.options.settings.get("background")
    # After a softmax, which leaves detectors a column for no object.
    adds_up = (values >= 0).all() and (abs(values.sum(axis=1) - 1) < _SUM_TOLERANCE).all()
    background = None
    if given in ("none", "first", "last"):
        background = Decision(given, AS_GIVEN)
    elif classes == columns or columns == 1:
        background = Decision("none", f"{columns} scores for as many classes")
    elif classes == columns - 1 or (classes is None and kind != "rfdetr" and adds_up):
        reason = "one score more than classes" if classes else "scores of a trial run add up to 1"
        background = _find_background(values) if kind == "ssd" else Decision("last", reason)
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
        activation = _score_activation(values, has_background=has_background)
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
    placed = {each.name: _placed_box_parameters(each.values, hints.size) for each in outputs}
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


def _placed_box_parameters(boxes: Numbers, size: tuple[int, int]) -> dict[str, Decision] | None:
    """Return format and unit of boxes all over the image; None for others, such as offsets."""
    centres, box_format = boxes, Decision("cxcywh", NO_CORNERS)
    if are_corners(boxes):
        centres = (boxes[:, :2] + boxes[:, 2:]) / 2
        box_format = Decision("xyxy", "no box of a trial run has its corners the wrong way")
    elif not have_sizes(boxes):
        return None
    if not boxes.any() or not cover_image(centres, size):
        return None
    return {"box_format": box_format, "box_unit": box_unit(boxes)}


def _score_activation(scores: Numbers, *, has_background: bool) -> Decision:
    """Return the activation of scores next to boxes."""
    if scores.any() and are_fractions(scores):
        return Decision("none", "scores of a trial run are from 0 to 1")
    reason = f"scores of a trial run are from {scores.min():.1f} to {scores.max():.1f}"
    return Decision("softmax" if has_background else "sigmoid", reason)


def _find_background(scores: Numbers) -> Decision | None:
    """Return where most boxes of noise have their best score, if at an end: the background."""
    for place, column in (("first", 0), ("last", scores.shape[1] - 1)):
        share = float(np.mean(scores.argmax(axis=1) == column))
        if share >= _MIN_BACKGROUND_SHARE and scores.any():
            reason = f"the {place} score is the best of {share:.0%} of the boxes of noise"
            return Decision(place, reason)
    return None
