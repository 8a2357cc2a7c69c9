"""Whether a way made what endcap.preprocess makes, before anybody times it."""

from __future__ import annotations

import numpy as np

import endcap
from benchmarks.dali.runners import Arrays, Encoded
from benchmarks.dali.ways import Way
from benchmarks.preprocess import SIZE
from benchmarks.preprocess.verify import compare

_NO_PSNR_DB = -np.inf  # the bar is the way's own


class NotVerifiedError(Exception):
    """The results differ by more than the way may; the message says where."""


def expected(encoded: Encoded) -> Arrays:
    """What endcap.preprocess makes on the CPU, on its own threads."""
    result = endcap.Preprocessor(size=SIZE)(encoded)
    return np.asarray(result.images), result.geometry, result.status


def verify(way: Way, found: Arrays, wanted: Arrays) -> str:
    """In a few words how near a batch is. Raises NotVerifiedError."""
    images, geometry, status = found
    if status.tolist() != wanted[2].tolist():
        raise NotVerifiedError(f"status is {status.tolist()}, not {wanted[2].tolist()}")
    worst = np.abs(geometry - wanted[1])[:, : way.geometry_values].max()
    if worst != 0:
        raise NotVerifiedError(f"geometry differs by {worst:.3g}")
    if np.array_equal(images, wanted[0]):
        return "equal, bit for bit"
    agreements = [
        compare(mine, theirs, _NO_PSNR_DB) for mine, theirs in zip(images, wanted[0], strict=True)
    ]
    farthest = max(agreements, key=lambda each: (each.largest_step, each.differing))
    if way.steps == 0 or farthest.largest_step > way.steps:
        raise NotVerifiedError(f"{farthest.text}; {way.steps} steps are allowed")
    return farthest.text
