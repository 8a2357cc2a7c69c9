"""Settings of a stage, read from config.pbtxt; its parameters as arguments of DALI's operators."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import endcap._core as _core
from endcap.errors import InvalidArgumentError, UnsupportedError
from endcap.triton.ensemble import POSTPROCESS_BACKEND, PREPROCESS_BACKEND
from endcap.triton.labels import Labels
from endcap.triton.model_contract import (
    complete_config,
    model_contract,
    postprocess_contract,
    preprocess_contract,
)
from endcap.triton.parameters import read_parameters

Argument = bool | int | float | str | list[int | float]

# The names in nvidia.dali.types.
DALI_TYPES = {"float32": "FLOAT", "float16": "FLOAT16", "uint8": "UINT8", "int8": "INT8"}

_WHOLE = re.compile(r"-?[0-9]+")


@dataclass(frozen=True)
class StageSettings:
    """One model's settings, read and checked.

    Attributes:
        backend: whose parameters it has, endcap_preprocess or endcap_postprocess.
        given: all of them, as text.
        parameters: the core's.
        threads: images worked on at the same time; 0 stands for all CPUs.
        labels: of a classifier.
        max_batch_size: the largest batch; 0 where tensors have no batch dimension.
    """

    backend: str
    given: Mapping[str, str]
    parameters: _core.Parameters
    threads: int
    labels: Labels = field(default_factory=Labels)
    max_batch_size: int = 0

    @property
    def batched(self) -> bool:
        """Whether tensors have a batch dimension."""
        return self.max_batch_size > 0


def _read_settings(backend: str, config: Mapping[str, Any]) -> StageSettings:
    given = read_parameters(config)
    contract = model_contract(backend, given, in_python=True)
    return StageSettings(
        backend,
        given,
        [(name, given[name]) for name in ("preset", *contract.parameters) if name in given],
        int(given.get("threads", 0)),
        max_batch_size=int(config.get("max_batch_size", 0)),
    )


def preprocess_settings(config: Mapping[str, Any]) -> StageSettings:
    """Read the config of a preprocess model, given in JSON's terms.

    Raises:
        InvalidArgumentError: a parameter that does not exist or cannot be.
        UnsupportedError: regions.
    """
    if any(each.get("name") == "rois" for each in config.get("input", [])):
        raise UnsupportedError(
            "the config has an input 'rois', and Python models take whole images: cut regions out "
            f"by a model in the backend {PREPROCESS_BACKEND}, such as preprocess_rois"
        )
    return _read_settings(PREPROCESS_BACKEND, config)


def postprocess_settings(config: Mapping[str, Any], folder: Path) -> StageSettings:
    """Read the config of a postprocess model, given in JSON's terms.

    Args:
        config: what config.pbtxt says.
        folder: the model's, where `labels_file` lies.

    Raises:
        InvalidArgumentError: a parameter that does not exist or cannot be, or a file of labels that
            does not fit.
    """
    settings = _read_settings(POSTPROCESS_BACKEND, config)
    return replace(settings, labels=read_class_names(settings.given, folder))


def read_class_names(parameters: Mapping[str, str], folder: Path) -> Labels:
    """Return the labels of a classifier's `labels_file`, none where it names none.

    Raises:
        InvalidArgumentError: the file cannot be read, or does not fit the parameters.
    """
    file = parameters.get("labels_file")
    if file is None:
        return Labels()
    values = postprocess_contract(parameters).parameters
    count, separator = int(values["num_classes"]), parameters.get("labels_separator")
    return Labels.read(folder / file, count, separator)


def complete_tensors(config: dict[str, Any], settings: StageSettings, *, complete: bool) -> None:
    """Hold the inputs and outputs of a config, in JSON's terms, to the parameters.

    Args:
        config: changed where ``complete`` is set.
        settings: of the model.
        complete: whether to fill in what is left out: whole lists, types, dims that are -1.

    Raises:
        InvalidArgumentError: what contradicts the parameters, as the compiled backend says it.
    """
    done, problems = complete_config(settings.backend, settings.given, config, complete=complete)
    if problems:
        raise InvalidArgumentError(problems[0].message)
    config.update(input=done["input"], output=done["output"])


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
