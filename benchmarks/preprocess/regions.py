"""Regions of one picture, for a second network: what they cost beside decoding it once.

A hundred seeded regions of 60 to 400 pixels a side, scattered over the picture and stretched to
112x112 float32, and one of 200x200 near the upper edge. One thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import endcap
from benchmarks.images import Photograph
from benchmarks.preprocess import bare_decode
from benchmarks.preprocess.entries import EQUAL_SHARE, MOST_STEPS, load_floor, ready_floor
from benchmarks.timing import Budget, Case, Ready, Row, comparison, load, one_cpu

TARGET = 112
COUNT = 100
_SIDES = (60, 400)
_TOP = (200, 100)  # side and upper edge of the one region, pixels
_SCALE = np.float32(1 / 255)

Regions = npt.NDArray[np.int64]
Tensors = npt.NDArray[np.float32]
Cut = Callable[[bytes, Regions, Tensors], object]


def run(image: Photograph, budget: Budget) -> dict[str, Row]:
    """Verify and times each way; ratios are to the bare decode of the whole picture."""
    encoded = image.encoded
    regions = scattered(image.width, image.height)
    side, top = _TOP
    left = (image.width - side) // 2
    near_top = np.array([[left, top, left + side, top + side]])
    with one_cpu():
        ours = endcap_cut()
        expected = _tensors(decode_and_cut(), encoded, regions)
        entries: dict[str, Ready | Row] = {
            bare_decode.NAME: ready_floor(load_floor(), encoded),
            f"endcap, {COUNT} regions": _judged(ours, encoded, regions, expected),
            "endcap, 1 region near the top": _judged(
                ours, encoded, near_top, _tensors(decode_and_cut(), encoded, near_top)
            ),
            f"endcap, decode and cut {COUNT}": _judged(
                decode_and_cut(), encoded, regions, expected
            ),
        }
        opencv = load(opencv_cut)
        entries[f"OpenCV, decode and cut {COUNT}"] = (
            opencv if isinstance(opencv, Row) else _judged(opencv, encoded, regions, expected)
        )
        return comparison(entries, bare_decode.NAME, budget)


def scattered(width: int, height: int) -> Regions:
    """COUNT regions [x1, y1, x2, y2] of whole pixels inside a picture, the same ones each time."""
    random = np.random.default_rng(7)
    sizes = random.integers(*_SIDES, (COUNT, 2), endpoint=True)
    sizes = np.minimum(sizes, (width, height))
    corners = (random.uniform(0, 1, (COUNT, 2)) * ((width, height) - sizes)).astype(np.int64)
    return np.concatenate([corners, corners + sizes], axis=1)


def endcap_cut() -> Cut:
    """All regions by one call."""
    preprocess = endcap.Preprocessor(size=TARGET, fit="stretch", threads=1)

    def cut(encoded: bytes, regions: Regions, out: Tensors) -> None:
        preprocess(encoded, rois=regions, out=out)

    return cut


def decode_and_cut() -> Cut:
    """Decode, slice and preprocess the slices: the code without `rois`, and the definition."""
    preprocess = endcap.Preprocessor(size=TARGET, fit="stretch", threads=1)

    def cut(encoded: bytes, regions: Regions, out: Tensors) -> None:
        picture = endcap.decode(encoded)
        preprocess([picture[y1:y2, x1:x2] for x1, y1, x2, y2 in regions.tolist()], out=out)

    return cut


def opencv_cut() -> Cut:
    """imdecode, then for each region resize, split and one multiplication a plane."""
    import cv2

    cv2.setNumThreads(1)

    def cut(encoded: bytes, regions: Regions, out: Tensors) -> None:
        picture = cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_COLOR)
        for (x1, y1, x2, y2), tensor in zip(regions.tolist(), out, strict=True):
            resized = cv2.resize(picture[y1:y2, x1:x2], (TARGET, TARGET))
            for plane, to in zip(cv2.split(resized), tensor[::-1], strict=True):
                np.multiply(plane, _SCALE, out=to, dtype=np.float32)

    return cut


def _judged(cut: Cut, encoded: bytes, regions: Regions, expected: Tensors) -> Ready | Row:
    tensors = _tensors(cut, encoded, regions)
    steps = np.abs(np.rint((tensors - expected) * 255))
    differing = int(np.count_nonzero(steps))
    text = "equal" if differing == 0 else f"{100 * differing / steps.size:.3g} % differ"
    if steps.max() > MOST_STEPS or differing > (1 - EQUAL_SHARE) * steps.size:
        return Row("not verified", text)

    def again(_: Any) -> None:
        cut(encoded, regions, tensors)

    return Ready(Case(run=again), text)


def _tensors(cut: Cut, encoded: bytes, regions: Regions) -> Tensors:
    out = np.full((len(regions), 3, TARGET, TARGET), np.nan, np.float32)
    cut(encoded, regions, out)
    if not np.isfinite(out).all():
        raise ValueError("a way of cutting left a value unwritten")
    return out
