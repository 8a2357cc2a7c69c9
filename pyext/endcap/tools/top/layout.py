"""What of a live table is shown where the terminal is low: nothing is left out without a word."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

from endcap.terminal.console import PlainConsole, count


@dataclass(frozen=True)
class RowCount:
    """How many rows a table has, the busy ones first."""

    busy: int
    idle: int

    @property
    def all(self) -> int:
        """Busy or not."""
        return self.busy + self.idle

    def left_out(self, shown: int, noun: str) -> str:
        """Return what to say of the rows behind those shown: "9 idle models are not shown"."""
        busy = max(0, self.busy - shown)
        idle = self.all - shown - busy
        kinds = " and ".join(f"{n} {kind}" for n, kind in ((busy, "busy"), (idle, "idle")) if n)
        plural = "s are" if busy + idle > 1 else " is"
        return f"{kinds} {noun}{plural} not shown" if kinds else ""


def share_rows(models: RowCount, stages: RowCount, room: int | None) -> tuple[int, int]:
    """Return how many rows of each table are shown.

    Args:
        room: Lines for the rows of both, and for one line below either that has rows left out; None
            for any number. Busy rows come first; where even these are too many, stages get a third.
    """
    if room is None or models.all + stages.all <= room:
        return models.all, stages.all
    room = max(0, room - (2 if stages.all else 1))
    busy_stages = min(stages.busy, max(room - models.busy, room // 3))
    shown = min(models.all, room - busy_stages)
    return shown, min(stages.all, room - shown)


def lines_of(parts: Iterable[RenderableType], width: int) -> int:
    """Return how many lines they take in a terminal `width` characters wide."""
    console = PlainConsole(width=width)
    return sum(len(console.render_lines(part, pad=False)) for part in parts)


class Bounded:
    """Lines, at most so many: if there are more, the last one says how many are missing."""

    def __init__(self, parts: Sequence[RenderableType], height: int) -> None:
        self._parts = parts
        self._height = max(1, height)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield what fits."""
        options = options.update(height=None)
        lines = [each for part in self._parts for each in console.render_lines(part, options)]
        if len(lines) > self._height:
            missing = len(lines) - self._height + 1
            said = Text(f"{count(missing, 'line')} more: no room", style="yellow")
            said.truncate(options.max_width, overflow="ellipsis")
            lines = [*lines[: self._height - 1], *console.render_lines(said, options)]
        for line in lines:
            yield from line
            yield Segment.line()
