"""Training pipelines: an image file to the tensor that a network was trained with.

A pipeline is named (`ultralytics`, `torchvision:resnet50`), or a Python function `module:function`
that takes the path of an image file and returns its tensor.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from endcap.errors import EndcapError, InvalidArgumentError
from endcap.evaluation import EvaluationError, import_package

Size = tuple[int, int]  # height, width
Function = Callable[[Path], Any]


@dataclass(frozen=True)
class TrainingPipeline:
    """A training pipeline.

    Attributes:
        name: For reports, with the version of its library.
        function: Returns what the library returns for the path of a file.
    """

    name: str
    function: Function

    def __call__(self, path: Path) -> NDArray[Any]:
        """Return the tensor of an image file, without a batch dimension.

        Raises:
            EvaluationError: The pipeline failed, or returned no tensor of one image.
        """
        with _user_code(f"{self.name} failed on {path}"):
            value = self.function(path)
            if isinstance(value, (tuple, list)) and value and hasattr(value[0], "shape"):
                value = value[0]  # of a data set's pair of image and label
            tensor = _to_numpy(value)
        return _one_image(tensor, f"{self.name} returned for {path}")


@contextlib.contextmanager
def _user_code(what: str) -> Iterator[None]:
    """Run the user's code: what it prints goes to standard error, what it raises is one error.

    Args:
        what: Begins the error message.

    Raises:
        EvaluationError: The code raised something, or ended the program.
    """
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except EndcapError:
        raise
    except (Exception, SystemExit) as error:  # the code may raise anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise EvaluationError(f"{what}: {reason}") from error


def load_pipeline(text: str, size: Size) -> TrainingPipeline:
    """Return the pipeline that a text means.

    Args:
        text: A name with or without `:ARGUMENT`, or `module:function`.
        size: Of the tensor, for pipelines that do not have a size of their own.

    Raises:
        EvaluationError: A package is missing.
        InvalidArgumentError: The text means no pipeline.
    """
    name, _, argument = text.partition(":")
    if name in NAMED_PIPELINES:
        import_package(name, package=name)
        shown = f"{text} ({name} {importlib.metadata.version(name)})"
        return TrainingPipeline(shown, NAMED_PIPELINES[name](argument, size))
    if argument:
        return TrainingPipeline(text, _import_function(name, argument))
    raise InvalidArgumentError(
        f"--training is '{text}'; give one of {', '.join(NAMED_PIPELINES)}, or module:function"
    )


# --- named pipelines ---


def _ultralytics(argument: str, size: Size) -> Function:
    if argument:
        raise InvalidArgumentError("--training ultralytics takes nothing after a colon")
    cv2: Any = import_package("cv2", package="opencv-python-headless")
    augment: Any = importlib.import_module("ultralytics.data.augment")
    letterbox = augment.LetterBox(new_shape=size, auto=False)

    def run(path: Path) -> Any:
        image = cv2.imread(str(path))
        if image is None:
            raise ValueError("OpenCV cannot read it")
        image = letterbox(image=image)
        return np.ascontiguousarray(image[..., ::-1].transpose(2, 0, 1)).astype(np.float32) / 255

    return run


def _torchvision(argument: str, size: Size) -> Function:
    models: Any = importlib.import_module("torchvision.models")
    try:
        transform = models.get_model_weights(argument).DEFAULT.transforms()
    except ValueError as error:
        raise InvalidArgumentError(
            f"torchvision has no model '{argument}'; give the name of one of its models, such as "
            "torchvision:resnet50"
        ) from error
    return lambda path: transform(_read_pillow(path))


def _timm(argument: str, size: Size) -> Function:
    timm: Any = importlib.import_module("timm")
    if not timm.is_model(argument.partition(".")[0]):
        raise InvalidArgumentError(
            f"timm has no model '{argument}'; give the name of one of its models, such as "
            "timm:resnet50"
        )
    data: Any = importlib.import_module("timm.data")
    config = timm.get_pretrained_cfg(argument).to_dict()
    transform = data.create_transform(**data.resolve_data_config({}, pretrained_cfg=config))
    return lambda path: transform(_read_pillow(path))


# By the name of the package on PyPI, which is that of its module.
NAMED_PIPELINES: dict[str, Callable[[str, Size], Function]] = {
    "ultralytics": _ultralytics,
    "torchvision": _torchvision,
    "timm": _timm,
}


def _read_pillow(path: Path) -> Image.Image:
    with Image.open(path) as image:
        rgb: Image.Image = image.convert("RGB")
        return rgb


# --- functions ---


def _import_function(module: str, name: str) -> Function:
    """Return a function of a module, which may lie in the current folder."""
    option = f"--training {module}:{name}"
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as `python -m` does
    try:
        with _user_code(f"{option}: the module fails"):
            found: Any = importlib.import_module(module)
    except EvaluationError as error:
        if not isinstance(error.__cause__, ImportError):
            raise
        raise InvalidArgumentError(
            f"{option}: the module cannot be imported ({error.__cause__}); run the command in the "
            "folder that holds it, or install it"
        ) from error
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise InvalidArgumentError(f"{option}: {module} has no function {name}")
    function: Callable[[str], Any] = found
    return lambda path: function(str(path))


# --- tensors ---


def _to_numpy(value: Any) -> NDArray[Any]:
    """Return an array of NumPy, PyTorch, TensorFlow or Pillow as NumPy's."""
    if isinstance(value, Mapping):  # as processors return them
        value = next(
            (value[key] for key in ("pixel_values", "image", "images") if key in value), value
        )
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":
            value = value.float()
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value)


def _one_image(tensor: NDArray[Any], what: str) -> NDArray[Any]:
    while tensor.ndim > 3 and tensor.shape[0] == 1:
        tensor = tensor[0]
    if tensor.ndim == 2:
        tensor = tensor[None]
    is_number = np.issubdtype(tensor.dtype, np.floating) or np.issubdtype(tensor.dtype, np.integer)
    if tensor.ndim != 3 or not is_number or not {1, 3} & {tensor.shape[0], tensor.shape[2]}:
        raise EvaluationError(
            f"{what} {tensor.dtype} {list(tensor.shape)}; the tensor of one image is expected, "
            "[3, H, W], [H, W, 3] or with one channel, with or without a batch of 1 before it"
        )
    if not np.isfinite(tensor.astype(np.float64)).all():
        raise EvaluationError(f"{what} numbers that are not finite")
    return tensor
