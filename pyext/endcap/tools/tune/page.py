"""HTML page of a search: the result, a chart of throughput against latency, the table.

One file without scripts and without anything from elsewhere.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from endcap.tools.tune.outcome import Goal, Outcome
from endcap.tools.tune.report import figure, milliseconds, summary
from endcap.tools.tune.settings import AS_IT_IS, Configuration, describe
from endcap.tools.tune.windows import Measured, Window

_WIDTH, _HEIGHT = 760, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 16, 48
_TICKS = 6
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem;
  color: #1b1f24; background: #fff; }
table { border-collapse: collapse; } th, td { padding: .2rem .8rem .2rem 0; text-align: right; }
th { border-bottom: 1px solid #888; } th.text, td.text { text-align: left; }
pre { background: #f3f4f6; padding: .8rem; overflow-x: auto; } .none { color: #777; }
svg text { font: 12px system-ui, sans-serif; fill: #444; }
"""
_MARKED = "made by endcap tune"


@dataclass(frozen=True)
class _Dot:
    """A measured window in the chart."""

    rate: float
    p99_ms: float
    name: str
    kind: str  # shipped, chosen or other


def as_page(outcome: Outcome, goal: Goal, heading: str, diff: str) -> str:
    """Return the page.

    Args:
        outcome: The result.
        goal: What was wanted.
        heading: Model, limit and traffic.
        diff: Of the configurations, "" without a change.
    """
    first, *others = (html.escape(line) for line in summary(outcome, goal))
    parts = [
        "<!doctype html>",
        f"<!-- {_MARKED} -->",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'\">",
        f"<title>{html.escape(heading)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{html.escape(heading)}</h1><p><strong>{first}</strong></p>",
        *(f"<p>{line}</p>" for line in others),
        "<h2>Throughput and latency</h2>",
        chart(outcome, goal),
        "<p>A dot for each window that was measured; those that were lost to overload have no "
        "percentile, and no dot. The line joins the windows that no other one beats in both.</p>",
    ]
    if diff:
        parts += ["<h2>Changes</h2>", f"<pre>{html.escape(diff)}</pre>"]
    parts += ["<h2>What was measured</h2>", _table(outcome), "</body></html>"]
    return "\n".join(parts) + "\n"


def pareto(dots: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points that no other one beats in both, more rate and less latency, by rate."""
    front: list[tuple[float, float]] = []
    for rate, latency in sorted(dots, key=lambda each: (-each[0], each[1])):
        if not front or latency < front[-1][1]:
            front.append((rate, latency))
    return front[::-1]


def chart(outcome: Outcome, goal: Goal) -> str:
    """Return an SVG of 99th percentiles over rates, the limit, and the Pareto front."""
    dots = [_dot(window, each, outcome) for window, each in outcome.windows if _is_known(each)]
    if not dots:
        return '<p class="none">No window was finished.</p>'
    most_rate = 1.08 * max(dot.rate for dot in dots)
    most_ms = 1.08 * max(goal.limit_ms, *(min(dot.p99_ms, 3 * goal.limit_ms) for dot in dots))

    def x(rate: float) -> str:
        return f"{_LEFT + rate / most_rate * (_WIDTH - _LEFT - _RIGHT):.1f}"

    def y(latency: float) -> str:
        share = min(latency, most_ms) / most_ms
        return f"{_HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM):.1f}"

    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" role="img" '
        'aria-label="99th percentile of the latency over images per second">'
    ]
    for value in _ticks(most_rate):
        parts.append(
            f'<text x="{x(value)}" y="{bottom + 18}" text-anchor="middle">{value:g}</text>'
        )
    for value in _ticks(most_ms):
        parts.append(
            f'<line x1="{_LEFT}" x2="{right}" y1="{y(value)}" y2="{y(value)}" stroke="#e3e5e8"/>'
            f'<text x="{_LEFT - 8}" y="{y(value)}" dy="4" text-anchor="end">{value:g}</text>'
        )
    parts += [
        f'<text x="{(_LEFT + right) / 2}" y="{_HEIGHT - 8}" text-anchor="middle">images/s</text>',
        f'<text x="14" y="{_TOP + 4}" dy="4">p99, ms</text>',
        f'<line x1="{_LEFT}" x2="{right}" y1="{y(goal.limit_ms)}" y2="{y(goal.limit_ms)}" '
        'stroke="#b42318" stroke-dasharray="6 4"/>',
        f'<text x="{right}" y="{y(goal.limit_ms)}" dy="-6" text-anchor="end">'
        f"limit {goal.limit_ms:g} ms</text>",
    ]
    front = pareto((dot.rate, dot.p99_ms) for dot in dots)
    line = " ".join(f"{x(rate)},{y(latency)}" for rate, latency in front)
    parts.append(f'<polyline points="{line}" fill="none" stroke="#98a2b3"/>')
    colours = {"other": "#98a2b3", "shipped": "#1570cd", "chosen": "#067647"}
    for kind, colour in colours.items():
        for dot in (each for each in dots if each.kind == kind):
            title = f"{dot.name}: {figure(dot.rate)} images/s, p99 {dot.p99_ms:.1f} ms"
            parts.append(
                f'<circle cx="{x(dot.rate)}" cy="{y(dot.p99_ms)}" r="5" fill="{colour}" '
                f'fill-opacity=".75"><title>{html.escape(title)}</title></circle>'
            )
    names = {"shipped": "as it is", "chosen": "recommended", "other": "other configurations"}
    kinds = [kind for kind in names if any(dot.kind == kind for dot in dots)]
    for place, kind in enumerate(kinds):
        top = _TOP + 12 + 18 * place
        parts.append(
            f'<circle cx="{_LEFT + 70}" cy="{top}" r="5" fill="{colours[kind]}"/>'
            f'<text x="{_LEFT + 82}" y="{top}" dy="4">{names[kind]}</text>'
        )
    return "".join([*parts, "</svg>"])


def _dot(window: Window, measured: Measured, outcome: Outcome) -> _Dot:
    return _Dot(
        window.rate,
        measured.p99_ms,
        describe(window.configuration),
        _kind(window.configuration, outcome),
    )


def _kind(configuration: Configuration, outcome: Outcome) -> str:
    if configuration == AS_IT_IS:
        return "shipped"
    return "chosen" if configuration == outcome.chosen.configuration else "other"


def _is_known(measured: Measured) -> bool:
    return measured.problem is None and math.isfinite(measured.p99_ms)


def _ticks(most: float) -> Sequence[float]:
    """Return round numbers from 0 to `most`."""
    step = 10 ** math.floor(math.log10(most / _TICKS))
    step *= next(factor for factor in (1, 2, 5, 10) if most / (factor * step) <= _TICKS)
    return [step * number for number in range(int(most / step) + 1)]


def _table(outcome: Outcome) -> str:
    titles = ("turned", "configuration", "images/s", "p50 ms", "p99 ms", "tail", "result")
    kinds = ("text", "text", "", "", "", "", "text")
    rows = ["".join(f'<th class="{k}">{t}</th>' for t, k in zip(titles, kinds, strict=True))]
    for trial in outcome.trials:
        cells = (
            trial.knob,
            describe(trial.configuration),
            figure(trial.rate),
            milliseconds(trial.measured, 50),
            milliseconds(trial.measured, 99),
            "" if trial.ratio is None else f"{trial.ratio:.2f}x",
            trial.verdict,
        )
        rows.append(
            "".join(
                f'<td class="{k}">{html.escape(c)}</td>' for c, k in zip(cells, kinds, strict=True)
            )
        )
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"
