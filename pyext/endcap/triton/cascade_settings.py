"""Parameters of a cascade: a detector, and classifiers of what it finds."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from endcap.errors import InvalidArgumentError
from endcap.triton.parameters import parse_count, read_parameters

_FORM = "give CLASSES=ROIS_MODEL+CLASSIFIER, for example 0|3=preprocess_rois+classify"
_REST = "*"


@dataclass(frozen=True)
class Route:
    """The model that cuts a detection out of its image, and the one that classifies the crop."""

    rois_model: str
    classifier: str


@dataclass(frozen=True)
class Routes:
    """The route of each class of detections.

    Args:
        by_class: routes by class id.
        rest: the route of all other classes; None where those are not classified.
    """

    by_class: Mapping[int, Route]
    rest: Route | None = None

    def of(self, class_id: int) -> Route | None:
        """Return the route of a class; None where it is not classified."""
        return self.by_class.get(class_id, self.rest)


def parse_routes(text: str) -> Routes:
    """Read routes from text: ``5=preprocess_rois+classify_boats, *=preprocess_rois+classify``.

    Args:
        text: parts with commas between them, each CLASSES=ROIS_MODEL+CLASSIFIER. CLASSES are class
            ids with ``|`` between them, or ``*`` for all that no other part names. Empty text is no
            route at all.

    Raises:
        InvalidArgumentError: a part of another form, and a class that is named twice.
    """
    by_class: dict[int | None, Route] = {}
    for part in text.split(",") if text.strip() else []:
        classes, route = _parse_part(part.strip())
        for class_id in classes:
            if class_id in by_class:
                named = _REST if class_id is None else f"class {class_id}"
                raise InvalidArgumentError(f"classifiers names {named} twice; name it once")
            by_class[class_id] = route
    rest = by_class.pop(None, None)
    return Routes({key: route for key, route in by_class.items() if key is not None}, rest)


def _parse_part(part: str) -> tuple[list[int | None], Route]:
    sides = re.fullmatch(r"([^=]*)=\s*([^=+\s]+)\s*\+\s*([^=+\s]+)", part)
    if sides is None:
        raise InvalidArgumentError(f"classifiers has the part '{part}'; {_FORM}")
    classes = [_parse_class(name.strip(), part) for name in sides[1].split("|")]
    return classes, Route(rois_model=sides[2], classifier=sides[3])


def _parse_class(name: str, part: str) -> int | None:
    if name == _REST:
        return None
    if re.fullmatch("[0-9]+", name) is None or int(name) >= 2**31:
        raise InvalidArgumentError(
            f"classifiers has the class '{name}' in '{part}'; give class ids with | between them, "
            f"or {_REST} for the rest"
        )
    return int(name)


# Of the detections, for clients: the model itself does not read it.
_LABELS_PARAMETER = "labels"


@dataclass(frozen=True, kw_only=True)
class CascadeSettings:
    """Settings of a cascade, read from its parameters.

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
    given = read_parameters(model_config, [*known, _LABELS_PARAMETER])
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
    """Return the parameter and the name of each model that a cascade calls."""
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
