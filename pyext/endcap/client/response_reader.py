"""Detections and classes from the tensors of a response, checked first: a server is not trusted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.client.calls import triton_type
from endcap.client.errors import RequestError
from endcap.client.served_model import ServedModel
from endcap.detections import ClassScore, ImageDetections
from endcap.errors import InvalidArgumentError, Status
from endcap.results import PROBABILITIES, FramePosition, Task, status_name

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
    "track_ids": "INT64",
    "detection_angles": "FP32",
    "detection_rle": "BYTES",
    "mask_size": "INT32",
    "class_scores": "FP32",
    "class_ids": "INT32",
    "class_labels": "BYTES",
    PROBABILITIES: "BYTES",
    "frame_index": "INT64",
    "pts_seconds": "FP64",
    "dropped": "INT64",
}
_FRAME_OUTPUTS = ("frame_index", "pts_seconds", "dropped")


@dataclass(frozen=True)
class ImageResponse:
    """One image's part of a response. upright: see ImageResult."""

    detections: ImageDetections = field(default_factory=lambda: ImageDetections.from_list([]))
    classes: list[ClassScore] = field(default_factory=list)
    upright: bool = True
    tensors: Mapping[str, NDArray[Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class ResponseReader:
    """Reads the responses of a model.

    Attributes:
        best_classes: The number of classes to request from Triton's classification extension, None
            for the model's own.
        labels: Class names by id.
    """

    model: ServedModel
    labels: Sequence[str] | None = None
    best_classes: int | None = None

    def __post_init__(self) -> None:
        if self.best_classes is None:
            return
        if self.best_classes < 1:
            raise InvalidArgumentError(f"classify {self.best_classes} is below 1")
        if self.model.task is not Task.classification or PROBABILITIES not in self.model.outputs:
            raise InvalidArgumentError(
                f"model '{self.model.name}' has no output {PROBABILITIES} for the best "
                "classes; leave classify out, or name a classifier that has it"
            )

    def wanted(self, *, extras: bool) -> list[str]:
        """Return the outputs to request; extras: keypoints, angles and masks, too."""
        task = self.model.task
        if self.best_classes is not None:
            names: tuple[str, ...] = (PROBABILITIES, "status")
        elif task is Task.tensors:
            names = tuple(self.model.outputs)
        else:
            names = task.outputs if extras or task is Task.classification else task.required
        if self.model.reads_videos:
            names = (*names, "track_ids", *_FRAME_OUTPUTS)
        names = tuple(dict.fromkeys(names))
        return [name for name in names if name in self.model.outputs]

    @property
    def class_counts(self) -> dict[str, int]:
        """The number of best elements to request, by output."""
        return {} if self.best_classes is None else {PROBABILITIES: self.best_classes}

    def read(self, tensors: Tensors) -> ImageResponse:
        """Return the detections, classes or tensors of a response, a batch of one.

        Raises:
            RequestError: The image's status is not 0, or the tensors do not fit together.
        """
        if self.best_classes is not None:
            return ImageResponse(classes=_read_best_classes(tensors, self.labels))
        if self.model.task is Task.classification:
            return ImageResponse(classes=read_classes(tensors, self.labels))
        if self.model.task is Task.tensors:
            return ImageResponse(tensors=_read_tensors(tensors), upright=self.model.upright)
        return ImageResponse(detections=read_rows(tensors, self.labels), upright=self.model.upright)

    def read_part(self, tensors: Tensors) -> ImageResponse:
        """Return what `read` does for one of several responses, which may have no tensors.

        Without the output num_detections all rows of a response count.
        """
        if all(tensor is None for tensor in tensors.values()):
            return ImageResponse()
        boxes = tensors.get("detection_boxes")
        if self.model.task is Task.detection and "num_detections" not in self.model.outputs:
            rows = 0 if boxes is None or boxes.ndim != 3 else boxes.shape[1]
            tensors = {**tensors, "num_detections": np.full((1, 1), rows, np.int32)}
        return self.read(tensors)

    def read_frame(self, tensors: Tensors) -> FramePosition | None:
        """Return which frame of a video a response is for, None for one without a frame.

        Raises:
            RequestError: The tensors have other types or shapes.
        """
        found = [tensors.get(name) for name in _FRAME_OUTPUTS]
        if not self.model.reads_videos or any(each is None for each in found):
            return None
        _check_datatypes(tensors, _FRAME_OUTPUTS)
        values = []
        for name, tensor in zip(_FRAME_OUTPUTS, found, strict=True):
            assert tensor is not None
            _check(name, tensor, tensor.size == 1, "[1]")
            values.append(tensor.reshape(-1)[0].item())
        index, seconds, dropped = values
        if not math.isfinite(seconds):
            raise RequestError("internal", "the server returned pts_seconds that is no number")
        return FramePosition(index, seconds, dropped)

    def try_read(self, tensors: Tensors) -> ImageResponse | RequestError:
        """Return the result of `read` or its error, without references to the tensors."""
        try:
            return self.read(tensors)
        except RequestError as error:
            return error.with_traceback(None)


def read_rows(outputs: Tensors, labels: Sequence[str] | None) -> ImageDetections:
    """Return the detections of one response of the ensemble, in arrays of their own.

    Args:
        outputs: A batch of one: num_detections int32 [1,1], detection_boxes float32 [1,K,4],
            detection_scores float32 [1,K], detection_classes and detection_indices int32 [1,K],
            status int32 [1,1]. K may be 0, and `status` absent. Where the model has them,
            detection_keypoints float32 [1,K,P,3], detection_angles float32 [1,K], detection_rle
            bytes [1,K] with mask_size int32 [1,2], class_ids int32, class_scores float32 and
            class_labels bytes [1,K], and track_ids int64 [1,K].
        labels: Class names by id.

    Raises:
        RequestError: The image's status is not 0, the tensors do not fit together, or they have
            other data types.
    """
    _check_status(outputs)
    _check_datatypes(outputs, Task.detection.outputs)
    count, boxes, scores, class_ids, indices = (
        _require(outputs, name, Task.detection, may_be_empty=name != "num_detections")
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
            "internal", "the server returned a box or a score that is no finite number"
        )
    rle, mask_size = _read_masks(outputs, rows, kept)
    names = [_label_of(class_id, labels) for class_id in class_ids[0, :kept].tolist()]
    return ImageDetections(
        boxes=boxes[0, :kept].copy(),
        scores=scores[0, :kept].copy(),
        class_ids=class_ids[0, :kept].copy(),
        indices=indices[0, :kept].copy(),
        keypoints=_read_keypoints(outputs, rows, kept),
        angles=_read_angles(outputs, rows, kept),
        rle=rle,
        mask_size=mask_size,
        labels=names if any(name is not None for name in names) else None,
        classifications=_read_classifications(outputs, rows, kept),
        track_ids=_read_track_ids(outputs, rows, kept),
    )


def read_classes(outputs: Tensors, labels: Sequence[str] | None) -> list[ClassScore]:
    """Return the classes of one response of a classifier.

    Args:
        outputs: A batch of one: class_scores float32 [1,K], class_ids int32 [1,K], class_labels
            bytes [1,K], status int32 [1,1]. The last two may be absent.
        labels: Names by id, which take precedence over those of class_labels; an empty one there is
            no name. Rows of id -1 hold no class.

    Raises:
        RequestError: The image's status is not 0, the tensors do not fit together, or they have
            other data types.
    """
    _check_status(outputs)
    _check_datatypes(outputs, Task.classification.outputs)
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
        raise RequestError("internal", "the server returned a score that is no finite number")
    served = [""] * scores.size if names is None else [_text(name) for name in names[0]]
    return [
        ClassScore(int(class_id), float(score), _label_of(int(class_id), labels) or name or None)
        for class_id, score, name in zip(class_ids[0], scores[0], served, strict=True)
        if class_id >= 0
    ]


def _read_tensors(outputs: Tensors) -> dict[str, NDArray[Any]]:
    """Return copies of all outputs but `status`, without the batch dimension.

    Raises:
        RequestError: The image's status is not 0.
    """
    _check_status(outputs)
    return {
        name: tensor[0].copy()
        for name, tensor in outputs.items()
        if tensor is not None and name != "status"
    }


def _check_status(outputs: Tensors) -> None:
    """Raise RequestError where there is a status and it is not 0, or no number."""
    _check_datatypes(outputs, ["status"])
    status = outputs.get("status")
    if status is None:
        return
    if status.size != 1:
        raise RequestError(
            "internal", f"the server returned status {status.shape}; [1,1] is expected"
        )
    code = int(status.flat[0])
    if code != Status.OK:
        name = status_name(code)
        raise RequestError(name, f"the server returned status {code} ({name})")


def _require(
    outputs: Tensors, name: str, task: Task, *, may_be_empty: bool = False
) -> NDArray[Any]:
    tensor = outputs.get(name)
    if tensor is None or (tensor.size == 0 and not may_be_empty):
        raise RequestError(
            "internal",
            f"the server's response has no {name}; the model must have the outputs "
            f"{', '.join(task.required)}",
        )
    return tensor


def _label_of(class_id: int, labels: Sequence[str] | None) -> str | None:
    """Return a class's name, None where it has none."""
    return labels[class_id] if labels is not None and 0 <= class_id < len(labels) else None


def _read_best_classes(outputs: Tensors, labels: Sequence[str] | None) -> list[ClassScore]:
    """Return the classes of one response, best first.

    Args:
        outputs: A batch of one: class_probabilities bytes [1,K], and status int32 [1,1], which may
            be absent.
        labels: Names by id, which take precedence over the server's; an empty one there is no name.

    Raises:
        RequestError: The image's status is not 0, or an element is not `score:id:label`.
    """
    _check_status(outputs)
    _check_datatypes(outputs, [PROBABILITIES])
    tensor = outputs.get(PROBABILITIES)
    if tensor is None or tensor.ndim != 2 or len(tensor) != 1:
        raise RequestError(
            "internal",
            f"the server returned {PROBABILITIES} {None if tensor is None else tensor.shape}; "
            "texts [1,K] are expected",
        )
    return [_class_score(_text(element), labels) for element in tensor[0]]


def _class_score(element: str, labels: Sequence[str] | None) -> ClassScore:
    score, class_id, label = (*element.split(":", 2), "", "")[:3]
    try:
        best = ClassScore(int(class_id), float(score), None)
    except ValueError:
        best = ClassScore(0, math.nan, None)
    if not math.isfinite(best.score):
        raise RequestError(
            "internal", f"the server returned the class {element[:80]!r}, not score:id:label"
        )
    return ClassScore(best.class_id, best.score, _label_of(best.class_id, labels) or label or None)


# Each reader returns the first `kept` of a response's K rows, None where the model has no such
# output, and raises RequestError where the tensor does not fit.


def _read_keypoints(outputs: Tensors, rows: int, kept: int) -> NDArray[np.float32] | None:
    """Read detection_keypoints float32 [1,K,P,3]."""
    keypoints = outputs.get("detection_keypoints")
    if keypoints is None:
        return None
    fits = keypoints.ndim == 4 and keypoints.shape[:2] == (1, rows) and keypoints.shape[3] == 3
    _check("detection_keypoints", keypoints, fits, f"[1,{rows},P,3]")
    _check_finite("a keypoint", keypoints[0, :kept])
    return keypoints[0, :kept].copy()


def _read_angles(outputs: Tensors, rows: int, kept: int) -> NDArray[np.float32] | None:
    """Read detection_angles float32 [1,K]."""
    angles = outputs.get("detection_angles")
    if angles is None:
        return None
    _check("detection_angles", angles, angles.shape == (1, rows), f"[1,{rows}]")
    _check_finite("an angle", angles[0, :kept])
    return angles[0, :kept].copy()


def _read_track_ids(outputs: Tensors, rows: int, kept: int) -> NDArray[np.int64] | None:
    """Read track_ids int64 [1,K]."""
    ids = outputs.get("track_ids")
    if ids is None:
        return None
    _check("track_ids", ids, ids.shape == (1, rows), f"[1,{rows}]")
    return ids[0, :kept].copy()


def _read_masks(
    outputs: Tensors, rows: int, kept: int
) -> tuple[list[bytes] | None, tuple[int, int] | None]:
    """Read detection_rle bytes [1,K] and mask_size int32 [1,2]; masks are not decoded."""
    encoded, size = outputs.get("detection_rle"), outputs.get("mask_size")
    if encoded is None:
        return None, None
    if size is None:
        raise RequestError(
            "internal",
            "the server returned detection_rle without mask_size, which says how large the masks "
            "are; give the ensemble both outputs",
        )
    _check("detection_rle", encoded, encoded.shape == (1, rows), f"[1,{rows}]")
    _check("mask_size", size, size.shape == (1, 2) and bool((size >= 0).all()), "[1,2]")
    height, width = size[0].tolist()
    return [_counts(each) for each in encoded[0, :kept]], (height, width)


def _read_classifications(outputs: Tensors, rows: int, kept: int) -> list[ClassScore | None] | None:
    """Read class_ids int32, class_scores float32 and class_labels bytes [1,K].

    The last may be absent. A row of id -1 was not classified.
    """
    class_ids, scores = outputs.get("class_ids"), outputs.get("class_scores")
    if class_ids is None or scores is None:
        return None
    labels = outputs.get("class_labels")
    if labels is None:
        labels = np.full((1, rows), b"", np.object_)
    for name, values in (("class_ids", class_ids), ("class_scores", scores)):
        _check(name, values, values.shape == (1, rows), f"[1,{rows}]")
    _check("class_labels", labels, labels.shape == (1, rows), f"[1,{rows}]")
    _check_finite("a class's score", scores[0, :kept])
    return [
        ClassScore(int(class_id), float(score), _text(label) or None) if class_id >= 0 else None
        for class_id, score, label in zip(
            class_ids[0, :kept], scores[0, :kept], labels[0, :kept], strict=True
        )
    ]


def _check_datatypes(outputs: Tensors, names: Iterable[str]) -> None:
    """Raise RequestError where one of these outputs, if it is there, is of another data type.

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
                f"the server returned {name} of type {datatype}; {expected} is expected",
            )
        if datatype != "BYTES":
            continue
        for element in tensor.flat:
            if not isinstance(element, (bytes, str)):
                raise RequestError(
                    "internal",
                    f"the server returned {name} of type BYTES with an element of type "
                    f"{type(element).__name__}; texts are expected",
                )


def _text(name: bytes | str) -> str:
    """Return an element of a BYTES tensor as text."""
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else name


def _counts(encoded: bytes | str) -> bytes:
    counts = encoded.encode("utf-8", "replace") if isinstance(encoded, str) else encoded
    if not counts or not counts.isascii():
        raise RequestError("internal", "the server returned a detection_rle that is not COCO's RLE")
    return counts


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
        raise RequestError("internal", f"the server returned {what} that is no finite number")
