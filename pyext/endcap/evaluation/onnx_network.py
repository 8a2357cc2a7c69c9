"""An ONNX network that takes one image, on ONNX Runtime, for the reference."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.evaluation.errors import EvaluationError, import_package
from endcap.evaluation.reference_settings import HeadName, ReferenceSettings

ELEMENTS: dict[str, type[np.number[Any]]] = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(uint8)": np.uint8,
    "tensor(int8)": np.int8,
}
_ONLY_FATAL = 4  # of the severities of ONNX Runtime
_HEAD_DIMENSIONS = {HeadName.classification: 2}  # with the batch's; of all others 3
_SEVERAL_OUTPUTS = {
    HeadName.efficient_nms: ("num_detections", "boxes", "scores", "classes"),
    HeadName.rtdetr: ("logits", "boxes"),  # unless they are joined
}


_ONE_OUTPUT = ("head", "logits")  # of all others, without the prototypes of masks


def has_several_outputs(settings: ReferenceSettings) -> bool:
    """Return whether a head is several tensors, which are told apart by their names."""
    return settings.head in _SEVERAL_OUTPUTS and not settings.joined


class OnnxNetwork:
    """A network that was read.

    Args:
        outputs: The network's names of its outputs, by the names that the family has for them, such
            as `head`; what is not named, or has no such name in this file, is found by its shape.
        threads: Of ONNX Runtime. size: height and width of the image. Raises EvaluationError when
            the file cannot be loaded, or does not take one image of the settings' layout and
            channels.
    """

    def __init__(
        self,
        model: Path,
        settings: ReferenceSettings,
        *,
        outputs: Mapping[str, str] | None = None,
        threads: int = 1,
    ) -> None:
        self._model, self._channels_last = model, settings.channels_last
        self._session = open_session(model, threads)
        expected = "[1, H, W, C]" if settings.channels_last else "[1, C, H, W]"
        expected = expected.replace("C", str(settings.channels))
        (image, *others) = self._session.get_inputs()
        if others or len(image.shape) != 4 or image.type not in ELEMENTS:
            raise EvaluationError(
                f"{model} takes {_described(self._session.get_inputs())}; one image {expected} of "
                "float32, float16, uint8 or int8 is expected"
            )
        self._image, self._element = image.name, ELEMENTS[image.type]
        self._heads = _head_outputs(model, self._session.get_outputs(), settings, outputs or {})
        self.size = _size(model, image.shape, settings, expected)

    def run(self, tensor: NDArray[np.float32]) -> list[NDArray[Any]]:
        """Return the heads of one image [1, ...], without the batch dimension.

        Numbers are rounded to the type that the network takes. Raises EvaluationError when the
        network fails.
        """
        try:
            heads = self._session.run(self._heads, {self._image: to_element(tensor, self._element)})
        except Exception as error:  # ONNX Runtime's errors have no common type
            height, width = self.size
            raise EvaluationError(
                f"{self._model} cannot be run on an image of {height}x{width} (height x width): "
                f"{_one_line(error)}"
            ) from error
        return [_single(head)[0] for head in heads]

    def run_blank(self, channels: int) -> list[NDArray[Any]]:
        """Return the heads of a black image."""
        height, width = self.size
        shape = (height, width, channels) if self._channels_last else (channels, height, width)
        return self.run(np.zeros((1, *shape), np.float32))


def to_element(tensor: NDArray[np.float32], element: type[np.number[Any]]) -> NDArray[Any]:
    """Return a tensor in the type that a network takes: rounded, and within its range."""
    if issubclass(element, np.integer):
        limits = np.iinfo(element)
        tensor = np.clip(np.rint(tensor), limits.min, limits.max)
    return tensor.astype(element)


def _single(head: NDArray[Any]) -> NDArray[Any]:
    """Half precision as float32; whole numbers as they are."""
    return head.astype(np.float32) if np.issubdtype(head.dtype, np.floating) else head


def open_session(model: Path, threads: int) -> Any:
    """Return ONNX Runtime's session of a file. Raises EvaluationError when it cannot be loaded."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # it would send hashes of networks
    onnxruntime: Any = import_package("onnxruntime", package="onnxruntime")
    if not model.is_file():
        raise EvaluationError(f"reference {model} is no file; give the network as an ONNX file")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = _ONLY_FATAL  # its errors come as exceptions too
    try:
        return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's errors have no common type
        raise EvaluationError(f"reference {model} cannot be loaded: {_one_line(error)}") from error


def _head_outputs(
    model: Path, outputs: Sequence[Any], settings: ReferenceSettings, served: Mapping[str, str]
) -> list[str]:
    """Names of the outputs in the order of the family's inputs."""
    names = [each.name for each in outputs]
    if has_several_outputs(settings):
        wanted = [served.get(each, each) for each in _SEVERAL_OUTPUTS[settings.head]]
        if not set(wanted) <= set(names):
            raise EvaluationError(
                f"{model} gives {_described(outputs)}; {', '.join(wanted)} are expected of head "
                f"{settings.head.value}: give the network that is served, and its repository"
            )
        return wanted
    known = [served[each] for each in _ONE_OUTPUT if served.get(each) in names]
    if known:
        return known
    dimensions = _HEAD_DIMENSIONS.get(settings.head, 3)
    heads = [each.name for each in outputs if len(each.shape) == dimensions]
    if len(heads) != 1:
        count = {2: "two", 3: "three"}[dimensions]
        raise EvaluationError(
            f"{model} gives {_described(outputs)}; one head of {count} dimensions is expected"
        )
    return [str(heads[0])]


def _size(
    model: Path, shape: Sequence[Any], settings: ReferenceSettings, expected: str
) -> tuple[int, int]:
    """Return the image's height and width; `shape` has texts where the network takes any size."""
    batch, *rest = shape
    channels = rest.pop(-1 if settings.channels_last else 0)
    if isinstance(batch, int) and batch != 1:
        raise EvaluationError(
            f"{model} takes {batch} images at once; export it for 1 or any number"
        )
    if isinstance(channels, int) and channels != settings.channels:
        count = "1 channel" if channels == 1 else f"{channels} channels"
        raise EvaluationError(
            f"{model} takes images of {count} (its input is {list(shape)}); {expected} is expected"
        )
    fixed = [side if isinstance(side, int) and side > 0 else None for side in rest]
    wanted = settings.size
    if wanted is not None and any(f not in (None, w) for f, w in zip(fixed, wanted, strict=True)):
        raise EvaluationError(
            f"{model} takes images of {fixed[0]}x{fixed[1]} (height x width), and the served "
            f"model's size is {wanted[0]}x{wanted[1]}; give the network that is served"
        )
    height, width = wanted or (fixed[0] or 640, fixed[1] or 640)
    return height, width


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _described(tensors: Sequence[Any]) -> str:
    return ", ".join(f"{each.name} {each.type} {each.shape}" for each in tensors)
