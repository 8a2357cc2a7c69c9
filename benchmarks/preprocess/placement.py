"""Where a letterboxed picture lies in the square: the arithmetic that the peers share."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.preprocess import SIZE


@dataclass(frozen=True)
class Placement:
    """A resized picture inside the square, in pixels."""

    width: int
    height: int
    left: int
    top: int

    @property
    def rows(self) -> slice:
        """Rows of the square that the picture covers."""
        return slice(self.top, self.top + self.height)

    @property
    def columns(self) -> slice:
        """Columns of the square that the picture covers."""
        return slice(self.left, self.left + self.width)


def letterbox(width: int, height: int) -> Placement:
    """As ultralytics' LetterBox does it: sizes rounded, an odd pixel of padding goes behind."""
    ratio = min(SIZE / width, SIZE / height)
    new_width, new_height = round(width * ratio), round(height * ratio)
    return Placement(
        width=new_width,
        height=new_height,
        left=round((SIZE - new_width) / 2 - 0.1),
        top=round((SIZE - new_height) / 2 - 0.1),
    )
