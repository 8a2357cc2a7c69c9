"""The consoles that commands print to."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment


class PlainConsole(Console):
    """A console to which texts from files and servers cannot give orders.

    Control characters in what is printed, which terminals obey, are shown as escape codes: names of
    files, models, classes and tensors may hold any. Styles and the console's own codes are kept.
    """

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Generate the segments of what is printed, their texts printable."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            if control or text.isprintable():
                yield segment
            else:
                yield Segment(printable_lines(text), style)


def printable_lines(text: str) -> str:
    """Return the text with control characters escaped, but for the ends of lines."""
    return "\n".join(map(printable, text.split("\n")))


def printable(text: str) -> str:
    """Return the text with control characters escaped: a file's name may hold any."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )


def count(number: int, noun: str) -> str:
    """Return "1 picture" or "2 pictures"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
