"""YOLO heads with masks, keypoints or angles.

Shapes: yolov8_seg [4 + C + M, A] and prototypes [M, h, w], yolov8_pose [4 + C + P * values, A],
yolov8_obb [4 + C + 1, A]; with suppression inside the network end2end_seg [K, 6 + M],
end2end_pose [K, 6 + P * values], end2end_obb [K, 7]. Where the classes of a row end and the rest
begins is in no shape of the first three: the exporter's metadata or the user gives it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from endcap.repository.end2end_heads import (
    may_be_detections,
    read_box_format,
    used_boxes,
    with_batch,
)
from endcap.repository.grid_heads import GridForm, find_grids, read_grid_head
from endcap.repository.head_evidence import MOST_FINAL_ROWS, Head, Hints, box_unit
from endcap.repository.network_tensors import NetworkOutput
from endcap.repository.onnx_file import ExporterMetadata
from endcap.repository.options import Decision
from endcap.triton.tensor_contract import postprocess_contract

_TASKS = {"segment": "yolov8_seg", "pose": "yolov8_pose", "obb": "yolov8_obb"}
_MASKS = 32  # prototypes of Ultralytics' segmentation heads
_KEYPOINTS = ("num_keypoints", "keypoint_values")
_LARGEST_ANGLE = 2 * math.pi


def has_task(metadata: ExporterMetadata) -> bool:
    """Return whether the metadata names a task with more than boxes and scores."""
    return metadata.task in _TASKS


def propose_task(outputs: tuple[NetworkOutput, ...], hints: Hints) -> Iterator[Head]:
    """Yield the head of the task that the metadata names."""
    metadata, family = hints.metadata, _TASKS[hints.metadata.task]
    form = _form(family, outputs, hints)
    for output in outputs:
        if len(output.dims) != 2 or not output.is_float:
            continue
        has_final_rows = metadata.is_end2end or metadata.has_nms
        if has_final_rows or find_grids(output.dims[1], hints.size) is None:
            heads = tuple(_read_final_rows(output, form))
            yield from heads
            if heads or has_final_rows:
                continue
        classes = output.dims[0] - 4 - form.extras
        if classes < 1 or (metadata.names and len(metadata.names) != classes and not form.missing):
            continue
        yield from _read(output, form, classes, hints, is_declared=True)


def propose_task_by_values(
    output: NetworkOutput, outputs: tuple[NetworkOutput, ...], hints: Hints
) -> Iterator[Head]:
    """Yield what one output may be without metadata; nothing for most without extras."""
    if find_grids(output.dims[1], hints.size) is None:
        yield from _propose_yolov5_masks(output, outputs, hints)
        yield from _propose_final_rows(output, outputs, hints)
        return
    for family in _TASKS.values():
        form = _form(family, outputs, hints)
        classes = output.dims[0] - 4 - form.extras
        if classes < 1 or not (form.missing or hints.num_classes in (None, classes)):
            continue
        if family == hints.wanted or _shows(form, output, hints):
            yield from _read(output, form, classes, hints, is_declared=False)
            if form.inputs:  # prototypes of masks tell what the rows behind the scores are
                return


def _read(
    output: NetworkOutput, form: GridForm, classes: int, hints: Hints, *, is_declared: bool
) -> Iterator[Head]:
    grids = find_grids(output.dims[1], hints.size)
    form = replace(form, classes=classes, grids=grids, is_declared=is_declared)
    is_sure = is_declared or (grids is not None and grids.anchors == 1 and not form.missing)
    yield from read_grid_head(output, form, hints.size, is_sure=is_sure)


def _shows(form: GridForm, output: NetworkOutput, hints: Hints) -> bool:
    """Return whether the outputs look like a family that neither metadata nor user names."""
    family = form.family
    if family == "yolov8_seg":
        return any(prototypes.dims[0] == _MASKS for prototypes in form.inputs.values())
    if family == "yolov8_pose" and "num_keypoints" in hints.settings:
        return True
    if output.values is None:
        return False
    rows = output.values[4:]
    outside = ((rows < 0) | (rows > 1)).any(axis=1)
    if family == "yolov8_obb":
        is_angle = bool((abs(rows[-1]) <= _LARGEST_ANGLE).all())
        return bool(outside[-1] and not outside[:-1].any() and is_angle)
    return bool(outside.sum() > 1 and not outside[0])


def _form(family: str, outputs: tuple[NetworkOutput, ...], hints: Hints) -> GridForm:
    """Return the form of a family, without the number of its classes and its grids."""
    if family == "yolov8_seg":
        return _mask_form(outputs)
    if family == "yolov8_pose":
        return _keypoint_form(hints)
    suppression = Decision("probiou_fast", "as Ultralytics suppresses rotated boxes")
    return GridForm(family=family, extras=1, parameters={"rotated_nms": suppression})


def _mask_form(outputs: tuple[NetworkOutput, ...]) -> GridForm:
    prototypes = [each for each in outputs if len(each.dims) == 3 and each.is_float]
    if len(prototypes) != 1:
        missing = (
            f"{len(prototypes) or 'none'} of its outputs has the form of prototypes of masks, "
            "[M, height, width]; export it with its head and its prototypes and nothing else"
        )
        return GridForm(family="yolov8_seg", extras=_MASKS, missing=missing)
    count, height, width = prototypes[0].dims
    reason = f"the shape of {prototypes[0].name}"
    parameters = {
        "mask_coefficients": Decision(str(count), reason),
        "prototype_size": Decision(f"{height},{width}", reason),
    }
    return GridForm(
        family="yolov8_seg",
        extras=count,
        inputs={"protos": prototypes[0]},
        parameters=parameters,
    )


def _keypoint_form(hints: Hints) -> GridForm:
    declared = dict(zip(_KEYPOINTS, hints.metadata.keypoints or (), strict=False))
    given = {name: hints.settings[name] for name in _KEYPOINTS if name in hints.settings}
    values = {name: str(value) for name, value in declared.items()} | given
    if "num_keypoints" not in values:
        missing = (
            "its number of keypoints is unknown; give --head yolov8_pose --set "
            "num_keypoints=17, or another number, and --set keypoint_values=2 where a "
            "keypoint has x and y alone"
        )
        return GridForm(family="yolov8_pose", missing=missing)
    known = postprocess_contract({"head": "yolov8_pose", **values}).parameters
    reason = "kpt_shape in the metadata" if declared else "as many as were given"
    return GridForm(
        family="yolov8_pose",
        extras=int(known["num_keypoints"]) * int(known["keypoint_values"]),
        parameters={name: Decision(known[name], reason) for name in _KEYPOINTS},
    )


def _propose_yolov5_masks(
    output: NetworkOutput, outputs: tuple[NetworkOutput, ...], hints: Hints
) -> Iterator[Head]:
    """Yield YOLOv5's masks, which no head reads, so that the error message names them."""
    masks = [each for each in outputs if len(each.dims) == 3 and each.dims[0] == _MASKS]
    if masks and find_grids(output.dims[0], hints.size):
        reason = f"{output.name} {list(output.dims)} beside {masks[0]}, prototypes of masks"
        yield Head("yolov5_seg", {}, None, reason, is_sure=True)


def _propose_final_rows(
    output: NetworkOutput, outputs: tuple[NetworkOutput, ...], hints: Hints
) -> Iterator[Head]:
    """Yield `end2end_seg`, `end2end_pose` or `end2end_obb` without metadata.

    Prototypes of masks tell the first, seven columns the last; keypoints the user has to count.
    """
    columns = output.dims[1]
    values = output.values
    if columns < 7 or values is None or not values[:, 4].any():
        return
    masks = _form("yolov8_seg", outputs, hints)
    if not masks.missing:
        yield from _read_final_rows(output, masks)
    elif columns == 7 and hints.wanted != "end2end_pose":
        yield from _read_final_rows(output, _form("yolov8_obb", outputs, hints))
    else:
        yield from _read_final_rows(output, _form("yolov8_pose", outputs, hints))


def _read_final_rows(output: NetworkOutput, form: GridForm) -> Iterator[Head]:
    """Yield the head [K, 6 + more] of a form, or nothing where rows are no such detections."""
    output = with_batch(output)
    rows, columns = output.dims
    more, values = columns - 6, output.values
    if more < 1 or rows > MOST_FINAL_ROWS or not may_be_detections(values):
        return
    is_counted = not form.missing
    if is_counted and more != form.extras:
        return
    boxes = used_boxes(values)
    parameters = {"box_unit": box_unit(boxes)}
    if form.family == "yolov8_obb":  # whose boxes have centres and sizes, and are not suppressed
        is_counted = True
    else:
        parameters |= {"box_format": read_box_format(boxes), **form.parameters}
    yield Head(
        form.family.replace("yolov8", "end2end"),
        {"head": output, **form.inputs},
        None,
        f"{output.name} [{rows}, 6 + {more}]: each row a box, a score, a class, and more",
        is_sure=True,
        parameters=parameters,
        missing="" if is_counted else _missing_keypoints(more),
    )


def _missing_keypoints(more: int) -> str:
    """Return how the user says how many keypoints so many columns are."""
    choices = [f"--set num_keypoints={more // 3}"] if more % 3 == 0 else []
    if more % 2 == 0:
        choices.append(f"--set num_keypoints={more // 2} --set keypoint_values=2")
    given = " or ".join(choices) or "its keypoints with two or three numbers each"
    return f"{more} columns behind the class may be keypoints; if so, give {given}"
