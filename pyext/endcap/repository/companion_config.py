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

from endcap.repository.errors import RepositoryError
from endcap.repository.onnx_file import ExporterMetadata
from endcap.repository.options import Decision

_CONFIG = "config.json"
_PROCESSORS = ("preprocessor_config.json", "processor_config.json")
_PROCESSOR_KEYS = {"image_mean", "do_resize", "do_rescale", "image_processor_type"}
_MAX_BYTES = 16 * 2**20  # with the names of some ten thousand classes
_MAX_CLASSES = 1_000_000
_TASKS = {"ForImageClassification": "classify", "ForObjectDetection": "detect"}
_FILTERS = {0: "nearest", 2: "bilinear", 3: "bicubic", 4: "area"}  # by Pillow's numbers
_TIMM_FILTERS = ("nearest", "bilinear", "bicubic")
_MAX_MESSAGE = 300  # characters, since values may be as long as the file
_LARGE = 384  # from this size on ConvNeXt's processor does not crop


@dataclass(frozen=True)
class ImageRecipe:
    """How images are prepared.

    Attributes:
        preset: The preset that is nearest.
        parameters: All that may differ from it.
        missing: What it does that preprocess cannot, or what it does not say; "" where nothing.
    """

    preset: Decision
    parameters: Mapping[str, Decision] = field(default_factory=dict)
    missing: str = ""


@dataclass(frozen=True)
class CompanionConfig:
    """What the files next to a network say.

    Attributes:
        task: classify, detect, or "" where unknown.
        names: The classes; None where they only have numbers.
        num_classes: How many, None where unknown.
        processor: Of images, its file and its content.
        timm: `pretrained_cfg` of timm.
        given: The file's name where the user named it; "" where it lies next to the network.
    """

    task: str = ""
    names: tuple[str, ...] | None = None
    num_classes: int | None = None
    processor: tuple[str, Mapping[str, Any]] | None = None
    timm: Mapping[str, Any] | None = None
    given: str = ""

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
        try:
            if self.processor is not None:
                file, content = self.processor
                reason = self._reason(file)
                values = {
                    **_processor_fit(content, size, is_detector=is_detector),
                    **_processor_values(content),
                }
            elif self.timm is not None:
                reason = self._reason(f"pretrained_cfg in {_CONFIG}")
                values = _timm_values(self.timm, size)
            else:
                return None
        except (_UnreadableError, OverflowError) as error:
            missing = f"{reason}: {str(error)[:_MAX_MESSAGE]}"
            return ImageRecipe(Decision("", reason), missing=missing)
        preset = "rtdetr" if values["fit"] == "stretch" else "torchvision"
        parameters = {name: Decision(value, reason) for name, value in values.items()}
        return ImageRecipe(Decision(preset, f"{reason}, on Pillow images"), parameters)

    def _reason(self, file: str) -> str:
        return f"as {self.given} says" if self.given else f"{file} next to the network"


def read_companion(network: Path) -> CompanionConfig:
    """Return what the files next to a network say; those in another form say nothing."""
    folder = network.resolve().parent
    folders = [network.parent, *([folder.parent] if folder.name == "onnx" else [])]
    for each in folders:
        config = _read_json(each / _CONFIG)
        processor = _read_processor_file(each)
        if config or processor is not None:
            return _companion(config, processor)
    return CompanionConfig()


def read_recipe(file: Path) -> CompanionConfig:
    """Return what a file says about how images are prepared, and nothing about classes.

    Args:
        file: transformers' preprocessor_config.json or processor_config.json, or timm's
            config.json, under any name.

    Raises:
        RepositoryError: It is none of these.
    """
    if not file.is_file():
        raise RepositoryError(f"--preprocess-from {file} is not a file; give an existing one")
    content = _read_json(file)
    timm = content.get("pretrained_cfg", content if "crop_pct" in content else None)
    processor = _image_processor(content)
    if processor.keys() & _PROCESSOR_KEYS:
        return CompanionConfig(processor=(file.name, processor), given=file.name)
    if isinstance(timm, dict):
        return CompanionConfig(timm=timm, given=file.name)
    raise RepositoryError(
        f"--preprocess-from {file} does not say how images are prepared; give transformers' "
        "preprocessor_config.json or timm's config.json"
    )


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


def _read_processor_file(folder: Path) -> tuple[str, Mapping[str, Any]] | None:
    for name in _PROCESSORS:
        content = _image_processor(_read_json(folder / name))
        if "size" in content or "image_mean" in content:
            return name, content
    return None


def _image_processor(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the part of a processor's file that is of images."""
    inner = content.get("image_processor")
    return inner if isinstance(inner, dict) else content


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
    if isinstance(labels, dict):
        if set(labels) != set(map(str, range(len(labels)))):
            return None
        ordered = [labels[str(number)] for number in range(len(labels))]
    else:
        ordered = config.get("label_names", [])
    if not isinstance(ordered, list) or not ordered:
        return None
    names = tuple(name if isinstance(name, str) else "" for name in ordered)
    return names if any(names) else None


class _UnreadableError(Exception):
    """A recipe that preprocess cannot follow, or that is in no known form."""


def _processor_fit(
    content: Mapping[str, Any], size: tuple[int, int], *, is_detector: bool
) -> dict[str, str]:
    given, crop = content.get("size"), content.get("crop_size")
    if not content.get("do_resize", True):
        raise _UnreadableError("do_resize is false, and images have to get the network's size")
    shorter = given.get("shortest_edge") if isinstance(given, dict) else given
    share = content.get("crop_pct")
    if type(shorter) is int and isinstance(share, (int, float)) and 0 < share <= 1:
        if shorter >= _LARGE:
            return {"fit": "stretch"}
        return _crop(int(shorter / share), shorter, size)
    if content.get("do_center_crop"):
        cropped = crop.get("height") if isinstance(crop, dict) else crop
        if type(shorter) is int and type(cropped) is int:
            return _crop(shorter, cropped, size)
        if _sides(given) is not None and _sides(given) == _sides(crop):
            return {"fit": "stretch"}
        raise _UnreadableError(
            f"size {given} and crop_size {crop} stretch an image and then crop it"
        )
    if _sides(given) is not None or is_detector:  # a detector's keeps the ratio and pads
        return {"fit": "stretch"}
    raise _UnreadableError(f"size {given} without a crop leaves each image another size")


def _crop(shorter: int, cropped: int, size: tuple[int, int]) -> dict[str, str]:
    """Return a crop of the same share of the short side at the network's size."""
    if cropped < 1 or shorter < cropped:
        raise _UnreadableError(f"the short side {shorter} is less than the crop {cropped}")
    if max(size) * cropped > shorter * min(size):
        raise _UnreadableError(
            f"a crop of {size[0]},{size[1]} is larger than what it is taken from"
        )
    resized = shorter if cropped == min(size) else round(min(size) * shorter / cropped)
    return {"fit": "center_crop", "resize_shorter": str(resized)}


def _sides(given: object) -> tuple[int, int] | None:
    if type(given) is int:
        return given, given
    if not isinstance(given, dict):
        return None
    sides = given.get("height"), given.get("width")
    return (sides[0], sides[1]) if type(sides[0]) is int and type(sides[1]) is int else None


def _processor_values(content: Mapping[str, Any]) -> dict[str, str]:
    resample = content.get("resample", 2)
    if type(resample) is not int or resample not in _FILTERS:
        raise _UnreadableError(
            f"resample is {resample!r}, and preprocess has the filters 0, 2, 3 and 4"
        )
    scale = content.get("rescale_factor", 1 / 255) if content.get("do_rescale", True) else 1
    if not _is_number(scale) or not scale:
        raise _UnreadableError(f"rescale_factor is {scale!r}")
    mean, std = _statistics(content.get("image_mean"), content.get("image_std"))
    if not content.get("do_normalize", True):
        mean, std = [0.0], [1.0]
    elif content.get("include_top") is True:  # EfficientNet's divides twice
        std = [value * value for value in std]
    if content.get("do_rescale", True) and content.get("rescale_offset") is True:
        mean = [value + 1 for value in mean]
    values = {
        "interpolation": _FILTERS[resample],
        "antialias": "true",
        "scale": _text(scale),
        "mean": _joined(mean),
        "std": _joined(std),
    }
    if content.get("do_flip_channel_order") is True:
        values["color"] = "bgr"
    return values


def _timm_values(content: Mapping[str, Any], size: tuple[int, int]) -> dict[str, str]:
    interpolation, mode = content.get("interpolation"), content.get("crop_mode") or "center"
    share: Any = content.get("crop_pct")
    if content.get("test_input_size") == [3, *size] and "test_crop_pct" in content:
        share = content["test_crop_pct"]
    if interpolation not in _TIMM_FILTERS:
        raise _UnreadableError(f"interpolation is {interpolation!r}")
    if not _is_number(share) or not 0 < share <= 1:
        raise _UnreadableError(f"crop_pct is {share!r}")
    if mode == "center" and size[0] == size[1]:
        fit = {"fit": "center_crop", "resize_shorter": str(math.floor(min(size) / share))}
    elif mode == "squash" and share == 1:
        fit = {"fit": "stretch"}
    else:
        raise _UnreadableError(f"crop_mode is {mode!r} at crop_pct {share:g}")
    mean, std = _statistics(content.get("mean"), content.get("std"))
    return {
        **fit,
        "interpolation": str(interpolation),
        "mean": _joined(mean),
        "std": _joined(std),
    }


def _statistics(mean: object, std: object) -> tuple[list[float], list[float]]:
    read = [_numbers(each) for each in (mean, std)]
    if not read[0] or not read[1] or not all(read[1]):
        raise _UnreadableError(f"mean and std are {mean!r} and {std!r}")
    return read[0], read[1]


def _numbers(given: Any) -> list[float]:
    values = given if isinstance(given, list) else [given]
    if len(values) not in (1, 3) or not all(map(_is_number, values)):
        return []
    return [float(value) for value in values]


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _joined(values: Sequence[float]) -> str:
    return ",".join(map(_text, [*values] * (3 // len(values))))


def _text(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
