"""What an exporter wrote into an ONNX file's metadata.

The keys are those of Ultralytics' exporter, which others have taken over: `names` (the classes, as
a Python dict or list), `task`, `imgsz`, `head`, `kpt_shape`, `end2end`.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_MOST_DIGITS = 10  # of a class id


@dataclass(frozen=True)
class ExporterNotes:
    """The notes that could be read; None or "" where there is none.

    Attributes:
        size: Height and width.
        head: The class of the network's last module.
        keypoints: How many, and how many numbers each has.
        is_end2end: Whether suppression is inside the network.
    """

    names: tuple[str, ...] | None
    task: str
    size: tuple[int, int] | None
    head: str
    keypoints: tuple[int, int] | None
    is_end2end: bool
    is_ultralytics: bool


def read_notes(metadata: Mapping[str, str]) -> ExporterNotes:
    """Read the metadata; a note in a form that is not understood counts as none."""
    return ExporterNotes(
        names=_names(_literal(metadata.get("names", ""))),
        task=metadata.get("task", ""),
        size=_pair(_literal(metadata.get("imgsz", ""))),
        head=metadata.get("head", ""),
        keypoints=_pair(_literal(metadata.get("kpt_shape", ""))),
        is_end2end=metadata.get("end2end", "") == "True",
        is_ultralytics=metadata.get("author") == "Ultralytics"
        or {"names", "stride"} <= {*metadata},
    )


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _names(value: Any) -> tuple[str, ...] | None:
    if isinstance(value, dict) and all(isinstance(each, str) for each in value):
        keys = [key for key in value if key.isdecimal() and len(key) < _MOST_DIGITS]
        value = {int(key): value[key] for key in keys}
    if isinstance(value, dict) and set(value) == set(range(len(value))):
        value = [value[class_id] for class_id in range(len(value))]
    if not isinstance(value, (list, tuple)) or not value:
        return None
    try:
        return tuple(str(name) for name in value)
    except ValueError:  # a number of more digits than Python prints
        return None


def _pair(value: Any) -> tuple[int, int] | None:
    """Two numbers from 1 to the largest int32; one is both."""
    numbers = [value, value] if type(value) is int else value
    if not isinstance(numbers, (list, tuple)) or len(numbers) != 2:
        return None
    if not all(type(number) is int and 0 < number < 2**31 for number in numbers):
        return None
    return (numbers[0], numbers[1])
