"""Report of `endcap parity` as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from endcap.evaluation.parity.comparison import Difference, ParityReport
from endcap.evaluation.parity.search import SMALL_STEPS

# Pixels that differ by one step, one in twenty of them at most.
_SAME_STEPS = 0.05


def as_text(report: ParityReport) -> Group:
    """Return a report for a terminal."""
    return Group(*_parts(report))


def _parts(report: ParityReport) -> Iterator[RenderableType]:
    endcap = ", ".join(f"{name} {report.parameters[name]}" for name in ("size", "fit", "dtype"))
    yield _line("training", report.training)
    yield _line("endcap", endcap)
    yield _line("images", str(len(report.images)))
    yield Text()
    rows = [_row("now", report.before)]
    if report.settings:
        rows.append(_row("with the settings below", report.after))
    yield _table(("tensors, in 8-bit steps", "mean", "largest", "equal"), rows, left=1)
    if report.causes:
        yield Text()
        cells = [
            (
                each.name,
                each.training,
                each.endcap,
                "" if each.effect is None else f"{each.effect.mean_steps:.2f}",
                "" if each.effect is None else f"{each.effect.max_steps:.0f}",
            )
            for each in report.causes
        ]
        yield _table(("cause", "training", "endcap", "mean", "largest"), cells, left=3)
        yield Text("mean, largest: what each alone makes, in 8-bit steps", style="dim")
        yield Text()
        settings = " ".join(f"{name}={value}" for name, value in report.settings.items())
        yield Text(f"set {settings}", style="cyan")
    yield Text()
    yield Text(_conclusion(report), style="bold")
    for name, why in report.failures.items():
        yield Text(f"failed: {name}: {why}", style="red")
    for note in report.notes:
        yield Text(f"note: {note}", style="dim")


def _conclusion(report: ParityReport) -> str:
    steps = report.unexplained_steps
    if steps is None:
        return "The tensors cannot be compared: their shapes differ."
    if not report.causes:
        if steps < SMALL_STEPS:
            return "No difference was found: the network sees the same pixels."
        return (
            f"The tensors differ by {steps:.2f} steps in the mean, and no parameter of preprocess "
            "explains it."
        )
    if steps < _SAME_STEPS:
        return "With the settings above the tensors are equal but for rounding."
    return (
        f"With the settings above the tensors still differ by {steps:.2f} steps in the mean, which "
        "no parameter of preprocess explains."
    )


def _line(name: str, value: str) -> Text:
    return Text(f"{name:<9}", style="dim") + Text(value, style="default")


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]], *, left: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim")
    for number, title in enumerate(titles):
        is_left = number < left
        table.add_column(
            title,
            justify="left" if is_left else "right",
            overflow="fold",
            no_wrap=not is_left,
        )
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def _row(name: str, difference: Difference | None) -> tuple[str, str, str, str]:
    if difference is None:
        return name, "-", "-", "other shape"
    return (
        name,
        f"{difference.mean_steps:.3f}",
        f"{difference.max_steps:.1f}",
        f"{difference.equal_share:.2%}",
    )
