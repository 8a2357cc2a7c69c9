"""Heads of three tensors, of detections that the network has made itself: boxes, scores, classes.

Shapes for one image: boxes [K, 4], scores [K], classes [K], K fixed or as many as there are
detections, each with or without a batch dimension. torchvision's detectors give them without one,
in an order and under names (numbers, mostly) that depend on the exporter: they are told apart by
shape, type and values, and by names only where those fit several.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from endcap.repository.end2end_heads import PADDING, are_class_ids, are_rows
from endcap.repository.graph_edit import edited_output
from endcap.repository.head_evidence import (
    Head,
    Hints,
    Numbers,
    are_corners,
    are_fractions,
    box_unit,
)
from endcap.repository.network_tensors import NetworkOutput, OutputEdit
from endcap.repository.options import AS_GIVEN, Decision

_INTEGERS = ("INT32", "INT64")
_SCORE_NAMES = ("score", "conf", "prob")
_CLASS_NAMES = ("class", "label", "cls", "categor")


def find_detections(
    outputs: Sequence[NetworkOutput],
) -> tuple[NetworkOutput, NetworkOutput, NetworkOutput] | None:
    """Return boxes, scores and classes as the file gives them; None where no three outputs fit."""
    for boxes in outputs:
        if not boxes.is_float or len(boxes.shape) not in (2, 3) or boxes.shape[-1] != 4:
            continue
        if len(boxes.shape) == 3 and not boxes.has_batch:
            continue
        if len(boxes.shape) == 2 and not are_rows(boxes):
            continue
        columns = [each for each in outputs if each.shape == boxes.shape[:-1]]
        found = _scores_and_classes(columns)
        if found is not None:
            return (boxes, *found)
    return None


def _scores_and_classes(
    columns: Sequence[NetworkOutput],
) -> tuple[NetworkOutput, NetworkOutput] | None:
    numbers = [each for each in columns if each.is_float]
    classes = [each for each in columns if each.data_type in _INTEGERS]
    if not classes:  # of real numbers, and whole
        classes = [each for each in numbers if are_class_ids(each)]
        numbers = [each for each in numbers if each not in classes]
    scores = [each for each in numbers if _are_scores(each, classes)]
    scores, classes = _named(scores, _SCORE_NAMES), _named(classes, _CLASS_NAMES)
    if len(scores) != 1 or len(classes) != 1:
        return None
    return scores[0], classes[0]


def _are_scores(output: NetworkOutput, classes: Sequence[NetworkOutput]) -> bool:
    """Return whether numbers are from 0 to 1, but for rows that are padding by all classes."""
    used = [each.values != PADDING for each in classes if each.values is not None]
    values = output.values
    return values is not None and are_fractions(values[np.any(used, axis=0)] if used else values)


def _named(outputs: list[NetworkOutput], parts: Sequence[str]) -> list[NetworkOutput]:
    """Return the outputs with such a part in their name where there are several, else all."""
    named = [each for each in outputs if any(part in each.name.lower() for part in parts)]
    return named if len(outputs) > 1 and named else outputs


def propose_detections(outputs: Sequence[NetworkOutput], hints: Hints) -> Iterator[Head]:
    """Yield `detections` where three outputs are boxes, scores and classes."""
    found = find_detections(outputs)
    if found is None:
        return
    boxes, scores, classes = (_as_taken(each, is_first=each is found[0]) for each in found)
    used = boxes.values
    if used is not None and classes.values is not None:
        used = used[classes.values != PADDING]
    classes = _as_integers(classes)
    rows = "as many rows as there are detections" if boxes.rows_vary else "a row for each detection"
    reason = f"{', '.join(f'{each.name} {list(each.shape)}' for each in found)}: {rows}"
    counted = _count_classes(classes, hints)
    yield Head(
        "detections",
        {"boxes": boxes, "scores": scores, "classes": classes},
        counted.num_classes,
        reason,
        is_sure=True,
        parameters={**counted.parameters, **_box_parameters(used)},
        missing=counted.missing,
        classes_reason=counted.reason,
    )


def _as_taken(output: NetworkOutput, *, is_first: bool) -> NetworkOutput:
    """Return an output with a batch dimension."""
    is_batch = len(output.shape) == (3 if is_first else 2)
    taken = output if is_batch else edited_output(output, OutputEdit(adds_batch=True))
    return replace(taken, rows_vary=output.rows_vary or any(taken.is_dynamic[1:]))


def _as_integers(classes: NetworkOutput) -> NetworkOutput:
    if classes.data_type in _INTEGERS:
        return classes
    edit = replace(classes.edit, data_type=_INTEGERS[0])
    return replace(classes, data_type=_INTEGERS[0], edit=edit)


def _box_parameters(boxes: Numbers | None) -> dict[str, Decision]:
    box_format = Decision("xyxy", "what networks with suppression inside give")
    if boxes is not None and not are_corners(boxes):
        reason = "boxes of a trial run cannot be corners: some are the wrong way"
        box_format = Decision("cxcywh", reason)
    return {"box_format": box_format, "box_unit": box_unit(boxes)}


@dataclass(frozen=True)
class _Counted:
    """Classes, and which id is for no object."""

    num_classes: int | None
    parameters: Mapping[str, Decision] = field(default_factory=dict)
    reason: str = AS_GIVEN
    missing: str = ""


def _count_classes(classes: NetworkOutput, hints: Hints) -> _Counted:
    given, columns = hints.settings.get("background"), hints.score_columns
    if columns is None:
        parameters = {} if given is None else {"background": Decision(given, AS_GIVEN)}
        return _Counted(None, parameters)
    where = f"the network has a {columns.activation} over {columns.count} scores"
    if given is not None:
        background = Decision(given, AS_GIVEN)
    elif not columns.has_background or hints.num_classes == columns.count:
        background = Decision("none", f"{where}, for as many classes")
    elif classes.values is not None and (classes.values == 0).any():
        reason = f"{where}, one for no object, and class 0 was found in noise"
        return _Counted(columns.count - 1, {"background": Decision("none", reason)}, where)
    elif classes.rows_vary:
        reason = f"{where}, the first of them for no object, as in torchvision's detectors"
        background = Decision("first", reason)
    else:
        missing = (
            f"{where}, one of them for no object, and nothing tells whether class ids begin with 0 "
            "or 1; give --set background=none (with 0) or first (with 1)"
        )
        return _Counted(None, missing=missing)
    has_background = columns.has_background and background.value != "none"
    return _Counted(columns.count - has_background, {"background": background}, where)
