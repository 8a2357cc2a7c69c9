"""Parameters as text, the form in which the core reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

Parameters = list[tuple[str, str]]


@dataclass(frozen=True)
class Parameter:
    """One row of a parameter table; all as text, as config.pbtxt takes it."""

    name: str
    meaning: str
    allowed: str
    value: str


def to_text(value: object) -> str:
    """Write one parameter value: numbers, booleans, names, and sequences of them."""
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, np.ndarray):
        return to_text(value.tolist())
    if isinstance(value, Iterable):
        return ",".join(to_text(part) for part in value)
    if isinstance(value, float):
        return repr(float(value))
    return str(value)


def to_parameters(fields: Mapping[str, object]) -> Parameters:
    """Write keyword arguments; those that are None are left to the preset or the default."""
    return [(name, to_text(value)) for name, value in fields.items() if value is not None]
