"""Prints an evaluation for people, within 80 columns."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from endcap.evaluation.coco import MEASURES, Evaluation, difference

_FAILURES_LISTED = 20
_WARN = "yellow"


def as_table(evaluation: Evaluation) -> Group:
    """Return accuracy by class and over all, the images that failed, and the notes."""
    parts: list[RenderableType] = [
        _heading(evaluation),
        _classes(evaluation),
        Text(),
        _overall(evaluation),
    ]
    if evaluation.failures:
        parts += [Text(), *_failures(evaluation)]
    parts += [Text(f"\nNote: {note}", style=_WARN) for note in evaluation.notes]
    return Group(*parts)


def _heading(evaluation: Evaluation) -> Text:
    text = (
        f"Images: {evaluation.images}   objects: {evaluation.objects}   "
        f"detections: {evaluation.detections}\n"
    )
    if evaluation.compared_with is not None:
        text += f"ref. is {evaluation.compared_with}; diff. is served less ref.\n"
    return Text(text, overflow="fold")


def _classes(evaluation: Evaluation) -> Table:
    compared = evaluation.other is not None
    kinds = ("\nserved", "\nref.", "\ndiff.") if compared else ("",)
    columns = (f"{measure}{kind}" for measure in ("AP50", "AP50-95") for kind in kinds)
    table = _table("class", "objects", *columns)
    others = evaluation.other.classes if evaluation.other else evaluation.served.classes
    for ours, theirs in zip(evaluation.served.classes, others, strict=True):
        pairs = ((ours.ap50, theirs.ap50), (ours.ap50_95, theirs.ap50_95))
        cells = [cell for pair in pairs for cell in _cells(*pair, compared=compared)]
        table.add_row(Text(ours.name), str(ours.objects), *cells)
    return table


def _overall(evaluation: Evaluation) -> Table:
    compared = evaluation.other is not None
    table = _table("all classes", *(("served", "ref.", "diff.") if compared else ("served",)))
    for key, (name, _) in MEASURES.items():
        ours = evaluation.served.figures[key]
        theirs = evaluation.other.figures[key] if evaluation.other else None
        table.add_row(name, *_cells(ours, theirs, compared=compared))
    return table


def _table(first: str, *counts: str) -> Table:
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="dim")
    table.add_column(first, overflow="fold", vertical="bottom")
    for count in counts:
        table.add_column(count, justify="right", no_wrap=True)
    return table


def _cells(ours: float | None, theirs: float | None, *, compared: bool) -> list[str]:
    if not compared:
        return [_number(ours)]
    apart = difference(ours, theirs)
    return [_number(ours), _number(theirs), "-" if apart is None else f"{apart:+.4f}"]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _failures(evaluation: Evaluation) -> Iterable[Text]:
    yield Text("Images that failed, and count as images without detections:", style="red")
    for each in evaluation.failures[:_FAILURES_LISTED]:
        yield Text(f"  {each.image}: {each.status} ({each.by}): {each.error}", overflow="fold")
    more = len(evaluation.failures) - _FAILURES_LISTED
    if more > 0:
        yield Text(f"  and {more} more; --json lists all", style="dim")
