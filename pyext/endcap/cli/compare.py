"""endcap infer --compare: served results and those of a reference pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import typer
from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from endcap.cli.console import count
from endcap.cli.export import json_lines
from endcap.cli.report import Form, failure_line, image_heading, one_line, write_table
from endcap.client import ImageResult, Task
from endcap.evaluation.served_reference import open_reference
from endcap.evaluation.side_by_side import Comparison, check_task, compare

Comparisons = Mapping[str, Comparison]  # by image; those that the server failed have none

_COLUMNS = ("served", "reference", "matched", "only served", "only reference", "box edge", "score")
_NOTHING = "-"


def check_comparison(form: Form, compare: Path | None, network: Path | None) -> None:
    """Raise BadParameter for options that exclude each other."""
    if network is not None and compare is None:
        raise typer.BadParameter(
            "--network needs --compare REPOSITORY: give both, or leave --network out"
        )
    if compare is not None and form not in (Form.table, Form.json):
        raise typer.BadParameter(
            f"--compare prints a table or --json, not --{form.value}: leave one out"
        )


class ReferenceComparison:
    """A NumPy pipeline with the settings of an ensemble, and its comparison with served results.

    network: the ONNX file; None takes the one that the repository serves. Raises EndcapError when
    the ensemble or the file cannot be imitated, or a package for it is missing.

    Attributes:
        comparisons: by image, in the order of the calls of `add`.
    """

    def __init__(self, repository: Path, model: str, network: Path | None) -> None:
        self._reference = open_reference(repository, model, network=network)
        self.comparisons: dict[str, Comparison] = {}

    def check_task(self, task: Task) -> None:
        """Raise InvalidArgumentError when the server's model has another task."""
        check_task(self._reference, task)

    def add(
        self, result: ImageResult, labels: Sequence[str] | None, *, name: str | None = None
    ) -> None:
        """Run the reference on one image; do nothing for one that the server failed.

        Args:
            result: Of the file that is read.
            labels: Class names by id.
            name: The image's in `comparisons`; None is the file's.
        """
        name = name or result.image
        if result.ok and name not in self.comparisons:
            self.comparisons[name] = compare(self._reference, result, labels)


def write_comparison(
    results: Sequence[ImageResult], comparisons: Comparisons, stream: TextIO, *, json: bool
) -> None:
    """Write the comparisons, as a table or JSON."""
    if json:
        stream.write(json_lines([comparison_row(each, comparisons) for each in results]) + "\n")
    else:
        write_table(as_comparison_table(results, comparisons), stream)


def as_comparison_table(results: Sequence[ImageResult], comparisons: Comparisons) -> Group:
    """Return a line of figures or an error for each image, and a line for all of them."""
    lines: list[Text | Padding] = [_line(_COLUMNS, style="dim")]
    for result in results:
        lines.append(image_heading(result.image))
        comparison = comparisons.get(result.image)
        if comparison is None:
            lines.append(failure_line(f"{result.status}: {result.error}"))
        elif not comparison.ok:
            lines.append(failure_line(f"reference: {comparison.status}: {comparison.error}"))
        else:
            lines.append(_line(_cells(comparison)))
    compared = [each for each in comparisons.values() if each.ok]
    lines.append(Text(f"all {count(len(compared), 'compared image')}", style="bold"))
    lines.append(_line(_cells(worst(compared))))
    return Group(*lines)


def comparison_row(result: ImageResult, comparisons: Comparisons) -> dict[str, Any]:
    """Return ImageResult.to_json with `comparison`, null for an image that the server failed."""
    comparison = comparisons.get(result.image)
    return {**result.to_dict(), "comparison": comparison.to_json() if comparison else None}


def worst(comparisons: Sequence[Comparison]) -> Comparison:
    """Return the sums of all counts, and the largest differences."""
    return Comparison(
        served=sum(each.served for each in comparisons),
        reference=sum(each.reference for each in comparisons),
        matched=sum(each.matched for each in comparisons),
        only_served=[one for each in comparisons for one in each.only_served],
        only_reference=[one for each in comparisons for one in each.only_reference],
        box_difference_pixels=_largest(comparisons, lambda each: each.box_difference_pixels),
        score_difference=_largest(comparisons, lambda each: each.score_difference),
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


def _largest(
    comparisons: Sequence[Comparison], difference: Callable[[Comparison], float | None]
) -> float | None:
    return max((d for d in map(difference, comparisons) if d is not None), default=None)


def _cells(comparison: Comparison) -> list[str]:
    box, score = comparison.box_difference_pixels, comparison.score_difference
    return [
        str(comparison.served),
        str(comparison.reference),
        str(comparison.matched),
        str(len(comparison.only_served)),
        str(len(comparison.only_reference)),
        _NOTHING if box is None else f"{box:.2f} px",
        _NOTHING if score is None else f"{score:.4f}",
    ]


def _line(cells: Sequence[str], *, style: str = "") -> Text:
    widths = [max(len(column), 6) for column in _COLUMNS]
    return one_line(
        "".join(f"  {cell:>{width}}" for cell, width in zip(cells, widths, strict=True)),
        style=style,
    )
