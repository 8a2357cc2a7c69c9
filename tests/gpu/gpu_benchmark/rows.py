"""One measurement, and the table of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Row:
    """What was measured once.

    name: the work. who: by what. value: the figure, in `unit`. notes: what it stands for.
    """

    name: str
    who: str
    value: float
    unit: str
    notes: str = ""


@dataclass
class Results:
    """Rows, and what was left out with its reason."""

    rows: list[Row] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def table(results: Results) -> str:
    """The rows in columns."""
    cells = [(r.name, r.who, f"{r.value:,.3f}", r.unit, r.notes) for r in results.rows]
    lines = _columns([("work", "by", "value", "", "what it is"), *cells])
    return "\n".join([*lines, *(f"left out: {reason}" for reason in results.left_out)])


def _columns(cells: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    return [
        "  ".join(
            cell.rjust(width) if column == 2 else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
