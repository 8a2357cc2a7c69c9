"""One image on one thread and on two: what a second thread is worth that reads codes ahead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.images import Photograph
from benchmarks.preprocess import ours
from benchmarks.timing import Budget, Case, Ready, Row, comparison

ONE, TWO = "one thread", "two threads"


@dataclass(frozen=True)
class TwoThreads:
    """Milliseconds of one image; the ratio is that of one thread to two."""

    image: str
    rows: dict[str, Row]


def run(images: Sequence[Photograph], budget: Budget) -> list[TwoThreads]:
    """Verify that the tensors are equal, and time both alternately, on all CPUs."""
    return [TwoThreads(image.name, _rows(image, budget)) for image in images]


def _rows(image: Photograph, budget: Budget) -> dict[str, Row]:
    batches = {ONE: ours.batch(1), TWO: ours.batch(2)}
    encoded = [image.encoded]
    tensors = [batch(encoded).copy() for batch in batches.values()]
    if not np.array_equal(*tensors):
        return {name: Row("not verified", "the tensors differ") for name in batches}
    entries = {
        name: Ready(Case(run=batch, prepare=lambda: encoded), "equal")
        for name, batch in batches.items()
    }
    return comparison(entries, TWO, budget)
