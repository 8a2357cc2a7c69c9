"""Keyword parameters of preprocess and postprocess: their types, and the core's defaults.

Their meanings and ranges are in docs/parameters.md and `describe()`; None leaves a parameter to the
preset or the default. A default is the initializer of the field in the core's structs
(PreprocessParams, HeadParams, PostprocessParams in csrc/include/endcap), which everything reads but
the signatures with preset "ultralytics" or head "yolov8".
"""

from __future__ import annotations

import contextlib
import inspect
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypedDict, TypeVar, get_type_hints

import numpy as np

import endcap._core as _core
from endcap.errors import InvalidArgumentError

_MAX_THREADS = 1024


@dataclass(frozen=True)
class Parameter:
    """One row of a parameter table; all as text, as config.pbtxt takes it."""

    name: str
    meaning: str
    allowed: str
    value: str


def to_text(value: object) -> str:
    """Write one parameter value: numbers, booleans, names, data types, and sequences of them."""
    if isinstance(value, str):
        return value
    if isinstance(value, (type, np.dtype)):  # np.float16
        with contextlib.suppress(TypeError):
            return np.dtype(value).name
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, np.ndarray):
        return to_text(value.tolist())
    if isinstance(value, Iterable):
        return ",".join(to_text(part) for part in value)
    if isinstance(value, float):
        return repr(float(value))
    return str(value).removeprefix("torch.")  # torch.float16


def check_name(name: object, what: str, advice: str) -> None:
    """Raise InvalidArgumentError for a preset or head that is not text; what, advice: of the error.

    A number in its place is a size or a number of classes.
    """
    if not isinstance(name, str):
        raise InvalidArgumentError(f"{what} is {name!r}: give its name as text; {advice}")


def suggestion(name: str, value: str = "") -> str:
    """Return "; did you mean 'size'?" for a name or value that is close to one that exists.

    Names of other libraries' parameters count. "" without one, and where the name and value exist.
    """
    for engine in (_core.Preprocessor, _core.Postprocessor):
        try:
            engine([(name, value)], 1)
        except InvalidArgumentError as error:
            found = re.search(r"; did you mean '[^']*'\?$", str(error))
            if found is not None:
                return found[0]
    return ""


def to_parameters(fields: Mapping[str, object]) -> _core.Parameters:
    """Write keyword arguments; those that are None are left to the preset or the default."""
    return [(name, to_text(value)) for name, value in fields.items() if value is not None]


Size = int | Sequence[int] | str  # one number for both sides, (height, width), or "height,width"
# "jpeg", "png", "webp", "bmp", "gif", "y4m": one or several, as a list or with commas between.
FileFormats = str | Sequence[str]
Numbers = float | Sequence[float] | str  # one for all, or one for each


class DecodeParameters(TypedDict, total=False):
    """What `decode` takes by name."""

    exif: Literal["apply", "ignore"] | None
    formats: FileFormats | None
    alpha: Literal["drop", "white"] | None
    max_pixels: int | None
    max_side: int | None
    max_bytes: int | None
    max_scans: int | None
    max_coefficient_bytes: int | None
    max_decoded_bytes: int | None
    truncated: Literal["reject", "accept"] | None
    damaged: Literal["reject", "accept"] | None


class PreprocessParameters(DecodeParameters, total=False):
    """What `Preprocessor` and `preprocess` take by name."""

    size: Size | None
    fit: Literal["letterbox", "stretch", "center_crop"] | None
    resize_shorter: int | None
    interpolation: Literal["nearest", "bilinear", "bicubic", "area"] | None
    antialias: bool | None
    quantize: Literal["uint8", "none"] | None
    pad_value: int | None
    pad_align: Literal["center", "top_left"] | None
    upscale: bool | None
    color: Literal["rgb", "bgr", "gray"] | None
    layout: Literal["nchw", "nhwc"] | None
    dtype: Literal["float32", "float16", "uint8", "int8"] | type[np.generic] | np.dtype[Any] | None
    scale: float | None
    mean: Numbers | None
    std: Numbers | None
    base64: Literal["accept", "reject"] | None
    decode: Literal["exact", "fast"] | None
    jpeg_decoder: Literal["auto", "cpu", "hybrid", "nvjpeg"] | None
    max_rois: int | None
    max_roi_bytes: int | None
    tile: Size | None
    tile_overlap: float | None
    tile_full: bool | None
    on_error: Literal["error", "blank"] | None


class HeadParameters(TypedDict, total=False):
    """What `box_decode` takes by name, in addition to the number of classes."""

    score_threshold: float | None
    score_thresholds: Sequence[float] | str | None
    classes: int | Sequence[int] | str | None
    max_candidates: int | None
    multi_label: bool | None
    box_format: Literal["default", "xyxy", "cxcywh"] | None
    box_unit: Literal["default", "pixel", "normalized"] | None
    input_size: Size | None
    activation: Literal["default", "none", "sigmoid", "softmax"] | None
    top_k: int | None
    joined: bool | None
    background: Literal["default", "none", "first", "last"] | None
    anchors: Literal["input", "grid", "none"] | None
    anchor_grid: str | None
    anchor_offset: float | None
    variances: Numbers | None
    mask_coefficients: int | None
    prototype_size: Size | None
    num_keypoints: int | None
    keypoint_values: Literal[2, 3] | None
    class_map: bool | None
    on_nan: Literal["error", "drop"] | None


class PostprocessParameters(HeadParameters, total=False):
    """What `Postprocessor` takes by name, in addition to head and number of classes."""

    iou_threshold: float | None
    max_detections: int | None
    class_agnostic: bool | None
    merge: Literal["none", "nms", "nmm"] | None
    merge_metric: Literal["iou", "ios"] | None
    merge_threshold: float | None
    rotated_nms: Literal["polygon", "probiou", "probiou_fast"] | None
    angle_range: Literal["raw", "le90"] | None
    mask_resolution: Literal["prototype", "input", "source"] | None
    class_map_resize: Literal["bilinear", "nearest"] | None
    ignore_label: int | None


def thread_count(threads: int | None) -> int:
    """Return the number of threads for the core; 0 stands for all CPUs.

    Raises:
        InvalidArgumentError: not a whole number that fits.
    """
    try:
        count = operator.index(0 if threads is None else threads)
    except TypeError as error:
        raise InvalidArgumentError(f"threads is {threads!r}: give a whole number") from error
    if not 0 <= count <= _MAX_THREADS:
        raise InvalidArgumentError(f"threads is {count}: give 1 to {_MAX_THREADS}, or 0 for all")
    return count


@cache
def preprocess_defaults() -> dict[str, str]:
    """Return the default of each parameter of `Preprocessor` as text."""
    return {name: value for name, _, _, value in _core.Preprocessor([], 1).parameters}


F = TypeVar("F", bound=Callable[..., Any])


def list_parameters(parameters: type) -> Callable[[F], F]:
    """Return a decorator that lists parameters in the signature of a function with **keywords.

    `help`, notebooks and `inspect` then show each by its name, as type checkers do.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        *own, rest = signature.parameters.values()
        assert rest.kind is inspect.Parameter.VAR_KEYWORD
        names = {each.name for each in own}
        listed = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
            )
            for name, annotation in get_type_hints(parameters).items()
            if name not in names
        ]
        function.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[*own, *listed]
        )
        return function

    return decorate
