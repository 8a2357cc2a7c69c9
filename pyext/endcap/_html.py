"""Tables in HTML, which notebooks show in place of a repr."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from itertools import islice

MOST_ROWS = 20
_RIGHT = ' style="text-align: right"'
_LEFT = ' style="text-align: left"'


def html_table(
    caption: str, columns: Sequence[str], rows: Iterable[Sequence[object]], total: int
) -> str:
    """Return a table of at most MOST_ROWS rows, all texts escaped.

    Args:
        caption: The line above it.
        columns: Titles.
        rows: Cells: numbers, as texts too, are aligned right; None is an empty cell.
        total: The number of all rows; a last line counts those that are not shown.
    """
    shown = list(islice(rows, MOST_ROWS))
    lines = [f"<p>{html.escape(caption)}</p>"]
    if shown:
        titles = "".join(
            f"<th{_alignment(cell)}>{html.escape(title)}</th>"
            for title, cell in zip(columns, shown[0], strict=True)
        )
        lines.append(f"<table><thead><tr>{titles}</tr></thead><tbody>")
        lines += (f"<tr>{''.join(map(_cell, row))}</tr>" for row in shown)
        lines.append("</tbody></table>")
    if total > len(shown):
        lines.append(f"<p>and {total - len(shown)} more</p>")
    return f"<div>{''.join(lines)}</div>"


def _cell(value: object) -> str:
    return f"<td{_alignment(value)}>{'' if value is None else html.escape(str(value))}</td>"


def _alignment(value: object) -> str:
    is_number = not isinstance(value, str) or value.lstrip("-").replace(".", "", 1).isdecimal()
    return _RIGHT if is_number else _LEFT
