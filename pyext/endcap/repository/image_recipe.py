"""How images are prepared for a network: by its metadata, files next to it, its graph or its head.

Configuration files are followed where preprocess has their steps: those of transformers' image
processors, and timm's `pretrained_cfg`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from endcap.preprocess import presets
from endcap.repository.errors import MissingOptionError
from endcap.repository.head_evidence import Head
from endcap.repository.input_normalization import RAW_PIXELS, Normalization
from endcap.repository.metadata import RTDETR_DECODER, ImageProcessor
from endcap.repository.network_tensors import NetworkInput
from endcap.repository.onnx_file import OnnxFile
from endcap.repository.options import AS_GIVEN, NO_HEAD, Decision, InitOptions, with_reason

# The presets to choose from, by head family.
_CANDIDATES = {
    "classification": "torchvision for torchvision's classifiers, inception for TensorFlow's, vgg "
    "for Caffe's VGG",
    "rtdetr": "rtdetr, or rfdetr for RF-DETR",
    "rtdetr_seg": "rfdetr",
    "ssd": "ssd",
    "semantic": "ultralytics, or torchvision with --set fit=stretch",
    NO_HEAD: "ultralytics (pixels from 0 to 1) or torchvision (ImageNet's mean and deviation)",
}
_DETECTOR_PRESETS = "ultralytics, rtdetr, rfdetr or ssd"
_DETR_PRESET = "torchvision with --set fit=stretch"
_FILTERS = {0: "nearest", 2: "bilinear", 3: "bicubic", 4: "area"}  # by Pillow's numbers
_TIMM_FILTERS = ("nearest", "bilinear", "bicubic")
_MAX_MESSAGE = 300  # characters, since values may be as long as the file
_LARGE = 384  # from this size on ConvNeXt's processor does not crop


@dataclass(frozen=True)
class ImageRecipe:
    """How images are prepared."""

    preset: Decision  # the one that is nearest
    parameters: dict[str, Decision] = field(default_factory=dict)  # all that may differ from it
    is_certain: bool = False  # whether the user or a file names it, and not the head


def choose_recipe(
    network: OnnxFile, image: NetworkInput, head: Head, options: InitOptions
) -> ImageRecipe:
    """Return how images are prepared.

    Raises:
        MissingOptionError: Nothing tells it.
    """
    metadata, inside = network.metadata, image.normalization
    if options.preset is not None:
        return ImageRecipe(Decision(options.preset, AS_GIVEN), is_certain=True)
    if head.family == "classification":
        if metadata.is_ultralytics and metadata.task == "classify":
            reason = "the exporter's metadata: a classifier of Ultralytics"
            # torchvision's transform without its crop and statistics, on what OpenCV reads.
            values = {"resize_shorter": str(min(image.size)), "mean": "0,0,0", "std": "1,1,1"}
            values |= {"exif": "apply"} | ({"fit": "stretch"} if len({*image.size}) > 1 else {})
            parameters = with_reason(values, "as Ultralytics' classifiers are trained")
            return ImageRecipe(Decision("torchvision", reason), parameters)
    elif metadata.head == RTDETR_DECODER:
        values = {"antialias": "false", "exif": "apply"} if metadata.is_ultralytics else {}
        reason = "Ultralytics' RT-DETR is trained on what OpenCV reads and stretches"
        preset = Decision("rtdetr", "the exporter's metadata")
        return ImageRecipe(preset, with_reason(values, reason))
    elif metadata.is_ultralytics:
        return ImageRecipe(Decision("ultralytics", "the exporter's metadata"))
    why = "it has no metadata that describes it"
    if metadata.processor is not None and head.preset in (None, "rtdetr"):  # else the head's is it
        is_detector = head.family not in ("classification", NO_HEAD) or metadata.task == "detect"
        try:
            return _follow(metadata.processor, image.size, is_detector=is_detector)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            why = f"{metadata.processor.source} cannot be followed: {str(error)[:_MAX_MESSAGE]}"
    if head.family == "detections" and inside and inside.has_mean and not inside.takes_bytes:
        return _recipe_of_torchvision(network, inside)
    if head.preset is not None:
        reason = f"the usual training of {head.family} networks"
        return ImageRecipe(Decision(head.preset, reason), {**head.recipe})
    likely = _CANDIDATES.get(head.family, _DETECTOR_PRESETS)
    if head.family in ("rtdetr", "rtdetr_seg") and "multi_label" in head.parameters:
        likely = _DETR_PRESET
    elif head.family == "rtdetr" and "background" not in head.parameters:
        likely += f", or {_DETR_PRESET} for DETR"
    raise MissingOptionError(
        network.path,
        f"cannot determine the preprocessing of {network.path}: {why}; choose that of its training "
        f"with --preset (likely: {likely}; all: {', '.join(presets())}), and set what differs with "
        "--set",
    )


def _recipe_of_torchvision(network: OnnxFile, inside: Normalization) -> ImageRecipe:
    """Return the recipe of a detector that resizes and normalises by itself."""
    reason = "the network normalises and resizes by itself, as torchvision's detectors do"
    operators = {node.op_type for node in network.model.graph.node}
    parameters = with_reason(inside.whole.parameters(), reason)
    if "Softmax" not in operators or "RoiAlign" in operators:  # not SSD
        why = "torchvision's detectors keep the aspect ratio; use a shorter side of 800 pixels"
        parameters["fit"] = Decision("letterbox", why)
        parameters["pad_align"] = Decision("top_left", "as torchvision pads")
    return ImageRecipe(Decision("ssd", reason), parameters)


def _follow(processor: ImageProcessor, size: tuple[int, int], *, is_detector: bool) -> ImageRecipe:
    """Return the recipe of a file; ValueError and others for what preprocess cannot do."""
    content = processor.content
    if processor.is_timm:
        values = _read_timm(content, size)
    else:
        values = _read_fit(content, size, is_detector=is_detector) | _read_values(content)
    preset = "rtdetr" if values["fit"] == "stretch" else "torchvision"
    nearest = Decision(preset, f"{processor.source}, on Pillow images")
    return ImageRecipe(nearest, with_reason(values, processor.source), is_certain=True)


def _read_fit(
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


def _read_values(content: Mapping[str, Any]) -> dict[str, str]:
    resample, rescales = content.get("resample", 2), content.get("do_rescale", True)
    if resample not in _FILTERS:
        raise ValueError(
            f"resample is {resample!r}; preprocess has only Pillow's filters 0, 2, 3 and 4"
        )
    mean, std = RAW_PIXELS.mean, RAW_PIXELS.std
    if content.get("do_normalize", True):
        mean, std = (_read_numbers(content[name]) for name in ("image_mean", "image_std"))
        if content.get("include_top") is True:  # EfficientNet's divides twice
            std = tuple(value * value for value in std)
    if rescales and content.get("rescale_offset") is True:
        mean = tuple(value + 1 for value in mean)
    scale = float(content.get("rescale_factor", 1 / 255)) if rescales else 1.0
    values = {"interpolation": _FILTERS[resample], "antialias": "true"}
    if content.get("do_flip_channel_order") is True:
        values["color"] = "bgr"
    return values | Normalization(mean, std, scale).parameters()


def _read_timm(content: Mapping[str, Any], size: tuple[int, int]) -> dict[str, str]:
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
    mean, std = (_read_numbers(content[name]) for name in ("mean", "std"))
    statistics = Normalization(mean, std).parameters()
    del statistics["scale"]  # which is the preset's
    return {**fit, "interpolation": str(interpolation), **statistics}


def _read_numbers(given: Any) -> tuple[float, ...]:
    """Return three numbers, of one or of a list."""
    numbers = [float(value) for value in (given if isinstance(given, list) else [given])]
    return tuple(numbers if len(numbers) > 1 else numbers * 3)
