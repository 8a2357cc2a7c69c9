"""Parameters of a cascade: a detector, and classifiers of what it finds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from endcap.errors import InvalidArgumentError
from endcap.python_backend.parameters import parse_count, read_parameters
from endcap.python_backend.routes import Routes, parse_routes

# Of the detections, for clients: the model itself does not read it.
_FOR_CLIENTS = "labels"


@dataclass(frozen=True, kw_only=True)
class CascadeSettings:
    """What the parameters have become.

    Args:
        detect_model: the model with the input ``encoded`` and detections as its outputs.
        classifiers: where each class of detections goes.
        classify_threshold: detections of a greater score are classified, 0 to 1.
        classify_batch_size: the most crops in one request to a classifier.
    """

    detect_model: str = "detect"
    classifiers: Routes
    classify_threshold: float = 0.25
    classify_batch_size: int = 16


def read_cascade_settings(model_config: Mapping[str, Any]) -> CascadeSettings:
    """Read the parameters of a config.pbtxt.

    Raises:
        InvalidArgumentError: a parameter that is not known, or that cannot be what it is, as the
            model's own name among the models that it calls.
    """
    known = [field.name for field in fields(CascadeSettings)]
    given = read_parameters(model_config, [*known, _FOR_CLIENTS])
    values: dict[str, Any] = {"classifiers": parse_routes(given.get("classifiers", ""))}
    if "detect_model" in given:
        values["detect_model"] = _model_name("detect_model", given["detect_model"])
    if "classify_threshold" in given:
        values["classify_threshold"] = _share("classify_threshold", given["classify_threshold"])
    if "classify_batch_size" in given:
        size = parse_count("classify_batch_size", given["classify_batch_size"])
        if size == 0:
            raise InvalidArgumentError("classify_batch_size is 0; give 1 or more")
        values["classify_batch_size"] = size
    settings = CascadeSettings(**values)
    _refuse_self(settings, model_config.get("name"))
    return settings


def models_called(settings: CascadeSettings) -> list[tuple[str, str]]:
    """The parameter and the name of each model that a cascade calls."""
    routes = [*settings.classifiers.by_class.values(), settings.classifiers.rest]
    names = [name for r in routes if r is not None for name in (r.rois_model, r.classifier)]
    called = [("classifiers", name) for name in dict.fromkeys(names)]
    return [("detect_model", settings.detect_model), *called]


def _refuse_self(settings: CascadeSettings, own_name: str | None) -> None:
    for parameter, name in models_called(settings):
        if name == own_name:
            raise InvalidArgumentError(
                f"{parameter} names '{name}', which is this model; a cascade cannot call itself, "
                "name another model"
            )


def _model_name(name: str, text: str) -> str:
    if not text:
        raise InvalidArgumentError(f"{name} is empty; give the name of a model of the repository")
    return text


def _share(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise InvalidArgumentError(f"{name} is '{text}'; give a number from 0 to 1")
    return value
