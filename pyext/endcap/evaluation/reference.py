"""The same network without a server: OpenCV, ONNX Runtime and NumPy, and nothing of endcap's core.

What it shares with the served way is the network's file and the parameters, so that a difference in
accuracy is the serving's.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.errors import EndcapError
from endcap.evaluation.arrays import Floats, Integers
from endcap.evaluation.categories import ClassMap
from endcap.evaluation.dataset import Dataset
from endcap.evaluation.errors import EvaluationError, import_package
from endcap.evaluation.nms_numpy import suppress
from endcap.evaluation.numpy_heads import count_classes, read_head
from endcap.evaluation.opencv_tensor import place_image
from endcap.evaluation.predictions import Failure, ImagePredictions, Predictions
from endcap.evaluation.reference_settings import ReferenceSettings

_TENSOR_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
_ONLY_FATAL = 4  # of the severities of ONNX Runtime


class Reference:
    """An ONNX network with the pre- and postprocessing around it.

    threads: of ONNX Runtime. size: height and width of the tensor. num_classes: what the head has.
    Raises EvaluationError when the model cannot be loaded, its tensors are not one image
    [1, 3, H, W] in and one head of three dimensions out, or the head is not of the family said.
    """

    def __init__(self, model: Path, settings: ReferenceSettings, *, threads: int = 1) -> None:
        self.settings, self._model = settings, model
        import_package("cv2")  # now, not at the first image
        self._session = _open(model, threads)
        (tensor, *others) = self._session.get_inputs()
        if others or len(tensor.shape) != 4 or tensor.type not in _TENSOR_TYPES:
            raise EvaluationError(
                f"{model} takes {_described(self._session.get_inputs())}; one image [1, 3, H, W] "
                "of float32 or float16 is expected"
            )
        self._input, self._dtype = tensor.name, _TENSOR_TYPES[tensor.type]
        self._output = _head_output(model, self._session.get_outputs())
        self.size = _size(model, tensor.shape, settings.size)
        self.num_classes = count_classes(self._run(np.zeros((1, 3, *self.size))), settings)

    def detect(self, encoded: bytes) -> tuple[Floats, Floats, Integers]:
        """Returns boxes xyxy [N, 4] in pixels of the picture, scores [N], class ids [N].

        Raises CorruptImageError when OpenCV cannot decode the image, InvalidArgumentError when the
        head has values that are no finite numbers, and EvaluationError when the network fails.
        """
        placed = place_image(encoded, self.size, self.settings)
        boxes, scores, class_ids = read_head(self._run(placed.tensor), self.settings)
        groups = np.zeros_like(class_ids) if self.settings.class_agnostic else class_ids
        kept = suppress(
            boxes,
            groups,
            iou_threshold=self.settings.iou_threshold,
            max_detections=self.settings.max_detections,
        )
        return placed.to_source(boxes[kept]), scores[kept], class_ids[kept]

    def _run(self, tensor: NDArray[Any]) -> NDArray[np.float32]:
        inputs = {self._input: tensor.astype(self._dtype)}
        try:
            (head,) = self._session.run([self._output], inputs)
        except Exception as error:  # ONNX Runtime's errors have no common type
            height, width = self.size
            raise EvaluationError(
                f"{self._model} cannot be run on an image of {height}x{width} (height x width): "
                f"{_one_line(error)}"
            ) from error
        return np.asarray(head[0], np.float32)


def predict_reference(
    reference: Reference, dataset: Dataset, classes: ClassMap, *, on_image: Callable[[], None]
) -> Predictions:
    """Returns the reference's detections; on_image is called after each image."""
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


def _open(model: Path, threads: int) -> Any:
    onnxruntime: Any = import_package("onnxruntime", install="onnxruntime")
    if not model.is_file():
        raise EvaluationError(f"reference {model} is no file; give the network as an ONNX file")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = _ONLY_FATAL  # its errors come as exceptions too
    try:
        return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's errors have no common type
        raise EvaluationError(f"reference {model} cannot be loaded: {_one_line(error)}") from error


def _head_output(model: Path, outputs: list[Any]) -> str:
    heads = [each for each in outputs if len(each.shape) == 3]
    if len(heads) != 1:
        raise EvaluationError(
            f"{model} gives {_described(outputs)}; one head of three dimensions is expected"
        )
    return str(heads[0].name)


def _size(model: Path, shape: list[Any], wanted: tuple[int, int] | None) -> tuple[int, int]:
    """The tensor's height and width; `shape` has texts where the network takes any size."""
    batch, channels, *sides = shape
    if isinstance(batch, int) and batch != 1:
        raise EvaluationError(
            f"{model} takes {batch} images at once; export it for 1 or any number"
        )
    if isinstance(channels, int) and channels != 3:
        count = "1 channel" if channels == 1 else f"{channels} channels"
        raise EvaluationError(
            f"{model} takes images of {count} (its input is {shape}); [1, 3, H, W] is expected"
        )
    fixed = [side if isinstance(side, int) and side > 0 else None for side in sides]
    if wanted is not None and any(f not in (None, w) for f, w in zip(fixed, wanted, strict=True)):
        raise EvaluationError(
            f"{model} takes images of {fixed[0]}x{fixed[1]} (height x width), and the served "
            f"model's size is {wanted[0]}x{wanted[1]}; give the network that is served"
        )
    height, width = wanted or (fixed[0] or 640, fixed[1] or 640)
    return height, width


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _described(tensors: list[Any]) -> str:
    return ", ".join(f"{each.name} {each.type} {each.shape}" for each in tensors)
