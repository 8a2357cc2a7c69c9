"""Reads what the reference has to imitate from the repository of a served ensemble."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import endcap
from endcap.errors import UnsupportedError
from endcap.evaluation.reference_settings import HeadName, ReferenceSettings
from endcap.server.override import CONFIG_NAME, read_model_config

PREPROCESS_BACKEND = "endcap_preprocess"
POSTPROCESS_BACKEND = "endcap_postprocess"

# Read by the backends themselves; they change no result.
_OF_BACKENDS = ("threads", "labels_file")
# What the reference can do of parameters that it has no setting for.
_SUPPORTED = {
    "fit": ("letterbox", "stretch"),
    "interpolation": ("bilinear",),
    "antialias": ("false",),
    "quantize": ("uint8",),
    "color": ("rgb", "bgr"),
    "layout": ("nchw",),
    "dtype": ("float32", "float16"),
    "head": tuple(name.value for name in HeadName),
    "box_format": ("default", "cxcywh"),
    "box_unit": ("pixel",),
    "activation": ("default", "none"),
}


def read_settings(repository: Path, model: str) -> ReferenceSettings:
    """Returns the settings that do in the reference what the ensemble `model` does.

    Raises UnsupportedError, naming the parameter, for what the reference cannot do, and ServerError
    for a configuration that cannot be read.
    """
    steps = _steps(repository, model)
    place = f"in the steps of {model}"
    after = endcap.Postprocessor(**_parameters(steps, POSTPROCESS_BACKEND, model)).parameters
    _check_supported(after, place)
    before = endcap.Preprocessor(**_parameters(steps, PREPROCESS_BACKEND, model)).parameters
    height, width = (int(side) for side in before["size"].split(","))
    settings = ReferenceSettings(
        size=(height, width),
        head=HeadName(after["head"]),
        num_classes=int(after["num_classes"]),
        score_threshold=float(after["score_threshold"]),
        iou_threshold=float(after["iou_threshold"]),
        max_candidates=int(after["max_candidates"]),
        max_detections=int(after["max_detections"]),
        multi_label=after["multi_label"] == "true",
        class_agnostic=after["class_agnostic"] == "true",
    )
    return _with_images_as(settings, before, place)


def with_preset(settings: ReferenceSettings, preset: str) -> ReferenceSettings:
    """Returns settings that prepare images as a preset does, at the size that is set.

    Raises InvalidArgumentError for a name that no preset has, and UnsupportedError for a preset
    that the reference cannot imitate.
    """
    recipe = endcap.Preprocessor(preset, threads=1).parameters
    return _with_images_as(settings, recipe, f"in preset {preset}")


def _with_images_as(
    settings: ReferenceSettings, parameters: Mapping[str, str], place: str
) -> ReferenceSettings:
    _check_supported(parameters, place)
    return dataclasses.replace(
        settings,
        letterbox=parameters["fit"] == "letterbox",
        pad_value=int(parameters["pad_value"]),
        pad_centered=parameters["pad_align"] == "center",
        upscale=parameters["upscale"] == "true",
        rgb=parameters["color"] == "rgb",
        scale=float(parameters["scale"]),
        mean=_channels(parameters["mean"]),
        std=_channels(parameters["std"]),
        upright=parameters["exif"] == "apply",
    )


def _check_supported(parameters: Mapping[str, str], place: str) -> None:
    for name, value in parameters.items():
        allowed = _SUPPORTED.get(name)
        if allowed is not None and value not in allowed:
            raise UnsupportedError(
                f"{name} is {value} {place}, and the reference knows only "
                f"{' and '.join(allowed)}; run your own pipeline and give its results with "
                "--predictions"
            )


def _steps(repository: Path, model: str) -> list[Any]:
    ensemble = read_model_config(repository / model)
    names = [step.model_name for step in ensemble.ensemble_scheduling.step]
    return [
        read_model_config(repository / name)
        for name in names
        if (repository / name / CONFIG_NAME).is_file()
    ]


def _parameters(steps: list[Any], backend: str, model: str) -> dict[str, Any]:
    configs = [step for step in steps if step.backend == backend]
    if len(configs) != 1:
        raise UnsupportedError(
            f"{model} has {len(configs)} steps in backend {backend}, and the reference imitates "
            "exactly one; run your own pipeline and give its results with --predictions"
        )
    given = {name: value.string_value for name, value in configs[0].parameters.items()}
    return {name: value for name, value in given.items() if name not in _OF_BACKENDS}


def _channels(text: str) -> tuple[float, ...]:
    values = tuple(float(value) for value in text.split(","))
    return values * 3 if len(values) == 1 else values
