"""Tables without their least important columns where the terminal is narrow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from rich import box
from rich.table import Table
from rich.text import Text

from endcap.terminal.console import printable

Row = TypeVar("Row")
_GAP = 2  # a space of padding and one that the box draws between columns
_SHORTEST_TEXT = 8
UNKNOWN = "-"


@dataclass(frozen=True)
class Column(Generic[Row]):
    """A column.

    Attributes:
        title: Its heading.
        cell: Returns the text of a row.
        rank: Columns of the highest rank are left out first; those of rank 0 stay, unless a number
            would be cut.
        is_text: Whether cells are texts, which may be shortened, else numbers.
        optional: Whether it is left out where no row has a value.
    """

    title: str
    cell: Callable[[Row], str]
    rank: int = 0
    is_text: bool = False
    optional: bool = False


def fitting_table(
    columns: Sequence[Column[Row]],
    rows: Sequence[Row],
    width: int,
    *,
    most_rows: int | None = None,
    dim: Callable[[Row], bool] = lambda _: False,
) -> Table:
    """Return a table of the columns that fit into `width` characters.

    Texts may be shortened, with an ellipsis; numbers are not, their column is left out instead.

    Args:
        columns: In their order.
        rows: All rows, by which the columns are chosen.
        width: Of the terminal.
        most_rows: Number of rows shown.
        dim: Whether a row is less important.
    """
    cells = [[printable(column.cell(row)) for row in rows] for column in columns]
    widths = [max(map(len, (column.title, *cells[n]))) for n, column in enumerate(columns)]
    some = [not each.optional or set(cells[n]) - {UNKNOWN} for n, each in enumerate(columns)]
    fitting = _fitting(columns, [n for n in range(len(columns)) if some[n]], widths, width)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, _GAP - 1, 0, 0), show_edge=False)
    for place, column_width in fitting.items():
        column = columns[place]
        justify = "left" if column.is_text else "right"
        table.add_column(column.title, justify=justify, no_wrap=True, width=column_width)  # type: ignore[arg-type]
    for number, row in enumerate(rows[:most_rows]):
        # As Text, since brackets in names would be read as markup.
        shown = (Text(cells[n][number]) for n in fitting)
        table.add_row(*shown, style="dim" if dim(row) else "")
    return table


def number(value: float | None, digits: int = 1) -> str:
    """Return the cell of a number, `-` where it is not known."""
    return UNKNOWN if value is None else f"{value:.{digits}f}"


def _fitting(
    columns: Sequence[Column[Row]], places: list[int], widths: Sequence[int], width: int
) -> dict[int, int]:
    """Return the width of each column that fits by its place."""
    least = [
        min(whole, _SHORTEST_TEXT) if column.is_text else whole
        for column, whole in zip(columns, widths, strict=True)
    ]

    def spare(needed: Sequence[int]) -> int:
        return width - sum(needed[place] + _GAP for place in places) + _GAP

    while spare(widths) < 0:
        worst = max(places, key=lambda place: (columns[place].rank, place))
        if columns[worst].rank == 0:
            break
        places.remove(worst)
    while spare(least) < 0 and len(places) > 1:
        places.pop()
    left, fitting = max(0, spare(least)), {}
    for place in places:
        fitting[place] = min(widths[place], least[place] + left)
        left -= fitting[place] - least[place]
    return fitting
