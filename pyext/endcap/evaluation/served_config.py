"""Ensembles of a model repository, and the reference settings that their parameters mean."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import endcap
from endcap.errors import UnsupportedError
from endcap.evaluation.errors import EvaluationError
from endcap.evaluation.reference_settings import (
    Activation,
    Background,
    BoxFormat,
    Color,
    Fit,
    HeadName,
    ReferenceSettings,
)
from endcap.triton.model_config import CONFIG_NAME, read_model_config

PREPROCESS_BACKEND = "endcap_preprocess"
POSTPROCESS_BACKEND = "endcap_postprocess"

_SIDE_INPUTS = ("geometry", "status")  # of postprocess; its others are the network's heads
_DEFAULT_FILE = "model.onnx"


@dataclass(frozen=True)
class Step:
    """One step: where its model lies, and the ensemble's names of its tensors by its own."""

    folder: Path
    version: int  # -1 is the newest
    config: Any  # inference.ModelConfig; an empty one where the folder has none
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]


@dataclass(frozen=True)
class ServedEnsemble:
    """An ensemble of a repository."""

    name: str
    steps: tuple[Step, ...]

    def steps_in(self, backend: str) -> list[Step]:
        """Return the steps whose models run in a backend."""
        return [step for step in self.steps if step.config.backend == backend]


@dataclass(frozen=True)
class ServedNetwork:
    """The step between preprocess and postprocess.

    Attributes:
        outputs: The network's names of its outputs, by those of postprocess' inputs, such as
            `head`.
    """

    step: Step
    outputs: Mapping[str, str]

    def find_file(self) -> Path:
        """Return the ONNX file that the step serves. Raises EvaluationError when it has none."""
        folder, wanted = self.step.folder, self.step.version
        versions = sorted(
            (int(path.name), path)
            for path in folder.glob("*")
            if path.is_dir() and path.name.isdecimal() and wanted in (-1, int(path.name))
        )
        given = self.step.config.default_model_filename
        name = given if given.endswith(".onnx") else _DEFAULT_FILE
        if not versions or not (versions[-1][1] / name).is_file():
            place = versions[-1][1] if versions else folder
            raise EvaluationError(
                f"{place} has no {name}, and the comparison runs the network as an ONNX file; "
                "give it with --network FILE.onnx"
            )
        return versions[-1][1] / name


def read_ensemble(repository: Path, model: str) -> ServedEnsemble:
    """Return an ensemble's steps. Raises ServerError for a configuration that cannot be read."""
    config = read_model_config(repository / model)
    return ServedEnsemble(
        model,
        tuple(
            Step(
                repository / step.model_name,
                step.model_version or -1,
                _config(repository / step.model_name, type(config)),
                dict(step.input_map),
                dict(step.output_map),
            )
            for step in config.ensemble_scheduling.step
        ),
    )


def _config(folder: Path, empty: type[Any]) -> Any:
    return read_model_config(folder) if (folder / CONFIG_NAME).is_file() else empty()


def find_network(ensemble: ServedEnsemble) -> ServedNetwork:
    """Return the one step that makes the heads that postprocess reads from what preprocess gives.

    Raises:
        UnsupportedError: The ensemble has other steps between the two, or not both.
    """
    before, after = (
        ensemble.steps_in(backend) for backend in (PREPROCESS_BACKEND, POSTPROCESS_BACKEND)
    )
    if len(before) == len(after) == 1:
        images = before[0].outputs.get("images")
        heads = {name: of for name, of in after[0].inputs.items() if name not in _SIDE_INPUTS}
        for step in ensemble.steps:
            own = {of: name for name, of in step.outputs.items()}
            if images in step.inputs.values() and heads and own.keys() >= set(heads.values()):
                return ServedNetwork(step, {name: own[of] for name, of in heads.items()})
    raise UnsupportedError(
        f"{ensemble.name} is not made of one step in {PREPROCESS_BACKEND}, one network that takes "
        f"its images, and one step in {POSTPROCESS_BACKEND} that takes the network's outputs; the "
        "comparison imitates only such an ensemble"
    )


# Read by the backends themselves; they change no result.
_OF_BACKENDS = ("threads", "labels_file", "labels_separator")
_ADVICE = "compare with a pipeline of your own, whose results `endcap evaluate --predictions` takes"


def read_settings(repository: Path, model: str) -> ReferenceSettings:
    """Return the settings that do in the reference what the ensemble `model` does.

    Raises UnsupportedError, naming the parameter, for what the reference cannot do, and ServerError
    for a configuration that cannot be read.
    """
    ensemble = read_ensemble(repository, model)
    place = f"in the steps of {model}"
    after = endcap.Postprocessor(**_parameters(ensemble, POSTPROCESS_BACKEND)).parameters
    _check_head(after["head"], place)
    before = endcap.Preprocessor(**_parameters(ensemble, PREPROCESS_BACKEND)).parameters
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


def _parameters(ensemble: ServedEnsemble, backend: str) -> dict[str, Any]:
    steps = ensemble.steps_in(backend)
    if len(steps) != 1:
        raise UnsupportedError(
            f"{ensemble.name} has {len(steps)} steps in backend {backend}, and the reference "
            f"imitates exactly one; {_ADVICE}"
        )
    given = {name: value.string_value for name, value in steps[0].config.parameters.items()}
    return {name: value for name, value in given.items() if name not in _OF_BACKENDS}


def _sides(text: str) -> tuple[int, int]:
    height, width = (int(side) for side in text.split(","))
    return height, width


def _channels(text: str) -> tuple[float, ...]:
    values = tuple(float(value) for value in text.split(","))
    return values * 3 if len(values) == 1 else values
