"""endcap infer --compare: served results and those of a reference pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

from rich.table import Table

from endcap.cli.coco import json_lines
from endcap.cli.console import count, printable
from endcap.cli.report import write_table
from endcap.client import ImageResult
from endcap.evaluation.side_by_side import Comparison

Comparisons = Mapping[str, Comparison]  # by image; those that the server failed have none

_MAX_COLUMNS = 10_000  # where no terminal shows them, so that each row is one line
_COLUMNS = ("served", "reference", "matched", "only served", "only reference", "box edge", "score")


def write_comparison(
    results: Sequence[ImageResult], comparisons: Comparisons, stream: TextIO, *, json: bool
) -> None:
    """Write the comparisons, as a table or JSON."""
    if json:
        stream.write(json_lines([comparison_row(each, comparisons) for each in results]) + "\n")
    else:
        width = None if stream.isatty() else _MAX_COLUMNS
        write_table(comparison_table(results, comparisons), stream, width=width)


def comparison_table(results: Sequence[ImageResult], comparisons: Comparisons) -> Table:
    """Return a row of figures, or the status of a failure, for each image, and one for all."""
    table = Table(box=None, pad_edge=False)
    table.add_column("image", overflow="fold")
    for title in _COLUMNS:
        table.add_column(title, justify="right", min_width=len(title.split()[-1]), overflow="fold")
    for result in results:
        comparison = comparisons.get(result.image)
        if comparison is None:
            cells = [result.status]
        elif not comparison.ok:
            cells = [str(comparison.served), comparison.status]
        else:
            cells = _cells(comparison)
        table.add_row(printable(result.image), *cells)
    compared = [each for each in comparisons.values() if each.ok]
    table.add_row(f"all {count(len(compared), 'compared image')}", *_cells(_sum_up(compared)))
    return table


def comparison_row(result: ImageResult, comparisons: Comparisons) -> dict[str, Any]:
    """Return ImageResult.to_json with `comparison`, null for an image that the server failed."""
    comparison = comparisons.get(result.image)
    return {**result.to_dict(), "comparison": comparison.to_json() if comparison else None}


def _sum_up(comparisons: Sequence[Comparison]) -> Comparison:
    """Return the sums of all counts, and the largest differences."""

    def largest(difference: Callable[[Comparison], float | None]) -> float | None:
        return max((d for d in map(difference, comparisons) if d is not None), default=None)

    return Comparison(
        served=sum(each.served for each in comparisons),
        reference=sum(each.reference for each in comparisons),
        matched=sum(each.matched for each in comparisons),
        only_served=[one for each in comparisons for one in each.only_served],
        only_reference=[one for each in comparisons for one in each.only_reference],
        box_difference_pixels=largest(lambda each: each.box_difference_pixels),
        score_difference=largest(lambda each: each.score_difference),
    )


def describe_reference_failures(comparisons: Comparisons) -> str | None:
    """Return the number of images that the reference failed for, and the first error, or None."""
    failed = {image: each for image, each in comparisons.items() if not each.ok}
    if not failed:
        return None
    image, first = next(iter(failed.items()))
    return (
        f"the reference failed for {len(failed)} of {count(len(comparisons), 'image')}, first "
        f"{image} ({first.status}: {first.error})"
    )


def _cells(comparison: Comparison) -> list[str]:
    box, score = comparison.box_difference_pixels, comparison.score_difference
    counts = (
        comparison.served,
        comparison.reference,
        comparison.matched,
        len(comparison.only_served),
        len(comparison.only_reference),
    )
    return [
        *map(str, counts),
        "-" if box is None else f"{box:.2f} px",
        "-" if score is None else f"{score:.4f}",
    ]
