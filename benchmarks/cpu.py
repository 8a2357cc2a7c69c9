"""Everything that needs no server, as one JSON document."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks import images, machine, paths
from benchmarks.postprocess import run as postprocess
from benchmarks.preprocess import all_threads, memory, one_thread, regions, two_threads
from benchmarks.timing import Budget


@dataclass(frozen=True)
class Extent:
    """How much to measure."""

    images: tuple[str, ...]
    per_image: Budget
    batch_size: int
    per_batch: Budget
    num_boxes: int
    per_comparison: Budget


COMPLETE = Extent(
    images=tuple(images.RECIPES),
    per_image=Budget(3.0, fewest=7),
    batch_size=24,
    per_batch=Budget(12.0, fewest=5),
    num_boxes=postprocess.NUM_BOXES,
    per_comparison=Budget(3.0, fewest=3),
)
QUICK = Extent(
    images=images.QUICK,
    per_image=Budget(0.5, fewest=3),
    batch_size=6,
    per_batch=Budget(1.0, fewest=3),
    num_boxes=3_000,
    per_comparison=Budget(0.5, fewest=3),
)


def steps(extent: Extent) -> int:
    """How often `run` will say that something is done."""
    return len(extent.images) + len(postprocess.names(extent.num_boxes)) + 4


def run(extent: Extent, done: Callable[[str], None]) -> dict[str, Any]:
    """Measure all of it; `done` is called after each step.

    Raises:
        SourceMissingError: A package that ships a photograph is not there.
    """
    about = machine.describe()
    pictures = [images.make(name, paths.IMAGES) for name in extent.images]
    latency = one_thread.run(pictures, extent.per_image, done)
    throughput = all_threads.run(pictures, extent.batch_size, extent.per_batch)
    done("all threads")
    pairs = two_threads.run(pictures, extent.per_comparison)
    done("two threads")
    largest = images.make(images.LARGEST, paths.IMAGES)
    peaks = memory.run(largest)
    done("memory")
    cuts = regions.run(largest, extent.per_comparison)
    done("regions")
    comparisons = postprocess.run(extent.num_boxes, extent.per_comparison, done)
    return {
        "machine": about,
        "preprocess": {
            "one_thread": asdict(latency),
            "all_threads": asdict(throughput),
            "two_threads": [asdict(pair) for pair in pairs],
            "memory": {
                "image": largest.name,
                "peers": {name: asdict(peak) for name, peak in peaks.items()},
            },
            "regions": {
                "image": largest.name,
                "rows": {name: asdict(row) for name, row in cuts.items()},
            },
        },
        "postprocess": [asdict(comparison) for comparison in comparisons],
    }
