"""Heads on the CPU and on a GPU: the same detections, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np

import endcap

GEOMETRY = np.array([[0.5, 0.5, 16.0, 8.0, 1200.0, 1000.0, 1.0, 0.0]], np.float32)
_ARRAYS = (
    *("num_detections", "boxes", "scores", "class_ids", "indices", "status", "truncated"),
    *("keypoints", "angles", "mask_size", "packed_masks"),
)


def assert_same(actual: endcap.Detections, expected: endcap.Detections) -> None:
    copied = actual.to_numpy()
    for field in _ARRAYS:
        np.testing.assert_array_equal(getattr(copied, field), getattr(expected, field), field)
    assert copied.rle == expected.rle
    assert copied.has_source_masks == expected.has_source_masks


def both(tensors: Any, geometry: Any = None, **options: Any) -> endcap.Detections:
    """Runs heads on both and compares; returns the CPU's."""
    expected = endcap.Postprocessor(**options)(tensors, geometry)
    assert_same(endcap.Postprocessor(**options, device="cuda")(tensors, geometry), expected)
    return expected
