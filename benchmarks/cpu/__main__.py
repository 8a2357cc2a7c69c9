"""Measure endcap next to its peers on the CPU; writes benchmarks/results/cpu.json and cpu.png."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks import images, machine, results
from benchmarks.cpu import cost, heads, segmentation, suppression, tensors
from benchmarks.images import Photograph
from benchmarks.results import Table
from benchmarks.timing import Budget


@dataclass(frozen=True)
class Extent:
    """How much to measure."""

    images: tuple[str, ...]
    per_row: Budget
    num_boxes: int


COMPLETE = Extent(tuple(images.RECIPES), Budget(3.0), suppression.NUM_BOXES)
QUICK = Extent(images.QUICK, Budget(0.5, min_rounds=3), 3_000)


def measure(
    pictures: Sequence[Photograph], extent: Extent, say: Callable[[str], None]
) -> list[Table]:
    """Return all tables; `say` is called after each step."""
    tables = tensors.latency(pictures, extent.per_row, say)
    tables.append(tensors.two_threads(pictures, extent.per_row))
    say("two threads")
    largest = max(pictures, key=lambda picture: picture.width * picture.height)
    tables.append(tensors.memory(largest))
    say("memory")
    tables.append(heads.run(extent.per_row, say))
    tables.append(segmentation.run(extent.per_row, say))
    tables.append(suppression.run(extent.num_boxes, extent.per_row, say))
    tables.append(cost.errors(pictures))
    say("predicted times")
    return tables


def main() -> None:
    """Measure, write and show."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cpu", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="rough figures, in build/bench-quick")
    quick = parser.parse_args().quick
    extent = QUICK if quick else COMPLETE
    about = machine.describe()
    try:
        pictures = [images.make(name) for name in extent.images]
    except images.SourceMissingError as error:
        raise SystemExit(f"benchmarks: {error}; run: make bench") from error
    say = results.announce(len(pictures) + len(heads.tasks()) + 4 + 4)
    path = results.write("cpu", about, measure(pictures, extent, say), quick=quick)
    results.show(path)
    results.draw(path)


if __name__ == "__main__":
    main()
