"""The reference settings that the parameters of an ensemble's steps mean."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import endcap
from endcap.errors import UnsupportedError
from endcap.evaluation.reference_settings import (
    Activation,
    Background,
    BoxFormat,
    Color,
    Fit,
    HeadName,
    ReferenceSettings,
)
from endcap.triton.ensemble import (
    POSTPROCESS_BACKEND,
    PREPROCESS_BACKEND,
    read_ensemble,
    stage_parameters,
)

_ADVICE = "compare with a pipeline of your own, whose results `endcap evaluate --predictions` takes"


def read_settings(repository: Path, model: str) -> ReferenceSettings:
    """Return the settings that do in the reference what the ensemble `model` does.

    Raises UnsupportedError, naming the parameter, for what the reference cannot do, and ServerError
    for a configuration that cannot be read.
    """
    ensemble = read_ensemble(repository, model)
    place = f"in the steps of {model}"
    after = endcap.Postprocessor(**stage_parameters(ensemble, POSTPROCESS_BACKEND)).parameters
    _check_head(after["head"], place)
    before = endcap.Preprocessor(**stage_parameters(ensemble, PREPROCESS_BACKEND)).parameters
    settings = ReferenceSettings(
        size=_sides(before["size"]),
        head=HeadName(after["head"]),
        num_classes=int(after["num_classes"]),
        score_threshold=float(after["score_threshold"]),
        iou_threshold=float(after["iou_threshold"]),
        max_candidates=int(after["max_candidates"]),
        max_detections=int(after["max_detections"]),
        multi_label=after["multi_label"] == "true",
        class_agnostic=after["class_agnostic"] == "true",
        box_format=BoxFormat(after["box_format"]),
        box_side=_box_side(after),
        activation=Activation(after["activation"]),
        top_k=int(after["top_k"]) if after["head"] == HeadName.classification.value else None,
        joined=after["joined"] == "true",
        background=Background(after["background"]),
    )
    return _with_images_as(settings, before, place)


def with_preset(settings: ReferenceSettings, preset: str) -> ReferenceSettings:
    """Return settings that prepare images as a preset does, at the size that is set.

    Raises:
        InvalidArgumentError: For a name that no preset has, or a size that the preset cannot make.
        UnsupportedError: For a preset that the reference cannot imitate.
    """
    recipe = endcap.Preprocessor(preset, size=settings.size, threads=1).parameters
    return _with_images_as(settings, recipe, f"in preset {preset}")


def _with_images_as(
    settings: ReferenceSettings, parameters: Mapping[str, str], place: str
) -> ReferenceSettings:
    _check_supported(parameters, place)
    return dataclasses.replace(
        settings,
        fit=Fit(parameters["fit"]),
        resize_shorter=int(parameters["resize_shorter"]),
        antialias=parameters["antialias"] == "true",
        quantized=parameters["quantize"] == "uint8",
        pad_value=int(parameters["pad_value"]),
        pad_centered=parameters["pad_align"] == "center",
        upscale=parameters["upscale"] == "true",
        color=Color(parameters["color"]),
        channels_last=parameters["layout"] == "nhwc",
        scale=float(parameters["scale"]),
        mean=_channels(parameters["mean"]),
        std=_channels(parameters["std"]),
        apply_exif=parameters["exif"] == "apply",
    )


def _check_head(head: str, place: str) -> None:
    known = [name.value for name in HeadName]
    if head not in known:
        raise UnsupportedError(
            f"head is {head} {place}, and the reference reads only {', '.join(known)}; {_ADVICE}"
        )


def _box_side(parameters: Mapping[str, str]) -> tuple[int, int] | None:
    unit = parameters["box_unit"]
    if parameters["head"] != HeadName.rtdetr.value:
        return _sides(parameters["input_size"]) if unit == "normalized" else None
    return (1, 1) if unit == "pixel" else _sides(parameters["input_size"])


def _check_supported(parameters: Mapping[str, str], place: str) -> None:
    interpolation = parameters["interpolation"]
    if interpolation != "bilinear":
        raise UnsupportedError(
            f"interpolation is {interpolation} {place}, and the reference knows only bilinear; "
            f"{_ADVICE}"
        )
    if parameters["antialias"] == "true" and parameters["quantize"] != "uint8":
        raise UnsupportedError(
            f"quantize is {parameters['quantize']} and antialias true {place}, and the reference "
            f"knows antialias only with quantize uint8; {_ADVICE}"
        )


def _sides(text: str) -> tuple[int, int]:
    height, width = (int(side) for side in text.split(","))
    return height, width


def _channels(text: str) -> tuple[float, ...]:
    values = tuple(float(value) for value in text.split(","))
    return values * 3 if len(values) == 1 else values
