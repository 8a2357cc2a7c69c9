"""Table and summary of a search."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from endcap.terminal.console import count, printable
from endcap.terminal.table import UNKNOWN, Column, fitting_table
from endcap.tools.tune.decision import LIMITS, mean_ratio
from endcap.tools.tune.outcome import Goal, Outcome, Point, Trial
from endcap.tools.tune.settings import describe
from endcap.tools.tune.windows import Measured

_PRECISION = 3
# A measurement after the choice is within this of what was predicted.
_DEVIATION = 0.1


def as_table(trials: Sequence[Trial], width: int) -> Table:
    """Return a row for each measurement of the search."""
    columns: tuple[Column[Trial], ...] = (
        Column("turned", lambda each: each.knob, rank=3, is_text=True),
        Column("configuration", lambda each: describe(each.configuration), is_text=True),
        Column("images/s", lambda each: figure(each.rate)),
        Column("p50 ms", lambda each: milliseconds(each.measured, 50), rank=2),
        Column("p99 ms", lambda each: milliseconds(each.measured, 99)),
        Column("tail", lambda each: UNKNOWN if each.ratio is None else f"{each.ratio:.2f}x"),
        Column("", lambda each: each.verdict, is_text=True),
    )
    return fitting_table(columns, trials, width, dim=lambda each: each.verdict == "not better")


def as_group(outcome: Outcome, goal: Goal, heading: str, width: int) -> Group:
    """Return heading, table and summary."""
    parts: list[Text | Table] = [Text(heading + "\n", style="bold")]
    parts.append(as_table(outcome.trials, width))
    parts.append(
        Text(
            "\ntail: mean latency of the slowest twentieth, divided by that of the reference on "
            "the same arrivals.\n",
            style="dim",
        )
    )
    lines = [printable(line) for line in summary(outcome, goal)]
    parts.append(Text(lines[0], style="bold"))
    parts += [Text(line) for line in lines[1:]]
    return Group(*parts)


def summary(outcome: Outcome, goal: Goal) -> list[str]:
    """Return what is recommended, and why, as lines."""
    chosen, shipped = outcome.chosen, outcome.shipped
    if outcome.is_changed:
        lines = [f"Recommended: {describe(chosen.configuration)}"]
    elif outcome.tried is not None:
        lines = [
            "Recommended: the repository as it is. The best other configuration, "
            f"{describe(outcome.tried)}, {_not_better(outcome.ratios)}."
        ]
    else:
        lines = ["Recommended: the repository as it is. No configuration that was tried is better."]
    lines.append(f"  {_point(chosen)}")
    lines += _measured_again(outcome)
    if outcome.is_changed:
        lines.append(f"  as it is: {_point(shipped)}")
    if outcome.ratios:
        each = ", ".join(f"{ratio:.2f}" for ratio in outcome.ratios)
        mean = mean_ratio(outcome.ratios)
        of_all = f"{mean:.2f} times" if math.isfinite(mean) else "compared with"
        lines.append(
            f"  tail {of_all} that of the repository as it is, of "
            f"{count(len(outcome.ratios), 'pair')}: {each}"
        )
    for point in (chosen, shipped) if outcome.is_changed else (chosen,):
        if point.limit_rate is not None:
            lines.append(
                f"  {describe(point.configuration)}: about {figure(point.limit_rate)} images/s "
                f"reach the limit of {goal.limit_ms:g} ms"
            )
    return [*lines, *_warnings(outcome, goal)]


def _not_better(ratios: Sequence[float]) -> str:
    lost = sum(map(math.isinf, ratios))
    if lost:
        return f"could not keep up in {lost} of {len(ratios)} windows"
    return "is no better" if mean_ratio(ratios) >= 1 else "is within the noise"


def failure(outcome: Outcome, goal: Goal) -> str | None:
    """Return a message where what is recommended does not meet the limit, else None."""
    chosen = outcome.chosen
    if chosen.meets(goal.limit_ms):
        return None
    given = goal.rate is not None
    remedy = (
        "allow more, send less with --rate, or take a faster network or machine"
        if given
        else "allow more, or take a faster network or machine"
    )
    found = "more" if math.isinf(chosen.p99_ms) else f"{chosen.p99_ms:.1f} ms"
    return (
        f"no configuration meets --p99-ms {goal.limit_ms:g}: the best has {found} at "
        f"{figure(chosen.rate)} images/s; {remedy}"
    )


def figure(number: float) -> str:
    """Return a number with three digits or more."""
    return f"{number:.0f}" if number >= 10**_PRECISION else f"{number:.{_PRECISION}g}"


def milliseconds(measured: Measured, percent: float) -> str:
    """Return a percentile as text, `-` where it is not known."""
    value = measured.percentile(percent)
    return f"{value:.1f}" if math.isfinite(value) else UNKNOWN


def trial_line(trial: Trial) -> str:
    """Return a trial as a line of the progress."""
    p99 = milliseconds(trial.measured, 99)
    tail = "" if trial.ratio is None else f", tail {trial.ratio:.2f}x"
    return (
        f"{describe(trial.configuration)}: p99 {p99} ms at {figure(trial.rate)} images/s{tail}: "
        f"{trial.verdict}"
    )


def _point(point: Point) -> str:
    if math.isinf(point.p99_ms):
        return f"at {figure(point.rate)} images/s requests pile up: no percentile holds"
    low, high = min(point.p99_each), max(point.p99_each)
    return (
        f"at {figure(point.rate)} images/s p99 is {point.p99_ms:.1f} ms, p50 {point.p50_ms:.1f} ms "
        f"({count(point.requests, 'request')}; p99 of the {count(len(point.p99_each), 'window')} "
        f"{low:.1f} to {high:.1f} ms)"
    )


def _measured_again(outcome: Outcome) -> list[str]:
    fresh, deviation = outcome.fresh, outcome.deviation
    if fresh is None:
        return ["  not measured again: no time was left"]
    if deviation is None or math.isinf(deviation):
        return [f"  measured again, with other arrivals: {_point(fresh)}"]
    return [
        f"  measured again, with other arrivals: p99 {fresh.p99_ms:.1f} ms, "
        f"{100 * deviation:+.0f} % ({count(fresh.requests, 'request')})"
    ]


def _warnings(outcome: Outcome, goal: Goal) -> list[str]:
    lines = []
    measured = [each for _, each in outcome.windows]
    if outcome.deviation is not None and abs(outcome.deviation) > _DEVIATION:
        lines.append(
            "Warning: measured again, the 99th percentile was another one. Measure for longer by "
            "--budget-minutes, on a machine with nothing else to do."
        )
    longest_s = max((window.seconds for window, _ in outcome.windows), default=0.0)
    needed_s = LIMITS * goal.limit_ms / 1e3
    if 0 < longest_s < needed_s:
        lines.append(
            f"Warning: the longest windows have {longest_s:.3g} s, and a queue that grows slowly "
            f"needs {needed_s:.3g} s to be seen beside a limit of {goal.limit_ms:g} ms: give "
            f"--budget-minutes {math.ceil(goal.budget_s / 60 * needed_s / longest_s)}."
        )
    refused = sum(each.refused for each in measured)
    if refused:
        lines.append(
            f"{count(refused, 'request')} of all windows were refused by the server or not "
            "answered in time; they count as slower than any other."
        )
    disturbed = [each.others_cpu for each in measured if each.is_disturbed]
    if disturbed:
        lines.append(
            f"Warning: in {len(disturbed)} of {count(len(measured), 'window')} other programs used "
            f"up to {max(disturbed):.1f} cores: end them, and run it with --restart."
        )
    busy = max((each.client_cpu for each in measured), default=0.0)
    if busy >= 0.5:
        lines.append(
            f"Warning: the client used up to {busy:.2f} cores of this machine, which the server "
            "has to itself where clients run elsewhere."
        )
    if outcome.untried:
        lines.append(
            f"No time was left for: {', '.join(outcome.untried)}. --budget-minutes gives more."
        )
    lines.append(f"{outcome.spent_s / 60:.1f} of {goal.budget_s / 60:g} minutes were used.")
    return lines
