"""One measurement, and the table of all."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Row:
    """What was measured once.

    name: the work. who: by what. value: the figure, in `unit`. notes: what it stands for.
    spread: of the runs that the figure is the median of, (most - least) / median; None for one run.
    """

    name: str
    who: str
    value: float
    unit: str
    notes: str = ""
    spread: float | None = None


@dataclass
class Results:
    """Rows, and what was left out with its reason.

    failed: those parts of it that should have been measured. sm_clock_mhz: by part, right after it.
    """

    rows: list[Row] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    sm_clock_mhz: dict[str, str] = field(default_factory=dict)

    @contextmanager
    def part(self, name: str, spared: tuple[type[Exception], ...] = ()) -> Iterator[None]:
        """What goes wrong in the body costs its own rows alone.

        spared: errors that say that something is not to be had here, which is no failure.
        """
        try:
            yield
        except Exception as error:
            self.left_out.append(f"{name}: {error!r}")
            if not isinstance(error, spared):
                self.failed.append(name)
                traceback.print_exc()


def table(results: Results) -> str:
    """The rows in columns."""
    cells = [
        (r.name, r.who, f"{r.value:,.3f}", r.unit, _percent(r.spread), r.notes)
        for r in results.rows
    ]
    lines = _columns([("work", "by", "value", "", "spread", "what it is"), *cells])
    return "\n".join([*lines, *(f"left out: {reason}" for reason in results.left_out)])


def _percent(spread: float | None) -> str:
    return "" if spread is None else f"{100 * spread:.1f} %"


def _columns(cells: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    return [
        "  ".join(
            cell.rjust(width) if column == 2 else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
