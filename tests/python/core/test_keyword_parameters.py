"""Keyword parameters have names and types, which are those of the core's tables."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any

import pytest

import endcap
from endcap.parameters import HeadParameters, PostprocessParameters, PreprocessParameters

TABLES = {
    PreprocessParameters: endcap.Preprocessor().describe(),
    PostprocessParameters: endcap.Postprocessor().describe(),
}


def types_of(parameters: type) -> dict[str, Any]:
    return typing.get_type_hints(parameters)


def choices(annotation: Any) -> set[str]:
    """The texts of a Literal that may also be None."""
    parts = typing.get_args(annotation)
    literals = [part for part in parts if typing.get_origin(part) is typing.Literal]
    return {str(value) for part in literals for value in typing.get_args(part)}


@pytest.mark.parametrize("parameters", TABLES)
def test_they_are_the_tables_rows(parameters: type) -> None:
    rows = {row.name for row in TABLES[parameters]} - {"head", "num_classes"}
    assert set(types_of(parameters)) == rows
    assert set(types_of(HeadParameters)) < set(types_of(PostprocessParameters))


@pytest.mark.parametrize("parameters", TABLES)
def test_choices_are_the_tables(parameters: type) -> None:
    found = 0
    for row in TABLES[parameters]:
        if row.allowed.startswith("one of ") and row.name != "head":
            given = set(row.allowed.removeprefix("one of ").split(", "))
            assert choices(types_of(parameters)[row.name]) == given, row.name
            found += 1
    assert found >= 5


@pytest.mark.parametrize(
    ("function", "own", "parameters"),
    [
        (endcap.Preprocessor, ["preset", "device", "threads"], PreprocessParameters),
        (
            endcap.preprocess,
            ["images", "preset", "device", "rois", "out", "threads", "pixel_format", "stream"],
            PreprocessParameters,
        ),
        (
            endcap.Postprocessor,
            ["head", "num_classes", "device", "threads", "packed_masks"],
            PostprocessParameters,
        ),
        (endcap.box_decode, ["head", "family", "num_classes"], HeadParameters),
    ],
)
def test_signatures_list_them(
    function: Callable[..., Any], own: list[str], parameters: type
) -> None:
    listed = inspect.signature(function).parameters
    assert [*listed] == [*own, *types_of(parameters)]
    assert all(listed[name].default is None for name in types_of(parameters))


def test_reprs_are_short() -> None:
    assert repr(endcap.Preprocessor("ssd")) == "<Preprocessor ssd, 300x300, float32, on cpu>"
    assert repr(endcap.Postprocessor("yolov5", 3)) == "<Postprocessor yolov5, 3 classes, on cpu>"
