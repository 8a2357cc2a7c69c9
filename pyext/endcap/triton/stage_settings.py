"""Settings of a stage, read from config.pbtxt; its parameters as arguments of DALI's operators."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from endcap import _core
from endcap.errors import InvalidArgumentError, UnsupportedError
from endcap.parameters import Parameters
from endcap.triton.labels import Labels
from endcap.triton.parameters import parse_count, read_parameters
from endcap.triton.tensor_contract import (
    TensorContract,
    class_paths_contract,
    contracts_of,
    preprocess_contract,
)

Argument = bool | int | float | str | list[int | float]

# The names in nvidia.dali.types.
DALI_TYPES = {"float32": "FLOAT", "float16": "FLOAT16", "uint8": "UINT8", "int8": "INT8"}

_WHOLE = re.compile(r"-?[0-9]+")


@dataclass(frozen=True)
class StageSettings:
    """One model's settings, read and checked.

    Attributes:
        parameters: the core's, as text.
        threads: images worked on at the same time; 0 stands for all CPUs.
        contracts: what the tensors of `input` and `output` may be.
        batched: whether tensors have a batch dimension.
        with_rois: of preprocess: whether the model takes regions of one image.
        labels: of a classifier.
        max_batch_size: the largest batch; 0 without a batch dimension.
    """

    parameters: Parameters
    threads: int
    contracts: Mapping[str, list[TensorContract]]
    batched: bool
    with_rois: bool = False
    labels: Labels = field(default_factory=Labels)
    max_batch_size: int = 0


def preprocess_settings(config: Mapping[str, Any]) -> StageSettings:
    """Read the config of a preprocess model, given in JSON's terms.

    Raises:
        InvalidArgumentError: a parameter that does not exist or cannot be.
        UnsupportedError: what this build cannot do.
    """
    names = [row[0] for row in _core.Preprocessor([], 1).parameters]
    given = read_parameters(config, ["threads", "preset", *names])
    threads = parse_count("threads", given.pop("threads", "0"))
    core = _core.Preprocessor([*given.items()], 1)
    largest = int(config.get("max_batch_size", 0))
    with_rois = any(each.get("name") == "rois" for each in config.get("input", []))
    if with_rois and largest > 0:
        raise InvalidArgumentError(
            f"max_batch_size is {largest} in a config with input 'rois': images have different "
            "numbers of regions, so their tensors have no shape in common; give max_batch_size: 0"
        )
    contracts = contracts_of(core, with_rois=with_rois)
    return StageSettings(
        [*given.items()], threads, contracts, largest > 0, with_rois, max_batch_size=largest
    )


def preprocess_dali_settings(config: Mapping[str, Any]) -> StageSettings:
    """Read the config of a preprocess model with a DALI pipeline, given in JSON's terms.

    Raises:
        InvalidArgumentError: a parameter that does not exist or cannot be.
        UnsupportedError: regions, and what this build cannot do.
    """
    settings = preprocess_settings(config)
    if settings.with_rois:
        raise UnsupportedError(
            "the config has an input 'rois', and this model takes whole images: cut regions out "
            "by preprocess_rois or preprocess_python"
        )
    return settings


def postprocess_settings(config: Mapping[str, Any], folder: Path | None) -> StageSettings:
    """Read the config of a postprocess model, given in JSON's terms.

    Args:
        config: what config.pbtxt says.
        folder: the model's, where `labels_file` lies; None leaves that file unread.

    Raises:
        InvalidArgumentError: a parameter that does not exist or cannot be, or a file of labels that
            does not fit.
    """
    names = [row[0] for row in _core.Postprocessor([], 1).parameters]
    given = read_parameters(config, ["threads", "labels_file", "labels_separator", *names])
    threads = parse_count("threads", given.pop("threads", "0"))
    file, separator = given.pop("labels_file", None), given.pop("labels_separator", None)
    if "head" not in given:
        raise InvalidArgumentError(
            "parameter 'head' is missing: name the family of the model's head, for example yolov8"
        )
    core = _core.Postprocessor([*given.items()], 1)
    labels = _read_labels(file, separator, folder, core)
    contracts = contracts_of(core)
    if labels.hierarchical:
        contracts["output"].append(class_paths_contract(core))
    batched = int(config.get("max_batch_size", 0)) > 0
    return StageSettings([*given.items()], threads, contracts, batched, labels=labels)


def _read_labels(
    file: str | None, separator: str | None, folder: Path | None, core: _core.Postprocessor
) -> Labels:
    if file is None:
        if separator is not None:
            raise InvalidArgumentError(
                "labels_separator was given without labels_file: give the file whose lines it "
                "separates, or leave it out"
            )
        return Labels()
    values = {name: value for name, _, _, value in core.parameters}
    if values["head"] != "classification":
        raise InvalidArgumentError(
            f"labels_file was given with head={values['head']}: it is for head=classification only"
        )
    if separator == "":
        raise InvalidArgumentError(
            "labels_separator is empty: give the text between the parts of a line, for example "
            "/, or leave it out"
        )
    if folder is None:
        return Labels(hierarchical=separator is not None)
    return Labels.read(folder / file, int(values["num_classes"]), separator)


def dali_arguments(parameters: Mapping[str, str]) -> dict[str, Argument]:
    """Return the arguments by name, `preset` among them; `dtype` by its name in nvidia.dali.types.

    Raises InvalidArgumentError or UnsupportedError for parameters that cannot be.

    Args:
        parameters: As config.pbtxt has them, only those that are to be given.
    """
    # The core's own spelling of each value: `640` becomes `640,640`.
    values = {**preprocess_contract(parameters).parameters, "preset": parameters.get("preset", "")}
    return {name: _argument(name, values[name]) for name in parameters}


def _argument(name: str, text: str) -> Argument:
    if name == "dtype":
        return DALI_TYPES[text]
    if text in ("true", "false"):
        return text == "true"
    try:
        numbers = [_number(part) for part in text.split(",")]
    except ValueError:
        return text
    return numbers if len(numbers) > 1 else numbers[0]


def _number(text: str) -> int | float:
    return int(text) if _WHOLE.fullmatch(text) else float(text)
