"""Result files: tables of medians and spreads as JSON, on the screen and as a picture.

`python -m benchmarks.results FILE.json` prints the tables of a file and draws its picture again.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import BUILD
from benchmarks.timing import Figure

RESULTS = Path(__file__).resolve().parent / "results"
OURS, PEER = "#0b7a75", "#b8bfc6"


@dataclass
class Table:
    """Figures of several peers (columns) on several tasks (rows).

    Attributes:
        unit: Of all figures.
        rows: None where a peer was not measured.
        notes: By column, or by row and column: how a peer was verified, or why it was not measured.
        drawn: Rows that become a panel of the picture.
    """

    name: str
    unit: str
    columns: list[str]
    rows: dict[str, list[Figure | None]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    drawn: list[str] = field(default_factory=list)


def write(name: str, machine: dict[str, Any], tables: Sequence[Table], *, quick: bool) -> Path:
    """Write NAME.json to benchmarks/results, or to build/bench-quick; return its path."""
    folder = BUILD / "bench-quick" if quick else RESULTS
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(to_json(machine, tables))
    return path


def to_json(machine: dict[str, Any], tables: Sequence[Table]) -> str:
    """Return the document with one line for each row of a table, and four digits a number."""
    document = {"machine": machine, "tables": [asdict(table) for table in tables]}
    text = json.dumps(_rounded(document), indent=1)
    lists = r"\[(?:[^\[\]{}]|\[[^\[\]{}]*\])*\]"  # of figures, and the lists that a figure is

    def join(found: re.Match[str]) -> str:
        return re.sub(r"\n\s*", "", re.sub(r",\n\s*", ", ", found[0]))

    return re.sub(lists, join, text) + "\n"


def read(path: Path) -> tuple[dict[str, Any], list[Table]]:
    """Return the machine and the tables of a result file."""
    document = json.loads(path.read_text())
    tables = [Table(**table) for table in document["tables"]]
    for table in tables:
        for name, row in table.rows.items():
            table.rows[name] = [cell and Figure(*cell) for cell in row]
    return document["machine"], tables


def announce(total: int) -> Callable[[str], None]:
    """Return a function that prints each step that is done to stderr."""
    begin, done = time.monotonic(), 0

    def say(what: str) -> None:
        nonlocal done
        done += 1
        minutes, seconds = divmod(int(time.monotonic() - begin), 60)
        print(f"[{done}/{total}, {minutes}:{seconds:02}] {what}", file=sys.stderr, flush=True)

    return say


def show(path: Path) -> None:
    """Print the tables of a result file."""
    from rich.console import Console
    from rich.table import Table as Grid

    machine, tables = read(path)
    console = Console()
    console.width = max(console.width, 150)  # of a file, too
    console.print(_heading(machine))
    for table in tables:
        grid = Grid("", title=f"{table.name}: {table.unit}", title_justify="left")
        for column in table.columns:
            grid.add_column(column, justify="right")
        for name, row in table.rows.items():
            grid.add_row(name, *(_number(cell.median) if cell else "-" for cell in row))
        console.print(grid)
        for name, note in table.notes.items():
            console.print(f"  {name}: {note}", markup=False)
    console.print(f"written: {path}", markup=False)


def draw(path: Path) -> None:
    """Write the picture of a result file: bars, endcap next to its peers."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    machine, tables = read(path)
    panels = [
        (f"{table.name}: {name}", table.unit, _bars(table, name))
        for table in tables
        for name in table.drawn
    ]
    panels = [panel for panel in panels if panel[2]]
    splits = [(panels[:first], panels[first:]) for first in range(1, len(panels))]
    columns = min(splits, key=lambda split: max(map(_height, split)))
    size = (11, 0.2 * max(map(_height, columns)) + 0.6)
    figure = pyplot.figure(figsize=size, layout="constrained")
    better = "less is better, of images/s more"
    figure.suptitle(f"{_heading(machine)}; {better}", fontsize=8, color="#555555")
    for part, column in zip(figure.subfigures(1, 2), columns, strict=True):
        ratios = [len(bars) for *_, bars in column]
        axes = part.subplots(len(column), 1, height_ratios=ratios, squeeze=False)[:, 0]
        for axis, (title, unit, bars) in zip(axes, column, strict=True):
            _draw_panel(axis, title, unit, bars)
    figure.savefig(path.with_suffix(".png"), dpi=120)
    pyplot.close(figure)


def _height(panels: Sequence[tuple[str, str, dict[str, float]]]) -> float:
    return sum(len(bars) + 1.8 for *_, bars in panels)  # with the title


def _draw_panel(axis: Any, title: str, unit: str, bars: dict[str, float]) -> None:
    colors = [OURS if "endcap" in name else PEER for name in bars]
    drawn = axis.barh(list(bars), list(bars.values()), color=colors, height=0.72)
    labels = [_number(value) for value in bars.values()]
    axis.bar_label(drawn, labels=labels, padding=3, fontsize=8)
    axis.set_title(f"{title}, {unit}", fontsize=8, loc="left", weight="bold")
    axis.set_ylim(len(bars) - 0.5, -0.5)
    axis.set_xlim(0, max(bars.values()) * 1.15)
    axis.xaxis.set_visible(False)
    axis.tick_params(axis="y", length=0, labelsize=8)
    axis.spines[["top", "right", "bottom"]].set_visible(False)


def _bars(table: Table, row: str) -> dict[str, float]:
    cells = zip(table.columns, table.rows[row], strict=True)
    return {name: cell.median for name, cell in cells if cell}


def _heading(machine: dict[str, Any]) -> str:
    return (
        f"{machine['cpu']}, {machine['cpus']} CPUs, commit {machine['commit']}, "
        f"{machine['date'][:10]}, load average {machine['load_average']}"
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, (list, tuple)) else value


if __name__ == "__main__":
    for file in map(Path, sys.argv[1:]):
        show(file)
        draw(file)
