"""Results of images from the tensors of a response, checked first: a server is not trusted."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.client.errors import RequestError
from endcap.client.results import PROBABILITIES, FramePosition, ImageResult, Task, status_name
from endcap.client.served_model import ServedModel
from endcap.detections import ImageDetections
from endcap.errors import InvalidArgumentError, Status
from endcap.predictions import ClassScore

Tensors = Mapping[str, NDArray[Any] | None]
Labels = Mapping[int, str]  # class names by id

_ANY, _ROWS = -1, -2  # sides: of any size, and the rows of a response
_FLOAT, _INT, _LONG, _DOUBLE, _TEXT = (
    np.dtype(each) for each in (np.float32, np.int32, np.int64, np.float64, np.object_)
)
# The data types and shapes of outputs, as docs/triton.md has them; () is one element.
_OUTPUTS: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {
    "detection_boxes": (_FLOAT, (1, _ROWS, 4)),
    "detection_scores": (_FLOAT, (1, _ROWS)),
    "detection_classes": (_INT, (1, _ROWS)),
    "detection_indices": (_INT, (1, _ROWS)),
    "num_detections": (_INT, ()),
    "status": (_INT, ()),
    "detection_keypoints": (_FLOAT, (1, _ROWS, _ANY, 3)),
    "track_ids": (_LONG, (1, _ROWS)),
    "detection_angles": (_FLOAT, (1, _ROWS)),
    "detection_rle": (_TEXT, (1, _ROWS)),
    "mask_size": (_INT, (1, 2)),
    "class_scores": (_FLOAT, (1, _ROWS)),
    "class_ids": (_INT, (1, _ROWS)),
    "class_labels": (_TEXT, (1, _ROWS)),
    PROBABILITIES: (_TEXT, (1, _ROWS)),
    "frame_index": (_LONG, ()),
    "pts_seconds": (_DOUBLE, ()),
    "dropped": (_LONG, ()),
}
_FRAME_OUTPUTS = ("frame_index", "pts_seconds", "dropped")
_DETECTION = tuple(name for name in Task.detection.required if name != "status")
_DETECTION_ROWS = {name for name in Task.detection.outputs if _ROWS in _OUTPUTS[name][1]}
_REQUIRED_ROWS = _DETECTION_ROWS & {*_DETECTION}
_CLASSIFICATION = tuple(name for name in Task.classification.required if name != "status")


class ResponseReader:
    """Reads the responses of a model.

    Args:
        model: The model.
        labels: Class names by id.
        best_classes: The number of classes to request from Triton's classification extension, None
            for the model's own.
        extras: Whether to request keypoints, angles and masks as well.

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
            names = tuple(model.outputs) if task is Task.tensors else task.required
            names += task.outputs if extras or task is Task.classification else ()
        elif best_classes < 1:
            raise InvalidArgumentError(f"classify {best_classes} is below 1")
        elif task is not Task.classification or PROBABILITIES not in model.outputs:
            raise InvalidArgumentError(
                f"model '{model.name}' has no output {PROBABILITIES} for the best classes; leave "
                "classify out, or name a classifier that has it"
            )
        else:
            names = (PROBABILITIES, "status")
        if model.reads_videos:
            names += ("track_ids", *_FRAME_OUTPUTS)
        counts = {PROBABILITIES: best_classes or 0}
        self.outputs = {name: counts.get(name, 0) for name in names if name in model.outputs}

    def read(self, tensors: Tensors) -> dict[str, Any]:
        """Return the fields of ImageResult that follow from a response, a batch of one.

        Raises:
            RequestError: The image's status is not 0, or the tensors do not fit together.
        """
        status = _take(tensors, "status")
        code = Status.OK if status is None else status.item()
        if code != Status.OK:
            name = status_name(code)
            raise RequestError(name, f"the server returned status {code} ({name})")
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
        if self.model.task is Task.detection and "num_detections" not in self.model.outputs:
            boxes = tensors.get("detection_boxes")
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
            raise _faulty_error("pts_seconds with a number that is not finite")
        return FramePosition(*values)

    def make_result(
        self, name: str, outcome: dict[str, Any] | RequestError, **details: Any
    ) -> ImageResult:
        """Return the result of an image, from what `read` returned or the error."""
        fields = {"task": self.model.task, "upright": self.model.upright, **details}
        if isinstance(outcome, RequestError):
            return ImageResult(name, outcome.status_name, error=str(outcome), **fields)
        return ImageResult(name, "ok", **outcome, **fields)


def read_rows(outputs: Tensors, labels: Labels) -> ImageDetections:
    """Return the detections of a response of the ensemble, a batch of one, as copies.

    Args:
        outputs: The outputs by name, as in `_OUTPUTS`; extras may be absent.
        labels: Class names by id.

    Raises:
        RequestError: The tensors do not fit together, or have other data types.
    """
    rows = _require(outputs, "detection_boxes", _DETECTION).shape[1]
    count = _require(outputs, "num_detections", _DETECTION)
    kept = count.item()
    if not 0 <= kept <= rows:
        raise _misfit_error("num_detections", count, f"0 to {rows}")
    kept_rows: dict[str, NDArray[Any]] = {}
    for name, tensor in outputs.items():
        if tensor is not None and name in _DETECTION_ROWS:
            _check(name, tensor, rows)
            values = kept_rows[name] = tensor[0, :kept].copy()
            if values.dtype.kind == "f" and not np.isfinite(values).all():
                raise _faulty_error(f"{name} with a number that is not finite")
    if not kept_rows.keys() >= _REQUIRED_ROWS:
        raise _missing_error(min(_REQUIRED_ROWS - kept_rows.keys()), _DETECTION)
    rle, mask_size = None, None
    if "detection_rle" in kept_rows:
        rle, mask_size = _read_masks(kept_rows["detection_rle"], _take(outputs, "mask_size"))
    class_ids = kept_rows["detection_classes"]
    names = [*map(labels.get, class_ids.tolist())] if labels else []
    classes: list[ClassScore | None] | None = None
    if "class_ids" in kept_rows and "class_scores" in kept_rows:
        served_names = kept_rows.get("class_labels", [""] * kept)
        classes = _make_classes(kept_rows["class_ids"], kept_rows["class_scores"], served_names, {})
    return ImageDetections(
        boxes=kept_rows["detection_boxes"],
        scores=kept_rows["detection_scores"],
        class_ids=class_ids,
        indices=kept_rows["detection_indices"],
        keypoints=kept_rows.get("detection_keypoints"),
        angles=kept_rows.get("detection_angles"),
        rle=rle,
        mask_size=mask_size,
        labels=names if any(name is not None for name in names) else None,
        classifications=classes,
        track_ids=kept_rows.get("track_ids"),
    )


def read_classes(outputs: Tensors, labels: Labels) -> list[ClassScore]:
    """Return the classes of one response of a classifier; rows of id -1 hold no class.

    Args:
        outputs: As for `read_rows`.
        labels: Class names by id, which take precedence over class_labels.

    Raises:
        RequestError: As for `read_rows`.
    """
    scores = _require(outputs, "class_scores", _CLASSIFICATION)
    class_ids = _require(outputs, "class_ids", _CLASSIFICATION, scores.shape[1])
    names = _take(outputs, "class_labels", scores.shape[1])
    if not np.isfinite(scores).all():
        raise _faulty_error("class_scores with a number that is not finite")
    served_names = [""] * scores.size if names is None else names[0]
    return [*filter(None, _make_classes(class_ids[0], scores[0], served_names, labels))]


def _make_classes(
    class_ids: NDArray[Any], scores: NDArray[Any], names: Iterable[object], labels: Labels
) -> list[ClassScore | None]:
    """Return the class of each row, None for the id -1; `labels` take precedence over `names`."""
    return [
        ClassScore(class_id, score, labels.get(class_id) or _to_text(name) or None)
        if class_id >= 0
        else None
        for class_id, score, name in zip(class_ids.tolist(), scores.tolist(), names, strict=True)
    ]


def _read_best_classes(outputs: Tensors, labels: Labels) -> list[ClassScore]:
    """Return the classes of one response of Triton's classification extension, best first."""
    classes = []
    for element in map(_to_text, _require(outputs, PROBABILITIES, (PROBABILITIES,))[0]):
        parts = (*element.split(":", 2), "", "")
        try:
            score, class_id = float(parts[0]), int(parts[1])
        except ValueError:
            score, class_id = math.nan, -1
        if not math.isfinite(score):
            raise _faulty_error(f"the class {element[:80]!r}, not score:id:label")
        classes.append(ClassScore(class_id, score, labels.get(class_id) or parts[2] or None))
    return classes


def _read_masks(
    encoded: NDArray[Any], size: NDArray[Any] | None
) -> tuple[list[bytes], tuple[int, int]]:
    """Return the masks, not decoded, and their size."""
    if size is None:
        raise _faulty_error("detection_rle without mask_size; give the ensemble both outputs")
    height, width = size[0].tolist()
    if height < 0 or width < 0:
        raise _misfit_error("mask_size", size, "a height and a width")
    rle = [_to_text(mask).encode("utf-8", "replace") for mask in encoded]
    if not all(mask and mask.isascii() for mask in rle):
        raise _faulty_error("a detection_rle that is not COCO's RLE")
    return rle, (height, width)


def _require(
    outputs: Tensors, name: str, required: Collection[str], rows: int | None = None
) -> NDArray[Any]:
    """Return an output; raise RequestError if it is missing, or has no classes."""
    tensor = _take(outputs, name, rows)
    if tensor is None or (tensor.size == 0 and name in _CLASSIFICATION):
        raise _missing_error(name, required)
    return tensor


def _take(outputs: Tensors, name: str, rows: int | None = None) -> NDArray[Any] | None:
    """Return an output; raise RequestError for an unexpected data type or shape."""
    tensor = outputs.get(name)
    if tensor is not None:
        _check(name, tensor, rows)
    return tensor


def _check(name: str, tensor: NDArray[Any], rows: int | None) -> None:
    """Raise RequestError if an output has an unexpected data type or shape."""
    dtype, shape = _OUTPUTS[name]
    if tensor.dtype != dtype:
        expected = "texts" if dtype is _TEXT else dtype
        raise _faulty_error(f"{name} of type {tensor.dtype}; {expected} is expected")
    fits = tensor.ndim == len(shape) if shape else tensor.size == 1
    for side, size in zip(shape, tensor.shape, strict=False):
        is_rows = side == _ROWS and rows in (None, size)
        fits = fits and (is_rows or side in (size, _ANY))
    if not fits:
        sides = {_ANY: "P", _ROWS: "K" if rows is None else str(rows)}
        raise _misfit_error(
            name, tensor, f"[{','.join(sides.get(n, str(n)) for n in shape or (1, 1))}]"
        )


def _missing_error(name: str, required: Collection[str]) -> RequestError:
    return _faulty_error(f"no {name}; the model must have the outputs {', '.join(required)}")


def _misfit_error(name: str, tensor: NDArray[Any], expected: str) -> RequestError:
    values = f" {tensor.tolist()}" if tensor.size <= 2 else ""
    return _faulty_error(
        f"outputs that do not fit together: {name} {tensor.shape}{values}, and {expected} is "
        "expected"
    )


def _to_text(element: object) -> str:
    """Return an element of a BYTES tensor as text."""
    if isinstance(element, (bytes, str)):
        return element.decode("utf-8", "replace") if isinstance(element, bytes) else element
    raise _faulty_error(f"an element of type {type(element).__name__} in a tensor of texts")


def _faulty_error(text: str) -> RequestError:
    return RequestError("internal", f"the server returned {text}")
