"""Logits to class maps: endcap's Postprocessor next to OpenCV's resize and NumPy's argmax.

The logits are smooth, always the same: noise of a coarse grid, enlarged.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

import endcap
from benchmarks.cpu.heads import add_row
from benchmarks.results import Table
from benchmarks.timing import Budget, Case, Entry, load, one_cpu

CLASSES = 19  # of Cityscapes
SIZE = (1024, 2048)
STRIDES = (4, 8)
_SHARE = 0.9999  # of equal pixels

Floats = npt.NDArray[np.float32]


def make_logits(stride: int) -> Floats:
    """Return logits [19, height, width] of a network of that stride."""
    cv2 = import_module("cv2")
    noise = np.random.default_rng(0).normal(0, 3, (CLASSES, 16, 32)).astype(np.float32)
    size = SIZE[1] // stride, SIZE[0] // stride
    return np.stack([cv2.resize(each, size, interpolation=cv2.INTER_CUBIC) for each in noise])


def opencv(logits: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Return the class of each pixel of an image of SIZE."""
    cv2 = import_module("cv2")
    floats = logits.astype(np.float32, copy=False)
    resized = [cv2.resize(each, SIZE[::-1], interpolation=cv2.INTER_LINEAR) for each in floats]
    ids: npt.NDArray[np.uint8] = np.stack(resized).argmax(axis=0).astype(np.uint8)
    return ids


def entries(logits: npt.NDArray[Any]) -> dict[str, Entry]:
    """Return both, the second one compared with endcap."""
    segment = endcap.Postprocessor("semantic", CLASSES, input_size=SIZE, threads=1)
    maps: Any = segment(logits)

    def verified() -> Entry:
        import_module("cv2").setNumThreads(1)
        share = float((opencv(logits) == maps[0].class_map).mean())
        if share < _SHARE:
            return f"not verified: {1 - share:.2%} of the pixels differ"
        return Case(lambda: opencv(logits), f"{1 - share:.4%} of the pixels differ")

    return {"endcap": Case(lambda: segment(logits)), "OpenCV and NumPy": load(verified)}


def run(budget: Budget, say: Callable[[str], None]) -> Table:
    """Verify and time, on one CPU."""
    table = Table("Logits to class maps of 1024x2048", "ms", ["endcap", "OpenCV and NumPy"])
    with one_cpu():
        for stride in STRIDES:
            logits = make_logits(stride)
            name = f"{CLASSES} classes, stride {stride}"
            add_row(table, name, entries(logits), budget)
            half = logits.astype(np.float16)
            add_row(table, f"{name}, float16", entries(half), budget)
        say("class maps")
    return table
