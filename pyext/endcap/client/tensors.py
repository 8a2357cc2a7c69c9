"""Requests for batches of encoded images, and results from the tensors of their responses.

The tensors of a response are checked before they are read: a server is not trusted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.client.connection import Arguments, import_client
from endcap.client.errors import UNREADABLE, RequestError, unreadable_error
from endcap.client.regions import Lease, find_fixed_dtype
from endcap.client.results import (
    PROBABILITIES,
    TIMESTAMP,
    FramePosition,
    ImageResult,
    Task,
    status_name,
)
from endcap.client.served_model import ServedModel
from endcap.cuda_array import on_host
from endcap.decode import decode
from endcap.detections import ImageDetections
from endcap.errors import EndcapError, InvalidArgumentError, Status
from endcap.predictions import ClassScore
from endcap.segmentation import SegmentationMap

MAX_IMAGE_BYTES = 8 << 20  # room for an encoded image in a region of default size
_LENGTH_BYTES = 4  # before each element of a BYTES tensor
_ALIGNMENT = 64  # of tensors in a region
_MAX_SEQUENCE_ID = 2**63 - 1  # gRPC's parameters have no greater numbers
_MAX_SEQUENCE_ID_BYTES = 128

Tensors = Mapping[str, NDArray[Any] | None]
Outcome = dict[str, Any] | RequestError  # fields of an ImageResult, or why there are none

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
    "class_map_png": (_TEXT, ()),
    "frame_index": (_LONG, ()),
    "pts_seconds": (_DOUBLE, ()),
    "dropped": (_LONG, ()),
}
_FRAME_OUTPUTS = ("frame_index", "pts_seconds", "dropped")
_DETECTION = tuple(name for name in Task.detection.required if name != "status")
_DETECTION_ROWS = {name for name in Task.detection.outputs if _ROWS in _OUTPUTS[name][1]}
_REQUIRED_ROWS = _DETECTION_ROWS & {*_DETECTION}
_CLASSIFICATION = tuple(name for name in Task.classification.required if name != "status")


@dataclass(frozen=True)
class SequenceStep:
    """The position of a request in a sequence of a stateful model.

    Attributes:
        id: A number above 0 and below 2**63, or a text of 1 to 128 bytes.
        timestamp: The time of the frame in seconds, for a model with the input `timestamp`.

    Raises:
        InvalidArgumentError: Another id.
    """

    id: int | str
    start: bool = False
    end: bool = False
    timestamp: float | None = None

    def __post_init__(self) -> None:
        if isinstance(self.id, str):
            is_allowed = 0 < len(self.id.encode()) <= _MAX_SEQUENCE_ID_BYTES
        else:
            is_allowed = 0 < self.id <= _MAX_SEQUENCE_ID
        if not is_allowed:
            raise InvalidArgumentError(
                f"sequence {self.id!r} cannot be the id of a sequence; give a number from 1 to "
                f"2**63 - 1, or a text of 1 to {_MAX_SEQUENCE_ID_BYTES} bytes"
            )


class ModelTensors:
    """Builds requests to a model, and reads its responses.

    Args:
        model: The model.
        tritonclient: `tritonclient.grpc` or `tritonclient.http`.
        labels: Class names by id.
        best_classes: The number of classes to request from Triton's classification extension, None
            for the model's own.
        extras: Whether to request keypoints, angles and masks as well.
    """

    def __init__(
        self,
        model: ServedModel,
        tritonclient: Any,
        labels: Sequence[str] | None = None,
        best_classes: int | None = None,
        *,
        extras: bool = True,
    ) -> None:
        self._model, self._tritonclient = model, tritonclient
        self._is_batched = model.batched
        self._best_classes = best_classes
        self._names = [*labels] if labels else None
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
        self._outputs = {
            name: tritonclient.InferRequestedOutput(name, class_count=counts.get(name, 0))
            for name in names
            if name in model.outputs
        }

    # --- requests ---------------------------------------------------------------------------------

    def make_arguments(
        self,
        images: Sequence[bytes],
        request_id: str,
        *,
        step: SequenceStep | None = None,
        lease: Lease | None = None,
    ) -> Arguments:
        """Return the arguments of `infer` for these images; with a lease, in shared memory."""
        model, name, outputs = self._model, self._model.input_name, [*self._outputs.values()]
        if model.input.datatype == "UINT8":
            array = np.frombuffer(images[0], np.uint8)
            array = array[None] if self._is_batched else array
            tensor = self._input(name, array, "UINT8") if lease is None else lease.put(name, array)
        else:
            shape = (len(images), 1) if self._is_batched else (1,)
            if lease is None:
                tensor = self._input(name, np.array(images, np.object_).reshape(shape), "BYTES")
            else:
                tensor = lease.put_encoded(name, images, shape)
        if lease is not None:
            for n, output in enumerate(self._outputs):
                if fixed := self._find_fixed_shape(output, len(images)):
                    outputs[n] = lease.output(output, *fixed)
        arguments: Arguments = {
            "model_name": model.name,
            "inputs": [tensor],
            "outputs": outputs,
            "request_id": request_id,
        }
        if step is not None:
            arguments["sequence_id"] = step.id
            arguments["sequence_start"] = step.start
            arguments["sequence_end"] = step.end
            if step.timestamp is not None:
                seconds = np.array([step.timestamp], np.float64)
                seconds = seconds[None] if self._is_batched else seconds
                arguments["inputs"].append(self._input(TIMESTAMP, seconds, "FP64"))
        return arguments

    def make_video_arguments(self, video: bytes, options: bytes, request_id: str) -> Arguments:
        """Return the arguments of `infer` for a video; options: JSON, or nothing."""
        arguments = self.make_arguments([video], request_id)
        if options:
            array = np.array([options], np.object_)
            arguments["inputs"].append(self._input("options", array, "BYTES"))
        return arguments

    def count_region_bytes(self, batch: int) -> int:
        """Return the shared memory that a request needs if images have MAX_IMAGE_BYTES."""
        room = batch * (MAX_IMAGE_BYTES + _LENGTH_BYTES) + _ALIGNMENT
        for name in self._outputs:
            if fixed := self._find_fixed_shape(name, batch):
                room += math.prod(fixed[0]) * fixed[1].itemsize + _ALIGNMENT
        return room

    def _find_fixed_shape(
        self, name: str, batch: int
    ) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
        """Return an output's shape and type, None if only the response determines them."""
        spec = self._model.outputs[name]
        sides = (batch, *spec.shape[1:]) if self._is_batched else spec.shape
        dtype = find_fixed_dtype(spec.datatype)
        is_text = name == PROBABILITIES and self._best_classes is not None
        return None if dtype is None or is_text or min(sides, default=1) < 0 else (sides, dtype)

    def _input(self, name: str, array: NDArray[Any], datatype: str) -> Any:
        tensor = self._tritonclient.InferInput(name, list(array.shape), datatype)
        return tensor.set_data_from_numpy(array)

    # --- responses --------------------------------------------------------------------------------

    def split(self, result: Any, images: int, lease: Lease | None = None) -> list[Tensors]:
        """Return each image's tensors, as a batch of one, from tritonclient's InferResult.

        With a lease they may be views of its shared memory.

        Raises:
            RequestError: The response is malformed, or a tensor has another batch size.
        """
        try:
            names = [n for n in self._outputs if lease is None or n not in lease.outputs]
            tensors = {name: result.as_numpy(name) for name in names}
        except (*UNREADABLE, import_client("utils").InferenceServerException) as error:
            raise unreadable_error(error) from error
        if lease is not None:
            tensors |= {name: on_host(lease.read(name, result)) for name in lease.outputs}
        if not self._is_batched:
            return [{name: None if t is None else t[None] for name, t in tensors.items()}]
        for name, tensor in tensors.items():
            if tensor is not None and tensor.shape[:1] != (images,):
                raise RequestError(
                    "internal",
                    f"the server returned {name} {list(tensor.shape)} for a batch of {images}; its "
                    f"first side must be {images}",
                )
        if images == 1:
            return [tensors]
        return [
            {name: None if t is None else t[n : n + 1] for name, t in tensors.items()}
            for n in range(images)
        ]

    def read(self, tensors: Tensors) -> Outcome:
        """Return the fields of ImageResult that follow from one image's tensors, or its error."""
        try:
            return self._read(tensors)
        except RequestError as error:
            return error.with_traceback(None)

    def _read(self, tensors: Tensors) -> dict[str, Any]:
        status = _take(tensors, "status")
        code = Status.OK if status is None else status.item()
        if code != Status.OK:
            name = status_name(code)
            raise RequestError(name, f"the server returned status {code} ({name})")
        if self._model.task is Task.detection:
            return {"detections": _read_detections(tensors, self._labels)}
        if self._best_classes is not None:
            return {"classes": _read_best_classes(tensors, self._labels)}
        if self._model.task is Task.classification:
            return {"classes": _read_classes(tensors, self._labels)}
        if self._model.task is Task.segmentation:
            return {"segmentation": self._read_class_map(tensors)}
        return {
            "tensors": {  # all but `status`, without the batch dimension
                name: tensor[0].copy()
                for name, tensor in tensors.items()
                if tensor is not None and name != "status"
            }
        }

    def _read_class_map(self, tensors: Tensors) -> SegmentationMap:
        """Return the class of each pixel, from a PNG file whose gray values are class ids."""
        (file,) = _require(tensors, "class_map_png", Task.segmentation.required).reshape(-1)
        try:
            class_map = np.ascontiguousarray(decode(file)[..., 0])
        except EndcapError as error:
            raise _faulty_error(f"a class_map_png that is not a PNG file: {error}") from error
        rles = self._model.outputs.get("class_rle")  # one for each class
        count = rles.shape[-1] if rles is not None and rles.shape[-1] > 0 else 255
        ignored = class_map[class_map >= count]
        return SegmentationMap(class_map, self._names, int(ignored[0]) if ignored.size else None)

    def read_part(self, tensors: Tensors) -> Outcome:
        """Return what `read` does for one of several responses, which may have no tensors.

        Without the output num_detections all rows of a response count.
        """
        if all(tensor is None for tensor in tensors.values()):
            return {}
        if self._model.task is Task.detection and "num_detections" not in self._model.outputs:
            boxes = tensors.get("detection_boxes")
            rows = 0 if boxes is None or boxes.ndim != 3 else boxes.shape[1]
            tensors = {**tensors, "num_detections": np.full((1, 1), rows, np.int32)}
        return self.read(tensors)

    def read_frame(self, tensors: Tensors) -> FramePosition | None:
        """Return which frame of a video a response is for, None for one without a frame.

        Raises:
            RequestError: The tensors have other types or shapes.
        """
        found = [_take(tensors, name) for name in _FRAME_OUTPUTS if self._model.reads_videos]
        if not found or any(each is None for each in found):
            return None
        pairs = zip(_FRAME_OUTPUTS, found, strict=True)
        return FramePosition(*(_require_finite(name, tensor).item() for name, tensor in pairs))

    def make_result(self, name: str, outcome: Outcome, **details: Any) -> ImageResult:
        """Return the result of an image, from what `read` returned or the error."""
        details["task"], details["upright"] = self._model.task, self._model.upright
        if isinstance(outcome, RequestError):
            return ImageResult(name, outcome.status_name, error=str(outcome), **details)
        return ImageResult(name, "ok", **outcome, **details)


def _read_detections(outputs: Tensors, labels: Mapping[int, str]) -> ImageDetections:
    """Return the detections of a response of the ensemble, a batch of one, as copies."""
    rows = _require(outputs, "detection_boxes", _DETECTION).shape[1]
    count = _require(outputs, "num_detections", _DETECTION)
    kept = count.item()
    if not 0 <= kept <= rows:
        raise _misfit_error("num_detections", count, f"0 to {rows}")
    kept_rows: dict[str, NDArray[Any]] = {}
    for name in outputs:
        tensor = _take(outputs, name, rows) if name in _DETECTION_ROWS else None
        if tensor is not None:
            kept_rows[name] = _require_finite(name, tensor[0, :kept].copy())
    if missing := _REQUIRED_ROWS - kept_rows.keys():
        raise _missing_error(min(missing), _DETECTION)
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
        labels=names if names.count(None) < len(names) else None,
        classifications=classes,
        track_ids=kept_rows.get("track_ids"),
    )


def _read_classes(outputs: Tensors, labels: Mapping[int, str]) -> list[ClassScore]:
    """Return the classes of one response of a classifier; rows of id -1 hold no class."""
    scores = _require(outputs, "class_scores", _CLASSIFICATION)
    class_ids = _require(outputs, "class_ids", _CLASSIFICATION, scores.shape[1])
    names = _take(outputs, "class_labels", scores.shape[1])
    _require_finite("class_scores", scores)
    served_names = [""] * scores.size if names is None else names[0]
    return [*filter(None, _make_classes(class_ids[0], scores[0], served_names, labels))]


def _make_classes(
    class_ids: NDArray[Any],
    scores: NDArray[Any],
    names: Iterable[object],
    labels: Mapping[int, str],
) -> list[ClassScore | None]:
    """Return the class of each row, None for the id -1; `labels` take precedence over `names`."""
    return [
        ClassScore(class_id, score, labels.get(class_id) or _to_text(name) or None)
        if class_id >= 0
        else None
        for class_id, score, name in zip(class_ids.tolist(), scores.tolist(), names, strict=True)
    ]


def _read_best_classes(outputs: Tensors, labels: Mapping[int, str]) -> list[ClassScore]:
    """Return the classes of one response of Triton's classification extension, best first."""
    classes = []
    for element in map(_to_text, _require(outputs, PROBABILITIES, (PROBABILITIES,))[0]):
        score, class_id, label = (*element.split(":", 2), "", "")[:3]
        try:
            number, value = int(class_id), float(score)
        except ValueError:
            number, value = -1, math.nan
        if not math.isfinite(value):
            raise _faulty_error(f"the class {element[:80]!r}, not score:id:label")
        classes.append(ClassScore(number, value, labels.get(number) or label or None))
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
    outputs: Tensors, name: str, required: Iterable[str], rows: int | None = None
) -> NDArray[Any]:
    """Return an output; raise RequestError if it is missing, or has no classes."""
    tensor = _take(outputs, name, rows)
    if tensor is None or (tensor.size == 0 and name in _CLASSIFICATION):
        raise _missing_error(name, required)
    return tensor


def _take(outputs: Tensors, name: str, rows: int | None = None) -> NDArray[Any] | None:
    """Return an output; raise RequestError for an unexpected data type or shape."""
    tensor, (dtype, shape) = outputs.get(name), _OUTPUTS[name]
    if tensor is None:
        return None
    if tensor.dtype != dtype:
        expected = "texts" if dtype is _TEXT else dtype
        raise _faulty_error(f"{name} of type {tensor.dtype}; {expected} is expected")
    fits = tensor.ndim == len(shape) if shape else tensor.size == 1
    for side, size in zip(shape, tensor.shape, strict=False):
        is_rows = side == _ROWS and rows in (None, size)
        fits = fits and (is_rows or side in (size, _ANY))
    if not fits:
        sides = {_ANY: "P", _ROWS: "K" if rows is None else str(rows)}
        expected = ",".join(sides.get(side, str(side)) for side in shape or (1, 1))
        raise _misfit_error(name, tensor, f"[{expected}]")
    return tensor


def _require_finite(name: str, values: Any) -> Any:
    """Return an array; raise RequestError if it has numbers that are not finite."""
    # Of a few numbers the sum takes less time than NumPy's loops, which are seldom in the cache.
    if values.dtype.kind == "f" and not math.isfinite(sum(values.ravel().tolist())):
        raise _faulty_error(f"{name} with a number that is not finite")
    return values


def _missing_error(name: str, required: Iterable[str]) -> RequestError:
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
