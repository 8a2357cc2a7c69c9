"""From the tensors of one answer to detections or classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.client.errors import RequestError
from endcap.client.extras import (
    Tensors,
    check_datatypes,
    read_angles,
    read_classifications,
    read_keypoints,
    read_masks,
    text,
)
from endcap.errors import Status
from endcap.results.detection import Box, ClassScore, Detection
from endcap.results.image_result import status_name
from endcap.results.task import Task


def read_rows(outputs: Tensors, labels: Sequence[str] | None) -> list[Detection]:
    """Returns the detections of one answer of the ensemble.

    outputs: a batch of one: num_detections int32 [1,1], detection_boxes float32 [1,K,4],
    detection_scores float32 [1,K], detection_classes and detection_indices int32 [1,K], status
    int32 [1,1]. `status` may be absent. Where the model has them, detection_keypoints float32
    [1,K,P,3], detection_angles float32 [1,K], detection_rle bytes [1,K] with mask_size int32 [1,2],
    and class_ids int32, class_scores float32 and class_labels bytes [1,K].
    Raises RequestError when the image's status is not 0, or the tensors do not fit together or have
    other data types.
    """
    check_status(outputs)
    check_datatypes(outputs, Task.detection.outputs)
    count, boxes, scores, class_ids, indices = (
        _require(outputs, name, Task.detection)
        for name in Task.detection.required
        if name != "status"
    )
    rows = boxes.shape[1] if boxes.shape[::2] == (1, 4) and boxes.ndim == 3 else -1
    kept = int(count.flat[0])
    shapes = {tensor.shape for tensor in (scores, class_ids, indices)}
    if shapes != {(1, rows)} or not 0 <= kept <= rows:
        raise RequestError(
            "internal",
            f"the server's outputs do not fit together: num_detections {kept}, detection_boxes "
            f"{boxes.shape}, the others {sorted(shapes)}; [1,K,4] and [1,K] are expected",
        )
    if not (np.isfinite(boxes[0, :kept]).all() and np.isfinite(scores[0, :kept]).all()):
        raise RequestError(
            "internal", "the server answered a box or a score that is no finite number"
        )
    keypoints = read_keypoints(outputs, rows, kept)
    angles = read_angles(outputs, rows, kept)
    masks = read_masks(outputs, rows, kept)
    classifications = read_classifications(outputs, rows, kept)
    return [
        Detection(
            box=_box(boxes[0, row]),
            score=float(scores[0, row]),
            class_id=int(class_ids[0, row]),
            label=label_of(int(class_ids[0, row]), labels),
            index=int(indices[0, row]),
            keypoints=keypoints[row],
            angle=angles[row],
            mask=masks[row],
            classification=classifications[row],
        )
        for row in range(kept)
    ]


def read_classes(outputs: Tensors, labels: Sequence[str] | None) -> list[ClassScore]:
    """Returns the classes of one answer of a classifier.

    outputs: a batch of one: class_scores float32 [1,K], class_ids int32 [1,K], class_labels bytes
    [1,K], status int32 [1,1]. The last two may be absent. labels: names by id, which go before
    those of class_labels; an empty name there is none. Rows of id -1 hold no class.
    Raises RequestError when the image's status is not 0, or the tensors do not fit together or have
    other data types.
    """
    check_status(outputs)
    check_datatypes(outputs, Task.classification.outputs)
    scores, class_ids = (
        _require(outputs, name, Task.classification) for name in Task.classification.required
    )
    names = outputs.get("class_labels")
    shapes = {tensor.shape for tensor in (scores, class_ids, names) if tensor is not None}
    if len(shapes) > 1 or scores.ndim != 2 or len(scores) != 1:
        raise RequestError(
            "internal",
            "the server's class_scores, class_ids and class_labels do not fit together: their "
            f"shapes are {sorted(shapes)}; [1,K] is expected",
        )
    if not np.isfinite(scores).all():
        raise RequestError("internal", "the server answered a score that is no finite number")
    served = [""] * scores.size if names is None else [text(name) for name in names[0]]
    return [
        ClassScore(int(class_id), float(score), label_of(int(class_id), labels) or name or None)
        for class_id, score, name in zip(class_ids[0], scores[0], served, strict=True)
        if class_id >= 0
    ]


def check_status(outputs: Tensors) -> None:
    """Raises RequestError where there is a status and it is not 0, or no number."""
    check_datatypes(outputs, ["status"])
    status = outputs.get("status")
    if status is None:
        return
    if status.size != 1:
        raise RequestError(
            "internal", f"the server answered status {status.shape}; [1,1] is expected"
        )
    code = int(status.flat[0])
    if code != Status.OK:
        name = status_name(code)
        raise RequestError(name, f"the server answered status {code} ({name})")


def _require(outputs: Tensors, name: str, task: Task) -> NDArray[Any]:
    tensor = outputs.get(name)
    if tensor is None or tensor.size == 0:
        raise RequestError(
            "internal",
            f"the server's answer has no {name}; the model must have the outputs "
            f"{', '.join(task.required)}",
        )
    return tensor


def _box(values: NDArray[np.float32]) -> Box:
    x1, y1, x2, y2 = (float(value) for value in values)
    return (x1, y1, x2, y2)


def label_of(class_id: int, labels: Sequence[str] | None) -> str | None:
    """Returns a class's name, None where it has none."""
    return labels[class_id] if labels is not None and 0 <= class_id < len(labels) else None
