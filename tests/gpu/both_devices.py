"""Heads on the CPU and on a GPU: the same detections, bit for bit."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

import endcap

GEOMETRY = np.array([[0.5, 0.5, 16.0, 8.0, 1200.0, 1000.0, 1.0, 0.0]], np.float32)
_ON_HOST = ("truncated", "dropped", "rle", "has_source_masks")


def assert_same(actual: Any, expected: Any) -> None:
    """Compare detections, or classifications, on a GPU with the CPU's."""
    copied = actual.to_numpy()
    assert type(copied) is type(expected)
    for name in (field.name for field in fields(actual)):
        if name == "rle":  # lists of different lengths
            assert copied.rle == expected.rle
        else:
            np.testing.assert_array_equal(getattr(copied, name), getattr(expected, name), name)
        if name not in _ON_HOST and getattr(expected, name) is not None:
            assert isinstance(getattr(actual, name), endcap.CudaArray)


def both(tensors: Any, geometry: Any = None, **options: Any) -> endcap.Detections:
    """Run heads on both and compare; return the CPU's."""
    expected = endcap.Postprocessor(**options)(tensors, geometry)
    assert_same(endcap.Postprocessor(**options, device="cuda")(tensors, geometry), expected)
    return expected
