"""Results of images from the tensors of a response, checked first: a server is not trusted."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.client.errors import RequestError
from endcap.client.served_model import ServedModel
from endcap.detections import ClassScore, ImageDetections
from endcap.errors import InvalidArgumentError, Status
from endcap.results import PROBABILITIES, FramePosition, ImageResult, Task, status_name

Tensors = Mapping[str, NDArray[Any] | None]
Labels = Mapping[int, str]  # class names by id

_ANY, _ROWS = -1, -2  # sides: of any size, and the rows of a response
_TEXTS = np.dtype(np.object_)
# The data types and shapes of outputs, as docs/triton.md has them; () is one element.
_OUTPUTS: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {
    name: (np.dtype(dtype), shape)
    for name, dtype, shape in (
        ("detection_boxes", np.float32, (1, _ROWS, 4)),
        ("detection_scores", np.float32, (1, _ROWS)),
        ("detection_classes", np.int32, (1, _ROWS)),
        ("detection_indices", np.int32, (1, _ROWS)),
        ("num_detections", np.int32, ()),
        ("status", np.int32, ()),
        ("detection_keypoints", np.float32, (1, _ROWS, _ANY, 3)),
        ("track_ids", np.int64, (1, _ROWS)),
        ("detection_angles", np.float32, (1, _ROWS)),
        ("detection_rle", _TEXTS, (1, _ROWS)),
        ("mask_size", np.int32, (1, 2)),
        ("class_scores", np.float32, (1, _ROWS)),
        ("class_ids", np.int32, (1, _ROWS)),
        ("class_labels", _TEXTS, (1, _ROWS)),
        (PROBABILITIES, _TEXTS, (1, _ROWS)),
        ("frame_index", np.int64, ()),
        ("pts_seconds", np.float64, ()),
        ("dropped", np.int64, ()),
    )
}
_FRAME_OUTPUTS = ("frame_index", "pts_seconds", "dropped")
_DETECTION = tuple(name for name in Task.detection.required if name != "status")
_DETECTION_ROWS = tuple(name for name in Task.detection.outputs if _ROWS in _OUTPUTS[name][1])
_CLASSIFICATION = tuple(name for name in Task.classification.required if name != "status")


class ResponseReader:
    """Reads the responses of a model.

    Args:
        model: The model.
        labels: Class names by id.
        best_classes: The number of classes to request from Triton's classification extension, None
            for the model's own.
        extras: Whether to request keypoints, angles and masks, too.

    Attributes:
        outputs: Those to request, each with the number of its best elements, or 0 for all.
    """

    def __init__(
        self,
        model: ServedModel,
        labels: Sequence[str] | None = None,
        best_classes: int | None = None,
        *,
        extras: bool = True,
    ) -> None:
        self.model = model
        self._best_classes = best_classes
        self._labels = dict(enumerate(labels or ()))
        task = model.task
        if best_classes is None:
            is_all = extras or task is Task.classification
            names = tuple(model.outputs) if task is Task.tensors else task.required
            names += task.outputs if is_all else ()
        else:
            self._check_best_classes(best_classes)
            names = (PROBABILITIES, "status")
        if model.reads_videos:
            names += ("track_ids", *_FRAME_OUTPUTS)
        counts = {PROBABILITIES: best_classes or 0}
        self.outputs = {name: counts.get(name, 0) for name in names if name in model.outputs}

    def _check_best_classes(self, best_classes: int) -> None:
        if best_classes < 1:
            raise InvalidArgumentError(f"classify {best_classes} is below 1")
        if self.model.task is not Task.classification or PROBABILITIES not in self.model.outputs:
            raise InvalidArgumentError(
                f"model '{self.model.name}' has no output {PROBABILITIES} for the best "
                "classes; leave classify out, or name a classifier that has it"
            )

    def read(self, tensors: Tensors) -> dict[str, Any]:
        """Return the fields of ImageResult that follow from a response, a batch of one.

        Raises:
            RequestError: The image's status is not 0, or the tensors do not fit together.
        """
        _check_status(tensors)
        if self._best_classes is not None:
            return {"classes": _read_best_classes(tensors, self._labels)}
        if self.model.task is Task.classification:
            return {"classes": read_classes(tensors, self._labels)}
        if self.model.task is Task.tensors:  # all but `status`, without the batch dimension
            return {
                "tensors": {
                    name: tensor[0].copy()
                    for name, tensor in tensors.items()
                    if tensor is not None and name != "status"
                }
            }
        return {"detections": read_rows(tensors, self._labels)}

    def read_part(self, tensors: Tensors) -> dict[str, Any]:
        """Return what `read` does for one of several responses, which may have no tensors.

        Without the output num_detections all rows of a response count.
        """
        if all(tensor is None for tensor in tensors.values()):
            return {}
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
        values = [_require(tensors, name, _FRAME_OUTPUTS).item() for name in _FRAME_OUTPUTS]
        if not math.isfinite(values[1]):
            raise _faulty("pts_seconds with a number that is not finite")
        return FramePosition(*values)

    def result(self, name: str, outcome: dict[str, Any] | RequestError, **more: Any) -> ImageResult:
        """Return the result of an image, of what `read` returned or the error."""
        task, upright = self.model.task, self.model.upright
        if isinstance(outcome, RequestError):
            fields: dict[str, Any] = {"status": outcome.status_name, "error": str(outcome)}
        else:
            fields = {"status": "ok", **outcome}
        return ImageResult(name, task=task, upright=upright, **fields, **more)

    def try_read(self, tensors: Tensors) -> dict[str, Any] | RequestError:
        """Return the result of `read` or its error, without references to the tensors."""
        try:
            return self.read(tensors)
        except RequestError as error:
            return error.with_traceback(None)


def read_rows(outputs: Tensors, labels: Labels) -> ImageDetections:
    """Return the detections of one response of the ensemble, a batch of one, in separate arrays.

    Args:
        outputs: By name, of the types and shapes in `_OUTPUTS`; extras may be absent.
        labels: Class names by id.

    Raises:
        RequestError: The tensors do not fit together, or have other data types.
    """
    rows = _require(outputs, "detection_boxes", _DETECTION).shape[1]
    count = _require(outputs, "num_detections", _DETECTION)
    kept = count.item()
    if not 0 <= kept <= rows:
        raise _misfit("num_detections", count, f"0 to {rows}")
    first: dict[str, NDArray[Any]] = {}
    for name in _DETECTION_ROWS:
        is_required = name in _DETECTION
        tensor = (
            _require(outputs, name, _DETECTION, rows) if is_required else _take(outputs, name, rows)
        )
        if tensor is None:
            continue
        part = first[name] = tensor[0, :kept].copy()
        if part.dtype.kind == "f" and not np.isfinite(part).all():
            raise _faulty(f"{name} with a number that is not finite")
    rle, mask_size = None, None
    if "detection_rle" in first:
        rle, mask_size = _read_masks(first["detection_rle"], _take(outputs, "mask_size"))
    class_ids = first["detection_classes"]
    names = [*map(labels.get, class_ids.tolist())] if labels else []
    classes: list[ClassScore | None] | None = None
    if "class_ids" in first and "class_scores" in first:
        served = first.get("class_labels", [""] * kept)
        classes = [
            ClassScore(int(class_id), float(score), _text(name) or None) if class_id >= 0 else None
            for class_id, score, name in zip(
                first["class_ids"], first["class_scores"], served, strict=True
            )
        ]
    return ImageDetections(
        boxes=first["detection_boxes"],
        scores=first["detection_scores"],
        class_ids=class_ids,
        indices=first["detection_indices"],
        keypoints=first.get("detection_keypoints"),
        angles=first.get("detection_angles"),
        rle=rle,
        mask_size=mask_size,
        labels=names if any(name is not None for name in names) else None,
        classifications=classes,
        track_ids=first.get("track_ids"),
    )


def read_classes(outputs: Tensors, labels: Labels) -> list[ClassScore]:
    """Return the classes of one response of a classifier; rows of id -1 hold no class.

    Args:
        outputs: As for `read_rows`.
        labels: Names by id, which take precedence over those of class_labels; an empty one there is
            no name.

    Raises:
        RequestError: As for `read_rows`.
    """
    scores = _require(outputs, "class_scores", _CLASSIFICATION)
    class_ids = _require(outputs, "class_ids", _CLASSIFICATION, scores.shape[1])
    served = _take(outputs, "class_labels", scores.shape[1])
    if not np.isfinite(scores).all():
        raise _faulty("class_scores with a number that is not finite")
    texts = [""] * scores.size if served is None else served[0]
    return [
        ClassScore(each, score, labels.get(each) or _text(name) or None)
        for each, score, name in zip(class_ids[0].tolist(), scores[0].tolist(), texts, strict=True)
        if each >= 0
    ]


def _check_status(outputs: Tensors) -> None:
    """Raise RequestError where there is a status and it is not 0."""
    status = _take(outputs, "status")
    code = Status.OK if status is None else status.item()
    if code != Status.OK:
        name = status_name(code)
        raise RequestError(name, f"the server returned status {code} ({name})")


def _read_best_classes(outputs: Tensors, labels: Labels) -> list[ClassScore]:
    """Return the classes of one response of Triton's classification extension, best first."""
    classes = []
    for element in map(_text, _require(outputs, PROBABILITIES, (PROBABILITIES,))[0]):
        score, class_id, label = (*element.split(":", 2), "", "")[:3]
        try:
            best = ClassScore(int(class_id), float(score), labels.get(int(class_id)) or label)
        except ValueError:
            best = ClassScore(0, math.nan, None)
        if not math.isfinite(best.score):
            raise _faulty(f"the class {element[:80]!r}, not score:id:label")
        classes.append(ClassScore(best.class_id, best.score, best.label or None))
    return classes


def _read_masks(
    encoded: NDArray[Any], size: NDArray[Any] | None
) -> tuple[list[bytes], tuple[int, int]]:
    """Return the masks, not decoded, and their size."""
    if size is None:
        raise _faulty("detection_rle without mask_size; give the ensemble both outputs")
    height, width = size[0].tolist()
    if height < 0 or width < 0:
        raise _misfit("mask_size", size, "a height and a width")
    rle = [_text(each).encode("utf-8", "replace") for each in encoded]
    if not all(each and each.isascii() for each in rle):
        raise _faulty("a detection_rle that is not COCO's RLE")
    return rle, (height, width)


def _require(
    outputs: Tensors, name: str, required: Collection[str], rows: int | None = None
) -> NDArray[Any]:
    """Return an output; raise RequestError where it is missing, or empty classes."""
    tensor = _take(outputs, name, rows)
    if tensor is None or (tensor.size == 0 and name in _CLASSIFICATION):
        raise _faulty(f"no {name}; the model must have the outputs {', '.join(required)}")
    return tensor


def _take(outputs: Tensors, name: str, rows: int | None = None) -> NDArray[Any] | None:
    """Return an output; raise RequestError where its data type or shape is not the expected one."""
    tensor = outputs.get(name)
    if tensor is None:
        return None
    dtype, shape = _OUTPUTS[name]
    if tensor.dtype != dtype:
        texts = "texts" if dtype is _TEXTS else dtype
        raise _faulty(f"{name} of type {tensor.dtype}; {texts} is expected")
    fits = tensor.ndim == len(shape) if shape else tensor.size == 1
    for side, size in zip(shape, tensor.shape, strict=False):
        is_rows = side == _ROWS and rows in (None, size)
        fits = fits and (is_rows or side in (size, _ANY))
    if not fits:
        sides = {_ANY: "P", _ROWS: "K" if rows is None else str(rows)}
        raise _misfit(name, tensor, f"[{','.join(sides.get(n, str(n)) for n in shape or (1, 1))}]")
    return tensor


def _misfit(name: str, tensor: NDArray[Any], expected: str) -> RequestError:
    values = f" {tensor.tolist()}" if tensor.size <= 2 else ""
    text = f"{name} {tensor.shape}{values}, and {expected} is expected"
    return _faulty(f"outputs that do not fit together: {text}")


def _text(element: object) -> str:
    """Return an element of a BYTES tensor as text."""
    if isinstance(element, (bytes, str)):
        return element.decode("utf-8", "replace") if isinstance(element, bytes) else element
    raise _faulty(f"an element of type {type(element).__name__} in a tensor of texts")


def _faulty(text: str) -> RequestError:
    return RequestError("internal", f"the server returned {text}")
