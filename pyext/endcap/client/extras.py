"""What only some models answer for each detection: keypoints, angles, masks, a class."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.client.calls import triton_type
from endcap.client.errors import RequestError
from endcap.results.detection import ClassScore, Keypoint, Mask
from endcap.results.task import PROBABILITIES

Tensors = Mapping[str, NDArray[Any] | None]

# By output, as docs/triton.md has them.
_DATATYPES = {
    "num_detections": "INT32",
    "detection_boxes": "FP32",
    "detection_scores": "FP32",
    "detection_classes": "INT32",
    "detection_indices": "INT32",
    "status": "INT32",
    "detection_keypoints": "FP32",
    "detection_angles": "FP32",
    "detection_rle": "BYTES",
    "mask_size": "INT32",
    "class_scores": "FP32",
    "class_ids": "INT32",
    "class_labels": "BYTES",
    PROBABILITIES: "BYTES",
}


def check_datatypes(outputs: Tensors, names: Iterable[str]) -> None:
    """Raises RequestError where one of these outputs, if it is there, is of another data type.

    Data types as in a model's configuration; the elements of BYTES are bytes or texts.
    """
    for name in names:
        tensor = outputs.get(name)
        if tensor is None:
            continue
        datatype, expected = triton_type(tensor.dtype), _DATATYPES[name]
        if datatype != expected:
            raise RequestError(
                "internal",
                f"the server answered {name} of type {datatype}; {expected} is expected",
            )
        if datatype != "BYTES":
            continue
        for element in tensor.flat:
            if not isinstance(element, (bytes, str)):
                raise RequestError(
                    "internal",
                    f"the server answered {name} of type BYTES with an element of type "
                    f"{type(element).__name__}; texts are expected",
                )


# Each reader returns something for the first `kept` of an answer's K rows, None for all of them
# where the model has no such output, and raises RequestError where the tensor does not fit.


def read_keypoints(outputs: Tensors, rows: int, kept: int) -> list[list[Keypoint] | None]:
    """Reads detection_keypoints float32 [1,K,P,3]."""
    keypoints = outputs.get("detection_keypoints")
    if keypoints is None:
        return [None] * kept
    fits = keypoints.ndim == 4 and keypoints.shape[:2] == (1, rows) and keypoints.shape[3] == 3
    _check("detection_keypoints", keypoints, fits, f"[1,{rows},P,3]")
    _check_finite("a keypoint", keypoints[0, :kept])
    return [[(x, y, seen) for x, y, seen in row] for row in keypoints[0, :kept].tolist()]


def read_angles(outputs: Tensors, rows: int, kept: int) -> list[float | None]:
    """Reads detection_angles float32 [1,K]."""
    angles = outputs.get("detection_angles")
    if angles is None:
        return [None] * kept
    _check("detection_angles", angles, angles.shape == (1, rows), f"[1,{rows}]")
    _check_finite("an angle", angles[0, :kept])
    return [float(angle) for angle in angles[0, :kept]]


def read_masks(outputs: Tensors, rows: int, kept: int) -> list[Mask | None]:
    """Reads detection_rle bytes [1,K] and mask_size int32 [1,2]; run lengths are not unpacked."""
    encoded, size = outputs.get("detection_rle"), outputs.get("mask_size")
    if encoded is None:
        return [None] * kept
    if size is None:
        raise RequestError(
            "internal",
            "the server answered detection_rle without mask_size, which says how large the masks "
            "are; give the ensemble both outputs",
        )
    _check("detection_rle", encoded, encoded.shape == (1, rows), f"[1,{rows}]")
    _check("mask_size", size, size.shape == (1, 2) and bool((size >= 0).all()), "[1,2]")
    height, width = (int(side) for side in size[0])
    return [{"size": [height, width], "counts": _counts(each)} for each in encoded[0, :kept]]


def read_classifications(outputs: Tensors, rows: int, kept: int) -> list[ClassScore | None]:
    """Reads class_ids int32, class_scores float32 and class_labels bytes [1,K].

    The last may be absent. A row of id -1 was not classified.
    """
    class_ids, scores = outputs.get("class_ids"), outputs.get("class_scores")
    if class_ids is None or scores is None:
        return [None] * kept
    labels = outputs.get("class_labels")
    if labels is None:
        labels = np.full((1, rows), b"", np.object_)
    for name, values in (("class_ids", class_ids), ("class_scores", scores)):
        _check(name, values, values.shape == (1, rows), f"[1,{rows}]")
    _check("class_labels", labels, labels.shape == (1, rows), f"[1,{rows}]")
    _check_finite("a class's score", scores[0, :kept])
    return [
        ClassScore(int(class_id), float(score), text(label) or None) if class_id >= 0 else None
        for class_id, score, label in zip(
            class_ids[0, :kept], scores[0, :kept], labels[0, :kept], strict=True
        )
    ]


def text(name: bytes | str) -> str:
    """Returns an element of a BYTES tensor as text."""
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else name


def _counts(encoded: bytes | str) -> str:
    text = encoded.decode("ascii", "replace") if isinstance(encoded, bytes) else encoded
    if not text or not text.isascii():
        raise RequestError(
            "internal", "the server answered a detection_rle that is not COCO's run lengths"
        )
    return text


def _check(name: str, tensor: NDArray[Any], fits: bool, expected: str) -> None:
    if not fits:
        values = f" {tensor.tolist()}" if tensor.size <= 2 else ""
        raise RequestError(
            "internal",
            f"the server's outputs do not fit together: {name} {tensor.shape}{values}; "
            f"{expected} is expected",
        )


def _check_finite(what: str, values: NDArray[Any]) -> None:
    if not np.isfinite(values).all():
        raise RequestError("internal", f"the server answered {what} that is no finite number")
