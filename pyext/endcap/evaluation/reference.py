"""Reference for a served model: OpenCV and NumPy around the same network on ONNX Runtime."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from endcap.errors import CorruptImageError, EndcapError
from endcap.evaluation.annotations import Dataset, Failure, Predictions, Row
from endcap.evaluation.categories import ClassMap
from endcap.evaluation.errors import EvaluationError, import_package
from endcap.evaluation.numpy_heads import (
    SUPPRESSED_HERE,
    Floats,
    Integers,
    best_classes,
    read_head,
    suppress,
)

Pixels = NDArray[np.uint8] | NDArray[np.float32]
Size = tuple[int, int]  # height, width

_ELEMENTS: dict[str, type[np.number[Any]]] = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(uint8)": np.uint8,
    "tensor(int8)": np.int8,
}
_ONLY_FATAL = 4  # of the severities of ONNX Runtime


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What the reference does.

    Attributes:
        preprocess, postprocess: All of endcap's parameters, as texts.
        image: Shape of the network's image without the batch; -1 is any number.
        heads: Shapes of the heads without the batch, by postprocess' names, in their order.
        outputs: The network's names of its outputs by those; what is missing has the same name.
    """

    preprocess: Mapping[str, str]
    postprocess: Mapping[str, str]
    image: tuple[int, ...]
    heads: Mapping[str, tuple[int, ...]]
    outputs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Placed:
    """An image inside a tensor.

    x in the picture is (x in the tensor - left) * width / resized_width; y alike. left and top are
    negative where the image is cropped.
    """

    pixels: Pixels  # [H, W, C] of the tensor's size, before the normalisation
    left: int
    top: int
    resized: tuple[int, int]  # width, height
    source: tuple[int, int]  # width, height of the picture, after EXIF orientation

    def to_source(self, boxes_xyxy: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return boxes [N, 4] of the tensor in pixels of the picture, clipped to it."""
        shift = np.array([self.left, self.top] * 2, np.float64)
        size = np.array(self.source * 2, np.float64)
        mapped = (boxes_xyxy - shift) * size / np.array(self.resized * 2, np.float64)
        return np.asarray(np.clip(mapped, 0.0, size))


def place_image(image: Pixels, parameters: Mapping[str, str]) -> Placed:
    """Bring an image [H, W, C] or [H, W] to the tensor's size, as preprocess does."""
    height, width = map(int, parameters["size"].split(","))
    size = height, width
    if parameters["quantize"] == "none":
        image = image.astype(np.float32)
    source = image.shape[1], image.shape[0]
    resized = _resized(*source, size, parameters)
    if resized != source:
        image = _resize(image, resized, antialias=parameters["antialias"] == "true")
    left, top = _offset(resized, size, parameters)
    image = _on_canvas(image, left, top, size, int(parameters["pad_value"]))
    return Placed(image, left, top, resized, source)


def read_image(encoded: bytes, parameters: Mapping[str, str]) -> NDArray[np.uint8]:
    """Decode an image to BGR [H, W, 3], or to gray [H, W] where that is the tensor's color.

    Raises:
        CorruptImageError: OpenCV cannot read it.
    """
    cv2: Any = import_package("cv2")
    flags = cv2.IMREAD_GRAYSCALE if parameters["color"] == "gray" else cv2.IMREAD_COLOR
    if parameters["exif"] == "ignore":
        flags |= cv2.IMREAD_IGNORE_ORIENTATION
    image = cv2.imdecode(np.frombuffer(encoded, np.uint8), flags) if encoded else None
    if image is None:
        raise CorruptImageError("OpenCV cannot decode it")
    return np.asarray(image, np.uint8)


def _resized(width: int, height: int, size: Size, parameters: Mapping[str, str]) -> tuple[int, int]:
    """Return width and height of the image before padding or cropping."""
    if parameters["fit"] == "stretch":
        return size[1], size[0]
    if parameters["fit"] == "center_crop":
        short, shorter = min(width, height), int(parameters["resize_shorter"])
        return shorter * width // short, shorter * height // short
    ratio = min(size[0] / height, size[1] / width)
    if parameters["upscale"] == "false":
        ratio = min(ratio, 1.0)
    return max(1, round(width * ratio)), max(1, round(height * ratio))


def _resize(image: Pixels, resized: tuple[int, int], *, antialias: bool) -> Pixels:
    if antialias:  # in two calls: from version 13 on, one call may take the rows first
        bilinear = Image.Resampling.BILINEAR
        narrow = Image.fromarray(image).resize((resized[0], image.shape[0]), bilinear)
        return np.asarray(narrow.resize(resized, bilinear))
    cv2: Any = import_package("cv2")
    return np.asarray(cv2.resize(image, resized, interpolation=cv2.INTER_LINEAR))


def _offset(resized: tuple[int, int], size: Size, parameters: Mapping[str, str]) -> tuple[int, int]:
    """Return left and top of the image in the tensor."""
    free_w, free_h = size[1] - resized[0], size[0] - resized[1]
    if parameters["fit"] == "center_crop":
        return -round(-free_w / 2), -round(-free_h / 2)
    # Half of the padding before the image; of an odd pixel, the extra one comes after it.
    return (free_w // 2, free_h // 2) if parameters["pad_align"] == "center" else (0, 0)


def _on_canvas(image: Pixels, left: int, top: int, size: Size, pad_value: int) -> Pixels:
    """Return [H, W, C] of the tensor's size: the image cropped, or with padding around it."""
    inside = image[max(0, -top) :, max(0, -left) :][: size[0], : size[1]]
    inside = inside.reshape(*inside.shape[:2], -1)
    top, left = max(0, top), max(0, left)
    canvas: Any = np.full((*size, inside.shape[2]), pad_value, image.dtype)
    canvas[top : top + inside.shape[0], left : left + inside.shape[1]] = inside
    return np.asarray(canvas)


def to_tensor(pixels: Pixels, parameters: Mapping[str, str]) -> NDArray[np.float32]:
    """Return [1, C, H, W], or [1, H, W, C] with layout nhwc, of pixels in OpenCV's order."""
    if parameters["color"] == "rgb":
        pixels = pixels[..., ::-1]  # OpenCV's order is BGR
    values = pixels.astype(np.float32) * np.float32(parameters["scale"])
    values = values - np.array(parameters["mean"].split(","), np.float32)[: pixels.shape[-1]]
    values = values / np.array(parameters["std"].split(","), np.float32)[: pixels.shape[-1]]
    order = (0, 1, 2) if parameters["layout"] == "nhwc" else (2, 0, 1)
    return np.ascontiguousarray(values.transpose(order)[None])


class Reference:
    """An ONNX network with the pre- and postprocessing around it.

    Args:
        model: The ONNX file.
        recipe: What to do before and after it.

    Raises:
        EvaluationError: The model cannot be loaded, or its image or heads are not the recipe's.
    """

    def __init__(self, model: Path, recipe: Recipe) -> None:
        import_package("cv2")  # now, not at the first image
        self.recipe, self._model = recipe, model
        self._session = open_session(model)
        images = self._session.get_inputs()
        if len(images) > 1 or images[0].type not in _ELEMENTS:
            takes = ", ".join(f"{each.name} {each.type} {each.shape}" for each in images)
            raise EvaluationError(
                f"{model} takes {takes}; one image {[1, *recipe.image]} is expected: give the "
                "network that is served"
            )
        self._image, self._element = images[0].name, _ELEMENTS[images[0].type]
        names = [each.name for each in self._session.get_outputs()]
        self._outputs = [recipe.outputs.get(name, name) for name in recipe.heads]
        if not set(self._outputs) <= set(names):
            raise EvaluationError(
                f"{model} gives {', '.join(names)}; {', '.join(self._outputs)} are expected: give "
                "the network that is served"
            )
        heads = self.run(np.zeros((1, *recipe.image), np.float32))  # fails for other images
        for head, wanted in zip(heads, recipe.heads.values(), strict=True):
            if len(head.shape) != len(wanted) or any(
                want not in (-1, side) for side, want in zip(head.shape, wanted, strict=True)
            ):
                raise EvaluationError(
                    f"{model} gives {list(head.shape)} for an image, and head "
                    f"{recipe.postprocess['head']} with num_classes "
                    f"{recipe.postprocess['num_classes']} has {list(wanted)} (-1 is any number)"
                )

    @property
    def is_classifier(self) -> bool:
        """Whether the network gives classes and no boxes."""
        return self.recipe.postprocess["head"] == "classification"

    @property
    def num_classes(self) -> int:
        """Classes of the network."""
        return int(self.recipe.postprocess["num_classes"])

    def run(self, tensor: NDArray[np.float32]) -> list[NDArray[Any]]:
        """Return the heads of one image [1, ...], without the batch dimension.

        Numbers are rounded to the type that the network takes.

        Raises:
            EvaluationError: The network fails.
        """
        if issubclass(self._element, np.integer):
            limits = np.iinfo(self._element)
            tensor = np.clip(np.rint(tensor), limits.min, limits.max)
        try:
            heads = self._session.run(self._outputs, {self._image: tensor.astype(self._element)})
        except Exception as error:  # ONNX Runtime's errors have no common type
            raise EvaluationError(
                f"{self._model} cannot be run on an image {list(tensor.shape)}: {_one_line(error)}"
            ) from error
        return [
            head[0].astype(np.float32) if np.issubdtype(head.dtype, np.floating) else head[0]
            for head in heads
        ]

    def detect(self, encoded: bytes) -> tuple[Floats, Floats, Integers]:
        """Return boxes xyxy [N, 4] in pixels of the picture, scores [N], class ids [N].

        Raises:
            CorruptImageError: OpenCV cannot decode the image.
            InvalidArgumentError: The head has values that are not finite numbers.
            EvaluationError: The network fails.
        """
        before, parameters = self.recipe.preprocess, self.recipe.postprocess
        placed = place_image(read_image(encoded, before), before)
        tensor = to_tensor(placed.pixels, before)
        boxes, scores, class_ids = read_head(self.run(tensor), parameters)
        mapped = placed.to_source(boxes)
        counts = (mapped[:, :2] < mapped[:, 2:]).all(axis=1)  # boxes with an area
        boxes, mapped = boxes[counts], mapped[counts]
        scores, class_ids = scores[counts], class_ids[counts]
        max_detections = int(parameters["max_detections"])
        if parameters["head"] in SUPPRESSED_HERE:
            is_agnostic = parameters["class_agnostic"] == "true"
            kept = suppress(
                boxes,
                np.zeros_like(class_ids) if is_agnostic else class_ids,
                iou_threshold=float(parameters["iou_threshold"]),
                max_detections=max_detections,
            )
        else:
            kept = np.arange(min(len(boxes), max_detections))
        return mapped[kept], scores[kept], class_ids[kept]

    def classify(self, encoded: bytes) -> tuple[Floats, Integers]:
        """Return scores [top_k] and class ids [top_k] of a classifier, best first.

        Raises as `detect` does.
        """
        before = self.recipe.preprocess
        placed = place_image(read_image(encoded, before), before)
        (logits,) = self.run(to_tensor(placed.pixels, before))
        return best_classes(logits, self.recipe.postprocess)


def open_session(model: Path) -> Any:
    """Return ONNX Runtime's session of a file. Raises EvaluationError when it cannot be loaded."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # it would send hashes of networks
    onnxruntime: Any = import_package("onnxruntime", package="onnxruntime")
    if not model.is_file():
        raise EvaluationError(f"reference {model} is not a file; give the network as an ONNX file")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = _ONLY_FATAL  # its errors come as exceptions too
    try:
        return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's errors have no common type
        raise EvaluationError(f"reference {model} cannot be loaded: {_one_line(error)}") from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def predict_reference(
    reference: Reference, dataset: Dataset, classes: ClassMap, *, on_image: Callable[[], None]
) -> Predictions:
    """Return the reference's detections; on_image is called after each image."""
    rows: list[Row] = []
    failures: list[Failure] = []
    for image in dataset.images:
        name = str(image.path)
        try:
            found = reference.detect(image.path.read_bytes())
        except OSError as error:
            failures.append(Failure(name, "reference", "unreadable", str(error.strerror)))
        except EndcapError as error:
            failures.append(Failure(name, "reference", error.status.label, str(error)))
        else:
            rows += classes.as_rows(image.id, *found)
        on_image()
    return Predictions(rows, tuple(failures))
