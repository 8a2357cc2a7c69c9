"""Reference for a served model: OpenCV and NumPy around the same network."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from endcap.errors import CorruptImageError, EndcapError
from endcap.evaluation.annotations import Dataset, Failure, ImagePredictions, Predictions
from endcap.evaluation.categories import ClassMap
from endcap.evaluation.errors import EvaluationError, import_package
from endcap.evaluation.numpy_heads import (
    SUPPRESSED_HERE,
    Floats,
    Integers,
    best_classes,
    count_classes,
    read_head,
    suppress,
)
from endcap.evaluation.onnx_network import OnnxNetwork
from endcap.evaluation.reference_settings import Color, Fit, HeadName, ReferenceSettings

Pixels = NDArray[np.uint8] | NDArray[np.float32]


@dataclass(frozen=True)
class Placed:
    """An image inside a tensor.

    x in the picture is (x in the tensor - left) * width / resized_width; y alike. left and top are
    negative where the image is cropped.
    """

    tensor: NDArray[np.float32]  # [1, C, H, W], or [1, H, W, C] with channels_last
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


def place_image(encoded: bytes, size: tuple[int, int], settings: ReferenceSettings) -> Placed:
    """Decode an image and brings it to `size` (height, width).

    Raises:
        CorruptImageError: OpenCV cannot read it.
    """
    image: Pixels = _decode(encoded, settings)
    if not settings.quantized:
        image = image.astype(np.float32)
    height, width = image.shape[:2]
    resized = _resized(width, height, size, settings)
    if resized != (width, height):
        image = (
            _resize_antialiased(image, resized) if settings.antialias else _resize(image, resized)
        )
    left, top = _offset(resized, size, settings)
    image = _on_canvas(image, left, top, size, settings.pad_value)
    return Placed(_normalised(image, settings), left, top, resized, (width, height))


def _decode(encoded: bytes, settings: ReferenceSettings) -> NDArray[np.uint8]:
    cv2: Any = import_package("cv2")
    flags = cv2.IMREAD_GRAYSCALE if settings.color is Color.gray else cv2.IMREAD_COLOR
    if not settings.apply_exif:
        flags |= cv2.IMREAD_IGNORE_ORIENTATION
    image = cv2.imdecode(np.frombuffer(encoded, np.uint8), flags) if encoded else None
    if image is None:
        raise CorruptImageError("OpenCV cannot decode it")
    return np.asarray(image, np.uint8)


def _resized(
    width: int, height: int, size: tuple[int, int], settings: ReferenceSettings
) -> tuple[int, int]:
    """Width and height of the image before padding or cropping."""
    if settings.fit is Fit.stretch:
        return size[1], size[0]
    if settings.fit is Fit.center_crop:
        short, shorter = min(width, height), settings.resize_shorter
        return shorter * width // short, shorter * height // short
    ratio = min(size[0] / height, size[1] / width)
    if not settings.upscale:
        ratio = min(ratio, 1.0)
    return max(1, round(width * ratio)), max(1, round(height * ratio))


def _resize(image: Pixels, resized: tuple[int, int]) -> Pixels:
    cv2: Any = import_package("cv2")
    return np.asarray(cv2.resize(image, resized, interpolation=cv2.INTER_LINEAR))


def _resize_antialiased(image: Pixels, resized: tuple[int, int]) -> Pixels:
    # In two calls: from version 13 on, one call may take the rows before the columns.
    bilinear = Image.Resampling.BILINEAR
    narrow = Image.fromarray(image).resize((resized[0], image.shape[0]), bilinear)
    return np.asarray(narrow.resize(resized, bilinear))


def _offset(
    resized: tuple[int, int], size: tuple[int, int], settings: ReferenceSettings
) -> tuple[int, int]:
    """Left and top of the image in the tensor."""
    free_w, free_h = size[1] - resized[0], size[0] - resized[1]
    if settings.fit is Fit.center_crop:
        return -round(-free_w / 2), -round(-free_h / 2)
    if not settings.pad_centered:
        return 0, 0
    # Half of the padding before the image; of an odd pixel, the extra one comes after it.
    return round(free_w / 2 - 0.1), round(free_h / 2 - 0.1)


def _on_canvas(image: Pixels, left: int, top: int, size: tuple[int, int], pad_value: int) -> Pixels:
    """[H, W, C] of the tensor's size: the image cropped, or with padding around it."""
    cv2: Any = import_package("cv2")
    inside = image[max(0, -top) :, max(0, -left) :][: size[0], : size[1]]
    before = max(0, top), max(0, left)
    padded = cv2.copyMakeBorder(
        inside,
        before[0],
        size[0] - before[0] - inside.shape[0],
        before[1],
        size[1] - before[1] - inside.shape[1],
        cv2.BORDER_CONSTANT,
        value=(pad_value,) * 3,
    )
    return np.asarray(padded).reshape(*size, -1)


def _normalised(pixels: Pixels, settings: ReferenceSettings) -> NDArray[np.float32]:
    if settings.color is Color.rgb:
        pixels = pixels[..., ::-1]  # OpenCV's order is BGR
    channels = pixels.shape[-1]
    values = pixels.astype(np.float32) * np.float32(settings.scale)
    values = values - np.array(settings.mean[:channels], np.float32)
    values = values / np.array(settings.std[:channels], np.float32)
    order = (0, 1, 2) if settings.channels_last else (2, 0, 1)
    return np.ascontiguousarray(values.transpose(order)[None])


class Reference:
    """An ONNX network with the pre- and postprocessing around it.

    Args:
        outputs: The network's names of its outputs by those of the family, where they are known.
        threads: Of ONNX Runtime. size: height and width of the tensor. num_classes: what the head
            has, or else the settings; None where neither tells. Raises EvaluationError when the
            model cannot be loaded, does not take one image, or its head is not of the family said.
    """

    def __init__(
        self,
        model: Path,
        settings: ReferenceSettings,
        *,
        outputs: Mapping[str, str] | None = None,
        threads: int = 1,
    ) -> None:
        import_package("cv2")  # now, not at the first image
        self._network = OnnxNetwork(model, settings, outputs=outputs, threads=threads)
        self.size = self._network.size
        if settings.head is HeadName.rtdetr and settings.box_side is None:
            settings = dataclasses.replace(settings, box_side=self.size)
        self.settings = settings
        if settings.fit is Fit.center_crop and max(self.size) > settings.resize_shorter:
            raise EvaluationError(
                f"{model} takes images of {self.size[0]}x{self.size[1]} (height x width), and no "
                f"such size is cut from images whose short side is {settings.resize_shorter}; name "
                "another preset"
            )
        self.num_classes = count_classes(self._network.run_blank(settings.channels), settings)

    def detect(self, encoded: bytes) -> tuple[Floats, Floats, Integers]:
        """Return boxes xyxy [N, 4] in pixels of the picture, scores [N], class ids [N].

        Raises:
            CorruptImageError: OpenCV cannot decode the image.
            InvalidArgumentError: The head has values that are no finite numbers.
            EvaluationError: The network fails.
        """
        placed = place_image(encoded, self.size, self.settings)
        boxes, scores, class_ids = read_head(self._network.run(placed.tensor), self.settings)
        mapped = placed.to_source(boxes)
        counts = (mapped[:, :2] < mapped[:, 2:]).all(axis=1)  # boxes with an area
        boxes, mapped = boxes[counts], mapped[counts]
        scores, class_ids = scores[counts], class_ids[counts]
        if self.settings.head in SUPPRESSED_HERE:
            groups = np.zeros_like(class_ids) if self.settings.class_agnostic else class_ids
            kept = suppress(
                boxes,
                groups,
                iou_threshold=self.settings.iou_threshold,
                max_detections=self.settings.max_detections,
            )
        else:
            kept = np.arange(min(len(boxes), self.settings.max_detections))
        return mapped[kept], scores[kept], class_ids[kept]

    def classify(self, encoded: bytes) -> tuple[Floats, Integers]:
        """Return scores [top_k] and class ids [top_k] of a classifier, best first.

        Raises as `detect` does.
        """
        placed = place_image(encoded, self.size, self.settings)
        (logits,) = self._network.run(placed.tensor)
        return best_classes(logits, self.settings)


def predict_reference(
    reference: Reference, dataset: Dataset, classes: ClassMap, *, on_image: Callable[[], None]
) -> Predictions:
    """Return the reference's detections; on_image is called after each image."""
    by_image: dict[int, ImagePredictions] = {}
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
            by_image[image.id] = classes.predictions(*found)
        on_image()
    return Predictions(by_image, tuple(failures))
