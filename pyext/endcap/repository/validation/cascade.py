"""A cascade of backend endcap_bls: its parameters, and the models that it calls."""

from __future__ import annotations

import re
from collections.abc import Iterator

from endcap.errors import InvalidArgumentError
from endcap.repository.validation.finding import Finding
from endcap.repository.validation.model import Model
from endcap.repository.validation.steps import Known
from endcap.triton.cascade_settings import CascadeSettings, models_called, read_cascade_settings
from endcap.triton.parameters import parse_count

BLS = "endcap_bls"
_MAX_IN_FLIGHT = "max_in_flight"  # which a cascade in Python does not have


def check_cascade(model: Model, known: Known) -> Iterator[Finding]:
    """What the backend would refuse, and models that are not there."""
    try:
        settings = _read(model)
    except InvalidArgumentError as error:
        problem, *remedy = re.split("[:;] ", str(error), maxsplit=1)
        yield model.error(_line_of(model, problem), problem, *(remedy or ["leave it out"]))
        return
    for parameter, name in models_called(settings):
        if name not in known.folders:
            yield model.warning(
                model.parameter_line(parameter),
                f"{parameter} names model {name}, which is not in this repository",
                "add it, or correct the name; requests that need it fail without it",
            )


def _read(model: Model) -> CascadeSettings:
    given = dict(model.parameters)
    if parse_count(_MAX_IN_FLIGHT, given.pop(_MAX_IN_FLIGHT, "1")) == 0:
        raise InvalidArgumentError(f"{_MAX_IN_FLIGHT} is 0; give 1 or more")
    values = {name: {"string_value": value} for name, value in given.items()}
    return read_cascade_settings({"name": model.name, "parameters": values})


def _line_of(model: Model, problem: str) -> int:
    for name in model.parameters:
        if problem.startswith((f"{name} ", f"'{name}' ")):
            return model.parameter_line(name)
    return model.lines.line_of("parameters")
