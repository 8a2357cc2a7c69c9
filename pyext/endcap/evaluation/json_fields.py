"""Reads files of JSON, and fields of their rows with a message for each that is wrong."""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from endcap.errors import InvalidArgumentError

Row = Mapping[str, Any]


def read_json(path: Path, source: str) -> Any:
    """Return what a file of JSON holds, in UTF-8 or UTF-16 with or without a byte order mark.

    Args:
        source: The file in messages, in the plural. Raises InvalidArgumentError.
    """
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise InvalidArgumentError(f"{source} cannot be read: {error.strerror}") from error
    except ValueError as error:  # wrong bytes, no JSON, a number of thousands of digits
        raise InvalidArgumentError(f"{source} are not JSON: {error}") from error
    except RecursionError as error:
        raise InvalidArgumentError(f"{source} are nested too deep to be COCO's format") from error


def rows_of(rows: list[Any], name: str) -> Iterable[tuple[str, Row]]:
    """Yield where each row stands, for messages, and the row; InvalidArgumentError for others."""
    for position, row in enumerate(rows):
        where = f"{name}[{position}]"
        if not isinstance(row, dict):
            raise InvalidArgumentError(f"{where} is no object in braces")
        yield where, row


def read_integer(row: Row, key: str, where: str) -> int:
    """Return a whole number of 64 bits, which may be written as 1.0; InvalidArgumentError."""
    value = row.get(key)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
        raise InvalidArgumentError(
            f"{where} has {key} {reprlib.repr(value)}; a whole number of at most 64 bits is "
            "expected"
        )
    return value


def read_text(row: Row, key: str, where: str) -> str:
    """Return a text that is not empty; InvalidArgumentError."""
    value = row.get(key)
    if not isinstance(value, str) or not value:
        raise InvalidArgumentError(f"{where} has {key} {reprlib.repr(value)}; a text is expected")
    return value


def read_number(row: Row, key: str, where: str) -> float:
    """Return a finite number; InvalidArgumentError."""
    number = _finite(row.get(key))
    if number is None:
        raise InvalidArgumentError(
            f"{where} has {key} {reprlib.repr(row.get(key))}; a finite number is expected"
        )
    return number


def read_bbox(row: Row, where: str) -> tuple[float, float, float, float]:
    """Return x, y, width, height of an annotation or a result; InvalidArgumentError."""
    box = row.get("bbox")
    sides = [_finite(side) for side in box] if isinstance(box, list) else []
    match sides:
        case [float(x), float(y), float(width), float(height)] if width >= 0 and height >= 0:
            return x, y, width, height
    raise InvalidArgumentError(
        f"{where} has bbox {reprlib.repr(box)}; x, y, width, height are expected, with no negative "
        "side"
    )


def _finite(value: Any) -> float | None:
    """A number as float; None for what is none, or too large for one."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
