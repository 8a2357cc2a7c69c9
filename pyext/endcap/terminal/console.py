"""Consoles of the commands, and text that is safe to print."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

_CHECK_NAME_WIDTH = 15


class PlainConsole(Console):
    """A console that escapes control characters in texts from files and servers.

    Names of files, models, classes and tensors may hold any. Styles and the console's own control
    codes are kept.
    """

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield the segments with their texts escaped."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            if control or text.isprintable():
                yield segment
            else:
                yield Segment(printable_lines(text), style)


def printable_lines(text: str) -> str:
    """Return the text with control characters escaped, except for line ends."""
    return "\n".join(map(printable, text.split("\n")))


def printable(text: str) -> str:
    """Return the text with control characters escaped."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )


def count(number: int, noun: str) -> str:
    """Return "1 picture" or "2 pictures"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def print_check(name: str, value: str, problem: str | None) -> None:
    """Print a line about a check that passed or, with `problem`, failed."""
    console = PlainConsole(highlight=False, soft_wrap=True)
    style, mark = ("bold red", "error") if problem else ("green", "ok")
    line = Text.assemble((f"{mark:>5}  ", style), f"{name:<{_CHECK_NAME_WIDTH}}")
    console.print(line + Text(printable(value)))
    if problem:
        console.print(Text(" " * 7 + printable(problem), style="bold"))
