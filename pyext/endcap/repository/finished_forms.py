"""Forms of outputs of networks with suppression inside: rows of finished detections."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from endcap.errors import UnsupportedError
from endcap.repository.head_evidence import (
    NO_CORNERS,
    PADDING,
    Head,
    Hints,
    Numbers,
    Outputs,
    are_class_ids,
    are_corners,
    are_fractions,
    box_unit,
    may_be_detections,
)
from endcap.repository.metadata import RTDETR_DECODER
from endcap.repository.network_tensors import NetworkOutput, OutputEdit
from endcap.repository.options import AS_GIVEN, Decision, row_places

# Names of the outputs of TensorRT's EfficientNMS and BatchedNMS plugins, and of exports like them.
_EFFICIENT_NMS_NAMES = {
    "num_detections": ("num_dets", "num_detections", "num_det", "det_nums", "num_predictions"),
    "boxes": ("det_boxes", "detection_boxes", "nmsed_boxes", "boxes", "pred_boxes"),
    "scores": ("det_scores", "detection_scores", "nmsed_scores", "scores", "pred_scores"),
    "classes": (
        *("det_classes", "detection_classes", "nmsed_classes", "classes", "det_labels"),
        "pred_classes",
    ),
}
_SCORE_NAMES = ("score", "conf", "prob")
_CLASS_NAMES = ("class", "label", "cls", "categor")
# Columns of rows of all images together: PaddleDetection's, YOLO-NAS' and YOLOv7's.
_PADDLE_COLUMNS = "class,score,box"
_FLAT_COLUMNS: tuple[str, ...] = ("image,box,score,class", "image,box,class,score")
_MISSING_COLUMNS = (
    "nothing tells the order of its columns; give --columns image,box,score,class (YOLO-NAS has "
    "this order) or image,box,class,score (YOLOv7)"
)


def read_efficient_nms(outputs: Outputs, _: Hints) -> Iterator[Head]:
    """Read four outputs with the names and the shapes of the plugin's.

    Raises:
        UnsupportedError: They are those of TensorFlow's detectors, which count in floats.
    """
    by_name = {output.name.lower(): output for output in outputs}
    inputs = {
        part: by_name[name]
        for part, names in _EFFICIENT_NMS_NAMES.items()
        for name in reversed(names)  # the first one wins
        if name in by_name
    }
    if len(inputs) < len(_EFFICIENT_NMS_NAMES):
        return
    listed = ", ".join(output.name for output in inputs.values())
    if inputs["num_detections"].is_float:
        raise UnsupportedError(
            f"{listed} are the outputs of a detector of TensorFlow, which gives y before x and is "
            "not read; --head none returns them unmodified, for your own code"
        )
    rows = inputs["boxes"].dims[:1]
    dims = [each.dims for each in inputs.values()]
    if rows and dims[0] in ((), (1,)) and dims[1:] == [(*rows, 4), rows, rows]:
        parameters = {"box_unit": box_unit(inputs["boxes"].values)}
        reason = f"{listed}: suppressed inside"
        yield Head("efficient_nms", inputs, None, reason, parameters=parameters)


def read_detections(outputs: Outputs, hints: Hints) -> Iterator[Head]:
    """Read boxes [K, 4], scores [K] and class ids [K], each with or without a batch dimension.

    Shape, type and values tell them apart, and names only where those fit several.
    """
    for each in outputs:
        found = _scores_and_classes(_columns_next_to(each, outputs, 4))
        if found is not None:
            listed = ", ".join(f"{one.name} {list(one.shape)}" for one in (each, *found))
            is_flat = len(each.shape) == 2
            boxes, scores, classes = (_as_rows(x, adds_batch=is_flat) for x in (each, *found))
            inputs = {"boxes": boxes, "scores": scores, "classes": classes}
            parameters = _final_box_parameters(boxes.values, classes.values)
            reason = f"{listed}: {_row_text(boxes)}"
            head = Head("detections", inputs, None, reason, parameters=parameters)
            yield _with_background(head, classes, hints)
            return


def _columns_next_to(rows: NetworkOutput, outputs: Outputs, columns: int) -> list[NetworkOutput]:
    """Return the outputs [K] next to rows [K, columns] of detections."""
    is_table = _are_rows(rows) if len(rows.shape) == 2 else rows.has_batch and len(rows.shape) == 3
    if not is_table or not rows.is_float or rows.shape[-1] != columns:
        return []
    return [each for each in outputs if each.shape == rows.shape[:-1]]


def _are_rows(output: NetworkOutput) -> bool:
    """Return whether two dimensions are rows of detections, and not the scores of one image."""
    return output.shape[0] != 1 or output.rows_vary


def _class_columns(columns: Outputs) -> list[NetworkOutput]:
    """Return the outputs that may be class ids: of whole numbers by type, else by value."""
    whole = [each for each in columns if each.data_type in ("INT32", "INT64")]
    return whole or [each for each in columns if each.values.size and are_class_ids(each.values)]


def _scores_and_classes(columns: Outputs) -> tuple[NetworkOutput, NetworkOutput] | None:
    classes = _class_columns(columns)
    used = np.any([each.values != PADDING for each in classes], axis=0) if classes else ...
    scores = [
        each
        for each in columns
        if each.is_float and each not in classes and are_fractions(each.values[used])
    ]
    scores, classes = _prefer_named(scores, _SCORE_NAMES), _prefer_named(classes, _CLASS_NAMES)
    return (scores[0], classes[0]) if len(scores) == len(classes) == 1 else None


def _prefer_named(outputs: list[NetworkOutput], parts: Sequence[str]) -> list[NetworkOutput]:
    """Return the outputs with such a part in their name where there are several, else all."""
    named = [each for each in outputs if any(part in each.name.lower() for part in parts)]
    return named if len(outputs) > 1 and named else outputs


def _as_rows(
    output: NetworkOutput, *, adds_batch: bool, appended: NetworkOutput | None = None
) -> NetworkOutput:
    """Return an output of detections with a batch dimension, and with another as last column."""
    edit = OutputEdit(adds_batch, appends=appended.name if appended else "")
    taken = output.edited(edit, appended) if edit != OutputEdit() else output
    return replace(taken, rows_vary=output.rows_vary or any(taken.is_dynamic[1:]))


def _row_text(rows: NetworkOutput) -> str:
    return "as many rows as there are detections" if rows.rows_vary else "a row for each detection"


def _with_background(head: Head, classes: NetworkOutput, hints: Hints) -> Head:
    """Return detections with the number of classes, and which id is for no object."""
    if hints.score_columns is None:
        return head
    activation, count = hints.score_columns
    given = hints.options.settings.get("background")
    where = f"the network has a {activation} over {count} scores"
    has_background = activation == "Softmax" and hints.num_classes != count
    if given is not None:
        background = Decision(given, AS_GIVEN)
        has_background = activation == "Softmax" and given != "none"
    elif not has_background:
        background = Decision("none", f"{where}, for as many classes")
    elif classes.rows_vary and (classes.values != 0).all():
        reason = f"{where}, the first of them for no object, as in torchvision's detectors"
        background = Decision("first", reason)
    else:
        missing = (
            f"{where}, one of them for no object, and nothing tells whether class ids begin with 0 "
            "or 1; give --set background=none (with 0) or first (with 1)"
        )
        return replace(head, missing=missing)
    return replace(
        head,
        num_classes=count - has_background,
        parameters={"background": background, **head.parameters},
        classes_reason=where,
    )


def read_reordered_rows(outputs: Outputs, hints: Hints) -> Iterator[Head]:
    """Read rows of all images in another order, or rows in the order that the user gives."""
    given, orders = hints.options.columns, _FLAT_COLUMNS
    if len(outputs) == 2 and any(not each.is_float and each.shape == (1,) for each in outputs):
        orders = (*_FLAT_COLUMNS, _PADDLE_COLUMNS)  # next to a count
    for output in outputs:
        is_flat = len(output.shape) == 2
        is_table = _are_rows(output) if is_flat else given and len(output.shape) == 3
        if not output.is_float or not is_table:
            continue
        fitting = []
        for columns in [given] if given else orders:
            places, length = row_places(columns)
            if length == output.shape[-1]:
                taken = output.edited(OutputEdit(adds_batch=is_flat, columns=places))
                if may_be_detections(taken.values):
                    fitting.append(replace(taken, rows_vary=is_flat or output.rows_vary))
        if fitting:
            order = ", ".join(map(str, fitting[0].edit.columns))
            reason = (
                f"{output.name} {list(output.shape[-2:])}: {_row_text(fitting[0])}, of which "
                f"columns {order} are the box, the score and the class"
            )
            # Both orders: the trial run gave no row, or none that tells scores from class ids.
            missing = _MISSING_COLUMNS if len(fitting) > 1 else ""
            yield replace(rows_head(fitting[0], hints, reason), missing=missing)


def read_rows_with_classes(outputs: Outputs, hints: Hints) -> Iterator[Head]:
    """Read rows [K, 5] of a box and a score next to class ids [K], which may be real numbers."""
    for output in outputs:
        classes = _class_columns(_columns_next_to(output, outputs, 5))
        if len(classes) != 1:
            continue
        rows = _as_rows(output, adds_batch=len(output.shape) == 2, appended=classes[0])
        if may_be_detections(rows.values):
            reason = (
                f"{output.name} {list(output.shape)} and {classes[0].name}: a box, a score and a "
                "class for each detection"
            )
            yield rows_head(rows, hints, reason)


def rows_head(rows: NetworkOutput, hints: Hints, reason: str) -> Head:
    """Return `end2end` for rows of a box, a score, a class id, and maybe more."""
    values, head = rows.values, hints.metadata.head
    parameters = _final_box_parameters(values[:, :4], values[:, 5], head)
    return Head("end2end", {"head": rows}, None, reason, parameters=parameters)


def _final_box_parameters(
    boxes: Numbers, class_ids: Numbers, head: str = ""
) -> dict[str, Decision]:
    """Return format and unit of boxes after suppression, which are corners with most exporters."""
    boxes = boxes[class_ids != PADDING]
    box_format = Decision("xyxy", "what networks with suppression inside give")
    if head == RTDETR_DECODER:
        box_format = Decision("cxcywh", f"the network's head is {head}, by the metadata")
    elif not are_corners(boxes):
        box_format = Decision("cxcywh", NO_CORNERS)
    return {"box_format": box_format, "box_unit": box_unit(boxes)}
