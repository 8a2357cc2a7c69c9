"""Detections and classes from the tensors of a response, checked first: a server is not trusted."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.client.calls import triton_type
from endcap.client.errors import RequestError
from endcap.client.served_model import ServedModel
from endcap.detections import ClassScore, ImageDetections
from endcap.errors import InvalidArgumentError, Status
from endcap.results import PROBABILITIES, FramePosition, ImageResult, Task, status_name

Tensors = Mapping[str, NDArray[Any] | None]

Shape = tuple[int | str, ...]

# The data types and shapes of outputs, as docs/triton.md has them; K are the rows of a response, P
# is any number, and () is one element.
_OUTPUTS: dict[str, tuple[str, Shape]] = {
    "detection_boxes": ("FP32", (1, "K", 4)),
    "detection_scores": ("FP32", (1, "K")),
    "detection_classes": ("INT32", (1, "K")),
    "detection_indices": ("INT32", (1, "K")),
    "num_detections": ("INT32", ()),
    "status": ("INT32", ()),
    "detection_keypoints": ("FP32", (1, "K", "P", 3)),
    "track_ids": ("INT64", (1, "K")),
    "detection_angles": ("FP32", (1, "K")),
    "detection_rle": ("BYTES", (1, "K")),
    "mask_size": ("INT32", (1, 2)),
    "class_scores": ("FP32", (1, "K")),
    "class_ids": ("INT32", (1, "K")),
    "class_labels": ("BYTES", (1, "K")),
    PROBABILITIES: ("BYTES", (1, "K")),
    "frame_index": ("INT64", ()),
    "pts_seconds": ("FP64", ()),
    "dropped": ("INT64", ()),
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
        if not self.model.reads_videos or any(tensors.get(name) is None for name in _FRAME_OUTPUTS):
            return None
        found = _checked(tensors, _FRAME_OUTPUTS)
        _check_finite("pts_seconds", found["pts_seconds"])
        return FramePosition(*(found[name].reshape(-1)[0].item() for name in _FRAME_OUTPUTS))

    def result(
        self,
        name: str,
        outcome: ImageResponse | RequestError,
        *,
        latency_ms: float | None = None,
        request_id: str = "",
        final: bool = True,
        frame: FramePosition | None = None,
    ) -> ImageResult:
        """Return the result of an image, of its response or the error."""
        error = outcome if isinstance(outcome, RequestError) else None
        response = ImageResponse() if isinstance(outcome, RequestError) else outcome
        return ImageResult(
            name,
            "ok" if error is None else error.status_name,
            response.detections,
            error=None if error is None else str(error),
            latency_ms=latency_ms,
            classes=response.classes,
            task=self.model.task,
            request_id=request_id,
            final=final,
            upright=response.upright,
            frame=frame,
            tensors=response.tensors,
        )

    def try_read(self, tensors: Tensors) -> ImageResponse | RequestError:
        """Return the result of `read` or its error, without references to the tensors."""
        try:
            return self.read(tensors)
        except RequestError as error:
            return error.with_traceback(None)


def read_rows(outputs: Tensors, labels: Sequence[str] | None) -> ImageDetections:
    """Return the detections of one response of the ensemble, a batch of one, in separate arrays.

    Args:
        outputs: By name, of the types and shapes in `_OUTPUTS`; extras and `status` may be
            absent.
        labels: Class names by id.

    Raises:
        RequestError: The image's status is not 0, the tensors do not fit together, or they have
            other data types.
    """
    _check_status(outputs)
    required = [name for name in Task.detection.required if name != "status"]
    found = _checked(outputs, Task.detection.outputs, required, may_be_empty=True)
    count, rows = found["num_detections"], found["detection_boxes"].shape[1]
    kept = int(count.flat[0])
    if not 0 <= kept <= rows:
        raise _misfit("num_detections", count, f"0 to {rows}")
    first = {
        name: tensor[0, :kept].copy() for name, tensor in found.items() if "K" in _OUTPUTS[name][1]
    }
    for name, tensor in first.items():
        _check_finite(name, tensor)
    rle, mask_size = _read_masks(first.get("detection_rle"), found.get("mask_size"))
    names = [_label_of(class_id, labels) for class_id in first["detection_classes"].tolist()]
    class_ids, scores = first.get("class_ids"), first.get("class_scores")
    classes: list[ClassScore | None] | None = None
    if class_ids is not None and scores is not None:
        served = first.get("class_labels", [""] * kept)
        classes = [
            ClassScore(int(class_id), float(score), _text(name) or None) if class_id >= 0 else None
            for class_id, score, name in zip(class_ids, scores, served, strict=True)
        ]
    return ImageDetections(
        boxes=first["detection_boxes"],
        scores=first["detection_scores"],
        class_ids=first["detection_classes"],
        indices=first["detection_indices"],
        keypoints=first.get("detection_keypoints"),
        angles=first.get("detection_angles"),
        rle=rle,
        mask_size=mask_size,
        labels=names if any(name is not None for name in names) else None,
        classifications=classes,
        track_ids=first.get("track_ids"),
    )


def read_classes(outputs: Tensors, labels: Sequence[str] | None) -> list[ClassScore]:
    """Return the classes of one response of a classifier; rows of id -1 hold no class.

    Args:
        outputs: As for `read_rows`.
        labels: Names by id, which take precedence over those of class_labels; an empty one there is
            no name.

    Raises:
        RequestError: As for `read_rows`.
    """
    _check_status(outputs)
    found = _checked(outputs, Task.classification.outputs, Task.classification.required)
    class_ids, scores = found["class_ids"][0], found["class_scores"][0]
    _check_finite("class_scores", scores)
    served = found["class_labels"][0] if "class_labels" in found else [""] * scores.size
    return [
        ClassScore(int(each), float(score), _label_of(int(each), labels) or _text(name) or None)
        for each, score, name in zip(class_ids, scores, served, strict=True)
        if each >= 0
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
    """Raise RequestError where there is a status and it is not 0."""
    status = _checked(outputs, ["status"]).get("status")
    code = Status.OK if status is None else int(status.flat[0])
    if code != Status.OK:
        name = status_name(code)
        raise RequestError(name, f"the server returned status {code} ({name})")


def _label_of(class_id: int, labels: Sequence[str] | None) -> str | None:
    """Return a class's name, None where it has none."""
    return labels[class_id] if labels is not None and 0 <= class_id < len(labels) else None


def _read_best_classes(outputs: Tensors, labels: Sequence[str] | None) -> list[ClassScore]:
    """Return the classes of one response of Triton's classification extension, best first."""
    _check_status(outputs)
    found = _checked(outputs, [PROBABILITIES], [PROBABILITIES], may_be_empty=True)
    return [_class_score(_text(element), labels) for element in found[PROBABILITIES][0]]


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


def _read_masks(
    encoded: NDArray[Any] | None, size: NDArray[Any] | None
) -> tuple[list[bytes] | None, tuple[int, int] | None]:
    """Return the masks, not decoded, and their size, None where the model has none."""
    if encoded is None:
        return None, None
    if size is None:
        raise RequestError(
            "internal",
            "the server returned detection_rle without mask_size, which says how large the masks "
            "are; give the ensemble both outputs",
        )
    height, width = size[0].tolist()
    if height < 0 or width < 0:
        raise _misfit("mask_size", size, "a height and a width")
    rle = [each.encode("utf-8", "replace") if isinstance(each, str) else each for each in encoded]
    if not all(each and each.isascii() for each in rle):
        raise RequestError("internal", "the server returned a detection_rle that is not COCO's RLE")
    return rle, (height, width)


def _checked(
    outputs: Tensors,
    names: Collection[str],
    required: Collection[str] = (),
    *,
    may_be_empty: bool = False,
) -> dict[str, NDArray[Any]]:
    """Return those outputs of `names` that a response has.

    Raises:
        RequestError: One has another data type or shape, or is required and missing, or without
            rows unless it `may_be_empty`.
    """
    found: dict[str, NDArray[Any]] = {}
    sizes: dict[int | str, int] = {}
    for name, (datatype, shape) in _OUTPUTS.items():
        if name not in names:
            continue
        tensor = outputs.get(name)
        is_empty = tensor is None or (tensor.size == 0 and not (may_be_empty and shape))
        if is_empty and name in required:
            raise RequestError(
                "internal",
                f"the server's response has no {name}; the model must have the outputs "
                f"{', '.join(required)}",
            )
        if tensor is None:
            continue
        _check_datatype(name, tensor, datatype)
        expected = tuple(sizes.get(side, side) for side in shape)
        fits = tensor.size == 1 if not shape else tensor.ndim == len(shape)
        for side, size in zip(expected, tensor.shape, strict=False):
            fits = fits and (isinstance(side, str) or side == size)
        if not fits:
            raise _misfit(name, tensor, f"[{','.join(map(str, expected or (1, 1)))}]")
        sizes |= {
            side: size for side, size in zip(shape, tensor.shape, strict=False) if side == "K"
        }
        found[name] = tensor
    return found


def _check_datatype(name: str, tensor: NDArray[Any], expected: str) -> None:
    datatype = triton_type(tensor.dtype)
    if datatype != expected:
        raise RequestError(
            "internal", f"the server returned {name} of type {datatype}; {expected} is expected"
        )
    for element in tensor.flat if datatype == "BYTES" else ():
        if not isinstance(element, (bytes, str)):
            raise RequestError(
                "internal",
                f"the server returned {name} of type BYTES with an element of type "
                f"{type(element).__name__}; texts are expected",
            )


def _check_finite(name: str, tensor: NDArray[Any]) -> None:
    if tensor.dtype.kind == "f" and not np.isfinite(tensor).all():
        raise RequestError(
            "internal", f"the server returned {name} with a number that is not finite"
        )


def _misfit(name: str, tensor: NDArray[Any], expected: str) -> RequestError:
    values = f" {tensor.tolist()}" if tensor.size <= 2 else ""
    return RequestError(
        "internal",
        f"the server's outputs do not fit together: {name} {tensor.shape}{values}; {expected} is "
        "expected",
    )


def _text(name: bytes | str) -> str:
    """Return an element of a BYTES tensor as text."""
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else name
