"""Configuration files next to a network, as transformers, Optimum and timm write them.

`config.json` names the classes and the architecture; how images are prepared is in
`preprocessor_config.json` of transformers, or under `pretrained_cfg` in timm's `config.json`. They
lie in the network's folder, or above it where that is called `onnx`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from endcap.repository.onnx_file import ExporterMetadata
from endcap.repository.options import Decision

_CONFIG = "config.json"
_PROCESSORS = ("preprocessor_config.json", "processor_config.json")
_MAX_BYTES = 16 * 2**20  # with the names of some ten thousand classes
_MAX_CLASSES = 1_000_000
_TASKS = {"ForImageClassification": "classify", "ForObjectDetection": "detect"}
_FILTERS = {0: "nearest", 2: "bilinear", 3: "bicubic", 4: "area"}  # by Pillow's numbers
_TIMM_FILTERS = ("nearest", "bilinear", "bicubic")
_MAX_MESSAGE = 300  # characters, since values may be as long as the file
_LARGE = 384  # from this size on ConvNeXt's processor does not crop


@dataclass(frozen=True)
class ImageRecipe:
    """How images are prepared."""

    preset: Decision  # the one that is nearest
    parameters: Mapping[str, Decision] = field(default_factory=dict)  # all that may differ from it
    missing: str = ""  # what it does that preprocess cannot, or what it does not say
    is_certain: bool = False  # whether the user or a file names it, and not the head


@dataclass(frozen=True)
class CompanionConfig:
    """What the files next to a network say."""

    task: str = ""  # classify or detect
    names: tuple[str, ...] | None = None  # of the classes
    num_classes: int | None = None
    processor: tuple[str, Mapping[str, Any]] | None = None  # of images: its file and its content
    timm: Mapping[str, Any] | None = None  # pretrained_cfg

    def complete(self, metadata: ExporterMetadata) -> ExporterMetadata:
        """Return the metadata, and what it lacks from the files."""
        if metadata.is_ultralytics:
            return metadata
        names_source = metadata.names_source if metadata.names else f"{_CONFIG} next to the network"
        return replace(
            metadata,
            names=metadata.names or self.names,
            names_source=names_source,
            num_classes=metadata.num_classes or self.num_classes,
            task=metadata.task or self.task,
        )

    def recipe(self, size: tuple[int, int], *, is_detector: bool) -> ImageRecipe | None:
        """Return how images are prepared for a network of this height and width.

        None where no file says it.
        """
        if self.processor is None and self.timm is None:
            return None
        file = self.processor[0] if self.processor else f"pretrained_cfg in {_CONFIG}"
        reason = f"{file} next to the network"
        try:
            if self.processor is not None:
                content = self.processor[1]
                values = _processor_fit(content, size, is_detector=is_detector)
                values |= _processor_values(content)
            else:
                values = _timm_values(self.timm or {}, size)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            missing = f"{reason} cannot be followed: {str(error)[:_MAX_MESSAGE]}"
            return ImageRecipe(Decision("", reason), missing=missing)
        preset = "rtdetr" if values["fit"] == "stretch" else "torchvision"
        parameters = {name: Decision(value, reason) for name, value in values.items()}
        return ImageRecipe(
            Decision(preset, f"{reason}, on Pillow images"), parameters, is_certain=True
        )


def read_companion(network: Path) -> CompanionConfig:
    """Return what the files next to a network say; those in another form say nothing."""
    folder = network.resolve().parent
    for each in (network.parent, *([folder.parent] if folder.name == "onnx" else [])):
        config = _read_json(each / _CONFIG)
        for name in _PROCESSORS:
            content = _read_json(each / name)
            inner = content.get("image_processor")
            content = inner if isinstance(inner, dict) else content
            if "size" in content or "image_mean" in content:
                return _companion(config, (name, content))
        if config:
            return _companion(config, None)
    return CompanionConfig()


def _companion(
    config: Mapping[str, Any], processor: tuple[str, Mapping[str, Any]] | None
) -> CompanionConfig:
    pretrained = config.get("pretrained_cfg")
    timm = pretrained if isinstance(pretrained, dict) else None
    names = _names(config)
    count = len(names) if names else config.get("num_classes") if timm else None
    if type(count) is not int or not 0 < count <= _MAX_CLASSES:
        count = None
    if names and all(name == f"LABEL_{number}" for number, name in enumerate(names)):
        names = None
    architectures = config.get("architectures")
    first = architectures[0] if isinstance(architectures, list) and architectures else ""
    task = next((task for end, task in _TASKS.items() if str(first).endswith(end)), "")
    if timm and count:
        task = "classify"
    elif not task and processor is not None and processor[1].get("format") == "coco_detection":
        task = "detect"
    return CompanionConfig(task, names, count, processor, timm)


def _read_json(path: Path) -> Mapping[str, Any]:
    try:
        if not path.is_file() or path.stat().st_size > _MAX_BYTES:
            return {}
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _names(config: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return transformers' id2label, or timm's label_names."""
    labels = config.get("id2label")
    ordered = config.get("label_names")
    if isinstance(labels, dict):
        if set(labels) != set(map(str, range(len(labels)))):
            return None
        ordered = [labels[str(number)] for number in range(len(labels))]
    if not isinstance(ordered, list):
        return None
    names = tuple(name if isinstance(name, str) else "" for name in ordered)
    return names if any(names) else None


def _processor_fit(
    content: Mapping[str, Any], size: tuple[int, int], *, is_detector: bool
) -> dict[str, str]:
    given: Any = content.get("size")
    crop: Any = content.get("crop_size")
    if not content.get("do_resize", True):
        raise ValueError("do_resize is false, and images need the network's size")
    shorter = given.get("shortest_edge") if isinstance(given, dict) else given
    if shorter and content.get("crop_pct"):
        if shorter >= _LARGE:
            return {"fit": "stretch"}
        return _crop(int(shorter / content["crop_pct"]), shorter, size)
    if content.get("do_center_crop"):
        if shorter:
            return _crop(shorter, crop["height"] if isinstance(crop, dict) else crop, size)
        if given == crop:
            return {"fit": "stretch"}
        raise ValueError(f"size {given} with crop_size {crop} is a stretch followed by a crop")
    if is_detector or type(given) is int or "height" in given:  # a detector's keeps the ratio
        return {"fit": "stretch"}
    raise ValueError(f"size {given} without a crop leaves each image another size")


def _crop(shorter: int, cropped: int, size: tuple[int, int]) -> dict[str, str]:
    """Return a crop of the same share of the short side at the network's size."""
    if cropped < 1 or shorter < cropped or max(size) * cropped > shorter * min(size):
        raise ValueError(f"a crop of {size[0]},{size[1]} is larger than what it is taken from")
    resized = shorter if cropped == min(size) else round(min(size) * shorter / cropped)
    return {"fit": "center_crop", "resize_shorter": str(resized)}


def _processor_values(content: Mapping[str, Any]) -> dict[str, str]:
    resample, rescales = content.get("resample", 2), content.get("do_rescale", True)
    if resample not in _FILTERS:
        raise ValueError(
            f"resample is {resample!r}; preprocess has only Pillow's filters 0, 2, 3 and 4"
        )
    mean, std = [0.0], [1.0]
    if content.get("do_normalize", True):
        mean, std = (_numbers(content[name]) for name in ("image_mean", "image_std"))
        if content.get("include_top") is True:  # EfficientNet's divides twice
            std = [value * value for value in std]
    if rescales and content.get("rescale_offset") is True:
        mean = [value + 1 for value in mean]
    return {
        "interpolation": _FILTERS[resample],
        "antialias": "true",
        "scale": _text(float(content.get("rescale_factor", 1 / 255)) if rescales else 1.0),
        "mean": _join(mean),
        "std": _join(std),
        **({"color": "bgr"} if content.get("do_flip_channel_order") is True else {}),
    }


def _timm_values(content: Mapping[str, Any], size: tuple[int, int]) -> dict[str, str]:
    interpolation, mode = content["interpolation"], content.get("crop_mode") or "center"
    share = content["crop_pct"]
    if content.get("test_input_size") == [3, *size]:
        share = content.get("test_crop_pct", share)
    if interpolation not in _TIMM_FILTERS:
        raise ValueError(f"interpolation is {interpolation!r}")
    if mode == "center" and size[0] == size[1] and 0 < share <= 1:
        fit = {"fit": "center_crop", "resize_shorter": str(math.floor(min(size) / share))}
    elif mode == "squash" and share == 1:
        fit = {"fit": "stretch"}
    else:
        raise ValueError(f"crop_mode is {mode!r} at crop_pct {share!r}")
    statistics = {name: _join(_numbers(content[name])) for name in ("mean", "std")}
    return {**fit, "interpolation": str(interpolation), **statistics}


def _numbers(given: Any) -> list[float]:
    return [float(value) for value in (given if isinstance(given, list) else [given])]


def _join(values: Sequence[float]) -> str:
    return ",".join(map(_text, values if len(values) > 1 else [*values] * 3))


def _text(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
