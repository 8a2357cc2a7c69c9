"""Report of `endcap parity` as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from endcap.tools.parity.causes import Cause
from endcap.tools.parity.nms_rules import RulesReport
from endcap.tools.parity.outputs import OutputsReport
from endcap.tools.parity.run import ParityReport
from endcap.tools.parity.search import SMALL_STEPS
from endcap.tools.parity.tensors import Difference

# Below this a difference is rounding, in 8-bit steps; what is left above it is worth a word.
NOTABLE_STEPS = SMALL_STEPS
# Pixels that differ by one step, one in twenty of them at most.
_SAME_STEPS = 0.05


def as_text(report: ParityReport) -> Group:
    """Return a report for a terminal."""
    return Group(*_parts(report))


def summary_rows(report: ParityReport) -> list[tuple[str, str, str, str]]:
    """Return rows of name, mean, largest difference and equal share, of the tensors."""
    tensors = report.tensors
    rows = [_row("now", tensors.before)]
    if tensors.settings and tensors.is_mended:
        rows.append(_row("with the settings below", tensors.after))
    return rows


def cause_cells(cause: Cause) -> tuple[str, str, str, str, str]:
    """Return title, training, endcap, mean and largest difference."""
    return (
        cause.title,
        cause.training,
        cause.endcap,
        "" if cause.mean_steps is None else f"{cause.mean_steps:.2f}",
        "" if cause.max_steps is None else f"{cause.max_steps:.0f}",
    )


def advice_lines(report: ParityReport) -> list[str]:
    """Return what is to know about the causes."""
    return [f"{each.title}: {each.advice}" for each in report.causes if each.advice]


def conclusion(report: ParityReport) -> str:
    """Return what the figures mean, in one or two sentences."""
    texts = [_about_tensors(report)]
    rules = report.rules
    if rules is not None and not rules.ok and not rules.causes:
        texts.append(
            f"Of the detections {rules.before:.1%} differ, and no parameter of postprocess "
            "explains it."
        )
    return " ".join(texts)


def _about_tensors(report: ParityReport) -> str:
    tensors = report.tensors
    steps = tensors.unexplained_steps
    if not report.causes:
        if tensors.before is not None and tensors.before.mean < NOTABLE_STEPS:
            return "No difference was found: the network sees the same pixels."
        return (
            f"The tensors differ by {steps:.2f} steps in the mean, and nothing that is known "
            "explains it: the training pipeline does something of its own."
        )
    texts = [f"causes found: {len(report.causes)}."]
    if tensors.after is not None:
        if tensors.after.mean < _SAME_STEPS:
            texts.append("With the parameters below the tensors are equal but for rounding.")
        elif tensors.is_mended:
            texts.append(f"The parameters below leave {tensors.after.mean:.2f} steps in the mean.")
        else:
            texts.append("The parameters of the causes do not bring the tensors closer.")
    if steps >= NOTABLE_STEPS:
        texts.append(
            f"With all of it imitated, {steps:.2f} steps in the mean stay unexplained: the "
            "training pipeline does something else of its own."
        )
    without = [each.title for each in report.causes if not each.parameters]
    if without:
        texts.append(f"Endcap has no parameter for: {', '.join(without)}.")
    return " ".join(texts)


def outputs_lines(outputs: OutputsReport) -> list[str]:
    """Return lines about the network's outputs."""
    lines = [
        f"{name}: largest difference {largest:.4g}, standard deviation {outputs.spread[name]:.4g}"
        for name, largest in outputs.largest.items()
    ]
    if outputs.same_class is not None:
        lines.append(f"same best class: {outputs.same_class} of {outputs.images}")
    if outputs.training is not None:
        line = (
            f"detections: {outputs.training} training, {outputs.endcap} endcap, {outputs.matched} "
            "matched (same class, IoU above 0.5)"
        )
        if outputs.box_difference is not None and outputs.score_difference is not None:
            line += (
                f"; of these the largest difference of an edge {outputs.box_difference:.2f} px, of "
                f"a score {outputs.score_difference:.4f}"
            )
        lines.append(line)
    if outputs.accuracy is not None:
        for name, field in (("mAP50", "map50"), ("mAP50-95", "map50_95")):
            ours, theirs = (getattr(outputs.accuracy[side], field) for side in (1, 0))
            if ours is not None and theirs is not None:
                lines.append(
                    f"{name}: {theirs:.4f} training, {ours:.4f} endcap, change {ours - theirs:+.4f}"
                )
    return lines


def rules_line(rules: RulesReport) -> str:
    """Return a line about suppression."""
    text = f"suppression: {rules.before:.1%} of the detections differ"
    return f"{text}, {rules.after:.1%} with the settings below" if rules.causes else text


def _parts(report: ParityReport) -> Iterator[RenderableType]:
    tensors = report.tensors
    preset = {name: tensors.parameters[name] for name in ("size", "fit", "dtype", "layout")}
    yield _line("training", tensors.pipeline)
    yield _line("endcap", ", ".join(f"{name} {value}" for name, value in preset.items()))
    yield _line("images", str(len(tensors.images)))
    yield Text()
    yield _table(
        ("tensors, in 8-bit steps", "mean", "largest", "equal"), summary_rows(report), left=1
    )
    for line in outputs_lines(report.outputs) if report.outputs else []:
        yield Text(f"network  {line}")
    if report.rules is not None:
        yield Text(rules_line(report.rules))
    if report.causes:
        yield Text()
        titles = ("cause", "training", "endcap", "mean", "largest")
        yield _table(titles, [cause_cells(each) for each in report.causes], left=3)
        yield Text("mean, largest: what each alone makes, in 8-bit steps", style="dim")
        for line in advice_lines(report):
            yield Text(line)
        settings = " ".join(f"{name}={value}" for name, value in report.settings.items())
        if settings:
            yield Text()
            yield Text(f"set {settings}", style="cyan")
    yield Text()
    yield Text(conclusion(report), style="bold")
    for name, why in tensors.failures.items():
        yield Text(f"failed: {name}: {why}", style="red")
    for note in tensors.notes:
        yield Text(f"note: {note}", style="dim")


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
        f"{difference.mean:.3f}",
        f"{difference.largest:.1f}",
        f"{difference.equal:.2%}",
    )
